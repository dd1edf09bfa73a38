//! Registries that lie: each answer is sent as it stands here.

use super::*;
use crate::dispatch::http::HttpConfig;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// A server on this machine that answers by `answer`, which gets the first line of a request; and
/// the heads of all requests.
fn server(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let record = Arc::clone(&heads);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
            let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            let Some(first) = head.first().cloned() else { continue };
            record.lock().unwrap().push(head.join("\n").to_lowercase());
            let _ = stream.write_all(&answer(&first));
        }
    });
    (host, heads)
}

fn ok(body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn status(line: &str, field: &str) -> Vec<u8> {
    format!("HTTP/1.1 {line}\r\nconnection: close\r\ncontent-length: 0\r\n{field}\r\n\r\n").into_bytes()
}

fn registries(folder: Option<&Path>) -> Registries {
    let config = HttpConfig { permissions: vec!["127.0.0.1".parse().unwrap()], ..HttpConfig::default() };
    Registries::new(config, folder.map(Path::to_owned)).credentials(None)
}

fn pull(host: &str, suffix: &str) -> Result<Pulled, RegistryError> {
    registries(None).pull(&format!("oci://{host}/a{suffix}").parse().unwrap(), &|| false)
}

/// A registry with this manifest and this layer.
fn registry(manifest: Vec<u8>, layer: Vec<u8>) -> String {
    server(move |line| if line.contains("/manifests/") { ok(&manifest) } else { ok(&layer) }).0
}

#[test]
fn bytes_are_those_of_their_digests_or_refused() {
    let (_, honest) = manifest::of(b"component", "a.wasm");
    let digest = sha256(&honest);
    let pinned = format!("@{digest}");
    let pulled = pull(&registry(honest.clone(), b"component".to_vec()), &pinned).unwrap();
    assert_eq!((&pulled.bytes[..], &pulled.digest), (&b"component"[..], &digest));

    let (_, other) = manifest::of(b"another", "a.wasm");
    for (manifest, layer, suffix, expected) in [
        (other.clone(), b"another".to_vec(), &*pinned, "its manifest is not the one"),
        (honest.clone(), b"componens".to_vec(), "", "not those that its manifest names"),
        (honest.clone(), b"componen".to_vec(), "", "not those that its manifest names"),
        (honest.clone(), vec![0; 1 << 20], "", "more than 9 bytes"),
        (vec![b' '; 2 << 20], Vec::new(), "", "more than 1048576 bytes"),
        (b"<html>".to_vec(), Vec::new(), "", "not JSON"),
    ] {
        let error = pull(&registry(manifest, layer), suffix).unwrap_err();
        assert!(error.message.contains(expected), "{}", error.message);
    }
    let text = String::from_utf8(honest).unwrap().replace("\"size\":9", "\"size\":9999999999");
    let error = pull(&registry(text.into_bytes(), Vec::new()), "").unwrap_err();
    assert!(error.message.contains("9999999999 bytes"), "{}", error.message);
}

#[test]
fn what_is_kept_is_checked_again() {
    let folder = tempfile::tempdir().unwrap();
    let (_, manifest) = manifest::of(b"component", "a.wasm");
    let host = registry(manifest.clone(), b"component".to_vec());
    let reference: Reference = format!("oci://{host}/a@{}", sha256(&manifest)).parse().unwrap();
    let registries = registries(Some(folder.path()));
    registries.pull(&reference, &|| false).unwrap();
    for file in std::fs::read_dir(folder.path()).unwrap() {
        std::fs::write(file.unwrap().path(), b"something else").unwrap();
    }
    assert_eq!(registries.pull(&reference, &|| false).unwrap().bytes, &b"component"[..]);
}

#[test]
fn a_redirect_carries_no_credentials_elsewhere_and_has_an_end() {
    let (_, manifest) = manifest::of(b"component", "a.wasm");
    let (elsewhere, heads) = server(|_| ok(b"component"));
    let target = format!("location: http://{elsewhere}/blob");
    let (host, own) =
        server(
            move |line| {
                if line.contains("/manifests/") { ok(&manifest) } else { status("307 Temporary Redirect", &target) }
            },
        );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, format!("{{\"auths\": {{\"{host}\": {{\"auth\": \"YTpi\"}}}}}}")).unwrap();
    let registries = registries(None).credentials(Some(file.path().to_owned()));
    registries.pull(&format!("oci://{host}/a").parse().unwrap(), &|| false).unwrap();
    assert!(!heads.lock().unwrap()[0].contains("authorization"), "{heads:?}");
    assert!(!own.lock().unwrap()[0].contains("authorization"), "it was not asked for: {own:?}");

    let (host, heads) = server(|_| status("302 Found", "location: /again"));
    assert!(pull(&host, "").unwrap_err().message.contains("redirects too often"));
    assert_eq!(heads.lock().unwrap().len(), 6);
    let (host, _) = server(|_| status("302 Found", "location: file:///etc/passwd"));
    assert!(pull(&host, "").unwrap_err().message.contains("not encrypted"));
}

#[test]
fn a_challenge_cannot_be_repeated_for_ever_or_lead_to_a_refused_address() {
    let (host, heads) = server(|_| status("401 Unauthorized", "www-authenticate: Basic realm=x"));
    assert!(pull(&host, "").unwrap_err().message.contains("access is denied"));
    assert_eq!(heads.lock().unwrap().len(), 1);
    let field = "www-authenticate: Bearer realm=\"http://169.254.169.254/latest\"";
    let (host, _) = server(move |_| status("401 Unauthorized", field));
    let error = pull(&host, "").unwrap_err();
    assert!(error.message.contains("not encrypted"), "{}", error.message);
    let field = "www-authenticate: Bearer realm=\"https://169.254.169.254/latest\"";
    let (host, _) = server(move |_| status("401 Unauthorized", field));
    let error = pull(&host, "").unwrap_err();
    assert!(error.message.contains("does not permit"), "{}", error.message);
}

#[test]
fn a_registry_that_never_answers_is_left_when_the_pull_is_cancelled() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let reference: Reference = format!("oci://{}/a", listener.local_addr().unwrap()).parse().unwrap();
    let begun = std::time::Instant::now();
    let error = registries(None).pull(&reference, &|| begun.elapsed().as_millis() > 100).unwrap_err();
    assert_eq!(error.message, "it was cancelled");
}

#[test]
fn only_permitted_addresses_are_reached() {
    let reference: Reference = "oci://127.0.0.1:1/a".parse().unwrap();
    let registries = Registries::new(HttpConfig::default(), None).credentials(None);
    let error = registries.pull(&reference, &|| false).unwrap_err();
    assert!(error.message.contains("does not permit"), "{}", error.message);
    assert!(error.hint.unwrap().contains("--allow-address 127.0.0.1"));
}
