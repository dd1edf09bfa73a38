//! Placeholders in texts.

use super::*;
use crate::dispatch::SecretSource;
use crate::process::secret::PlaceholderKey;
use crate::process::{Blob, Payload};
use crate::run::{BlobBounds, BlobCheck, BlobError, BlobReader, BlobStore, BlobWriter, RunBlobs};
use bytes::Bytes;
use http_body::{Body, Frame};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Poll};

fn found(text: &str) -> Vec<(usize, String)> {
    find(text.as_bytes()).map(|found| (found.range.start, found.name.to_owned())).collect()
}

#[test]
fn placeholders_are_found_by_their_form() {
    let key = PlaceholderKey::of_seed(&[1; 32]);
    let (a, b) = (key.placeholder("A"), key.placeholder("S3_KEY_2"));
    assert_eq!(found(&a), [(0, "A".to_owned())]);
    assert_eq!(found(&format!("x{a}{b}")), [(1, "A".to_owned()), (1 + a.len(), "S3_KEY_2".to_owned())]);
    // Of any run, and of digits in capitals.
    assert_eq!(found(&format!("{PREFIX}K-{}", "F".repeat(32))).len(), 1);
    for text in [
        "",
        PREFIX,
        "wfhost-secret-A",
        &format!("{PREFIX}-{}", "0".repeat(32)),
        &format!("{PREFIX}a-b-{}", "0".repeat(32)),
        &format!("{PREFIX}A-{}", "0".repeat(31)),
        &format!("{PREFIX}A-{}", "g".repeat(32)),
        &format!("{PREFIX}{}-{}", "A".repeat(65), "0".repeat(32)),
        &a.replace("secret", "secre"),
    ] {
        assert_eq!(found(text), [], "{text}");
    }
}

#[test]
fn values_are_taken_out_of_the_fields_of_a_response_and_of_their_names() {
    let source = crate::dispatch::SecretSource::function(|| Ok(b"abc0123456789def".to_vec()));
    let store = Arc::new(Secrets::default().with("API_KEY", source, None).unwrap());
    store.check(["API_KEY"]).unwrap();
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("X-ABC0123456789def", "1"),
        ("x-abc0123456789DEF", "2"),
        ("x-%61bc0123456789def", "3"),
        ("location", "/abc0123456789def"),
        ("x-abc", "abc"),
    ] {
        headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_static(value));
    }
    CallSecrets::new(&store, &Grants::default(), false).redact_headers(&mut headers);
    let mut fields: Vec<(&str, &str)> =
        headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    fields.sort_unstable();
    let redacted = "x-secret-api_key";
    assert_eq!(
        fields,
        [("location", "/[secret API_KEY]"), ("x-abc", "abc"), (redacted, "1"), (redacted, "2"), (redacted, "3")]
    );
}

#[test]
fn who_would_get_a_value_in_plain_text_is_told_what_may() {
    let told = |url: &str| CallSecrets::without_tls("KEY", &url.parse().unwrap()).detail.unwrap();
    let localhost = told("http://localhost:8731/x?y");
    assert!(localhost.starts_with("KEY: http://localhost:8731 would receive it without TLS: "), "{localhost}");
    assert!(localhost.ends_with("an address such as 127.0.0.1 may"), "{localhost}");
    for url in ["http://127.0.0.1:8731", "http://[::1]:8731"] {
        assert_eq!(told(url), format!("KEY: {url} would receive it without TLS, which the operator does not permit"));
    }
    assert_eq!(told("http://a.example/x"), "KEY: http://a.example would receive it without TLS");
}

proptest::proptest! {
    #[test]
    fn no_text_is_a_fault(bytes: Vec<u8>, cut in 0_usize..60) {
        let text = PlaceholderKey::of_seed(&[1; 32]).placeholder("KEY");
        let whole = [&bytes, &text.as_bytes()[..cut.min(text.len())], &bytes].concat();
        find(&whole).for_each(drop);
        let whole = [&bytes, text.as_bytes(), &bytes].concat();
        proptest::prop_assert!(find(&whole).any(|found| found.text == text));
    }
}

#[tokio::test]
async fn a_field_with_a_value_shows_it_to_nobody_but_the_server() {
    let source = SecretSource::function(|| Ok(b"0123456789".to_vec()));
    let store = Arc::new(Secrets::default().with("KEY", source, None).unwrap());
    let placeholder = PlaceholderKey::of_seed(&[1; 32]).placeholder("KEY");
    let (hosts, fields) = (vec!["a.example".to_owned()], vec!["authorization".to_owned()]);
    let grant = SecretGrant { name: "KEY".to_owned(), placeholder: placeholder.clone(), hosts, headers: fields };
    let grants = SecretGrant::add(&[grant], &Grants::default());
    let mut headers = HeaderMap::from_iter([(header::AUTHORIZATION, placeholder.parse().unwrap())]);
    let secrets = CallSecrets::new(&store, &grants, false);
    secrets.put_in(&"https://a.example/".parse().unwrap(), &mut headers).await.unwrap();
    assert_eq!(headers[header::AUTHORIZATION], "0123456789");
    assert!(headers[header::AUTHORIZATION].is_sensitive() && !format!("{headers:?}").contains("0123456789"));
}

/// A store that keeps what is written, of all blobs.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl BlobWriter for Kept {
    fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(())
    }

    fn size(&self) -> u64 {
        self.0.lock().unwrap().len() as u64
    }

    fn finish(self: Box<Self>, media_type: &str) -> Result<Blob, BlobError> {
        Ok(Blob { digest: String::new(), size: self.size(), media_type: media_type.to_owned() })
    }
}

impl BlobStore for Kept {
    fn create(&self, _: &str, _: &BlobBounds) -> Result<Box<dyn BlobWriter>, BlobError> {
        Ok(Box::new(self.clone()))
    }

    fn open(&self, _: &str, digest: &str) -> Result<Box<dyn BlobReader>, BlobError> {
        Err(BlobError::unknown(digest))
    }

    fn held_by(&self, _: &str) -> Result<Vec<Blob>, BlobError> {
        Ok(Vec::new())
    }

    fn share(&self, digest: &str, _: &str, _: &str, _: &BlobBounds) -> Result<(), BlobError> {
        Err(BlobError::unknown(digest))
    }

    fn release(&self, _: &str) -> Result<(), BlobError> {
        Ok(())
    }

    fn check(&self, _: usize) -> Result<BlobCheck, BlobError> {
        Ok(BlobCheck::default())
    }

    fn sweep(&self) -> Result<u64, BlobError> {
        Ok(0)
    }
}

/// A body that arrives in these parts.
struct Parts(VecDeque<Bytes>);

impl Body for Parts {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        Poll::Ready(self.0.pop_front().map(|part| Ok(Frame::data(part))))
    }
}

#[tokio::test]
async fn a_value_is_found_wherever_a_response_that_becomes_a_blob_is_cut() {
    const VALUE: &str = "0123456789abcdef";
    let store = Arc::new(Secrets::default().with("KEY", SecretSource::function(|| Ok(VALUE.into())), None).unwrap());
    store.check(["KEY"]).unwrap();
    let secrets = CallSecrets::new(&store, &Grants::default(), false);
    let args = Payload::json(&serde_json::json!({ "url": "https://a.example/" }));
    let request = Request::read(&args, "key", &super::super::HttpConfig::default()).unwrap();
    // Parts of a length that no value has, so that they end at each place of one.
    let line = format!("{VALUE}\n");
    let text = line.repeat(40_000);
    let parts = text.as_bytes().chunks(9_999).map(Bytes::copy_from_slice).collect();
    let kept = Kept::default();
    let blobs = RunBlobs::new(Arc::new(kept.clone()), "run".into(), BlobBounds::default());
    let headers = HeaderMap::new();
    let stored = super::super::body::store(&request, &headers, Parts(parts), u64::MAX, (&blobs, &secrets)).await;
    let written = String::from_utf8(std::mem::take(&mut *kept.0.lock().unwrap())).unwrap();
    assert_eq!(stored.unwrap().size, written.len() as u64);
    assert!(written == "[secret KEY]\n".repeat(40_000), "{}", written.len());
}
