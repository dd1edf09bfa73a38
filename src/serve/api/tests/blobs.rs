//! Blobs: what is uploaded, who can use it, and ranges of what is downloaded.

use super::Server;
use crate::serve::access::Scope;
use axum::body::Body;
use axum::http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower_service::Service as _;

const WORKFLOW: &str = "name: takes
inputs: { data: { type: blob } }
steps: [{ id: head, call: blob.get, with: { blob: \"${ .inputs.data }\", length: 3 } }]
outputs: { head: \"${ .steps.head.output }\", data: \"${ .inputs.data }\" }";

impl Server {
    async fn sends(
        &self,
        token: &str,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Body,
    ) -> Response<Body> {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.header("authorization", format!("Bearer {token}"));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        self.router.clone().call(request.body(body).unwrap()).await.unwrap()
    }

    async fn uploads(&self, token: &str, bytes: impl Into<Body>) -> Value {
        let response =
            self.sends(token, Method::POST, "/v1/blobs", &[("content-type", "text/csv")], bytes.into()).await;
        assert_eq!(response.status(), 201);
        serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap()
    }

    async fn downloads(&self, path: &str, headers: &[(&str, &str)]) -> (u16, String, Vec<u8>) {
        let response = self.sends(&self.token, Method::GET, path, headers, Body::empty()).await;
        let range = response.headers().get("content-range").map(|range| range.to_str().unwrap().to_owned());
        let status = response.status().as_u16();
        (status, range.unwrap_or_default(), response.into_body().collect().await.unwrap().to_bytes().to_vec())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_is_an_input_of_who_sent_it_and_is_downloaded_from_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    server.deploys(WORKFLOW);
    let bytes: Vec<u8> = (0..1_000_000_u32).map(|number| number as u8).collect();
    let [one, other] = [0, 1].map(|_| server.token_of(&[Scope::RunsStart, Scope::RunsPayloads, Scope::RunsRead], &[]));
    let blob = server.uploads(&one, bytes.clone()).await;
    let digest = format!("blake3:{}", blake3::hash(&bytes).to_hex());
    assert_eq!(blob, json!({ "digest": digest, "size": 1_000_000, "media-type": "text/csv" }));
    // Whoever knows the digest does not have the blob.
    let body = json!({ "run-id": "it", "inputs": { "data": blob } });
    let path = "/v1/workflows/takes/runs";
    let stolen = server.asks_as(&other, Method::POST, path, &[], Some(body.clone())).await;
    assert_eq!(stolen.problem().0, 422, "{}", stolen.text);
    let _ = server.asks_as(&one, Method::POST, path, &[], Some(body)).await.is(201);
    assert_eq!(server.ends("it").await["outputs"]["head"], "\u{0}\u{1}\u{2}");
    let listed = server.gets("/v1/runs/it/blobs").await.is(200);
    assert_eq!(listed, json!({ "items": [blob] }));
    let path = format!("/v1/runs/it/blobs/{digest}");
    assert_eq!(server.downloads(&path, &[]).await, (200, String::new(), bytes.clone()));
    for (range, expected) in [
        ("bytes=0-9", (206, "bytes 0-9/1000000".to_owned(), bytes[..10].to_vec())),
        ("bytes=300000-", (206, "bytes 300000-999999/1000000".to_owned(), bytes[300_000..].to_vec())),
        ("bytes=-5", (206, "bytes 999995-999999/1000000".to_owned(), bytes[999_995..].to_vec())),
    ] {
        assert_eq!(server.downloads(&path, &[("range", range)]).await, expected, "{range}");
    }
    let (status, range, _) = server.downloads(&path, &[("range", "bytes=1000000-")]).await;
    assert_eq!((status, range.as_str()), (416, "bytes */1000000"));
    let tag = format!("\"{digest}\"");
    assert_eq!(server.downloads(&path, &[("if-none-match", &tag)]).await.0, 304);
    let changed = [("range", "bytes=0-9"), ("if-range", "\"another\"")];
    assert_eq!(server.downloads(&path, &changed).await.0, 200);
    let head = server.sends(&server.token, Method::HEAD, &path, &[], Body::empty()).await;
    assert_eq!((head.status().as_u16(), &head.headers()["content-length"]), (200, &"1000000".parse().unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_needs_the_right_to_the_run_and_a_blob_that_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    server.deploys(WORKFLOW);
    let blob = server.uploads(&server.token, "a,b").await;
    server.begins("takes", "it", json!({ "data": blob })).await;
    server.ends("it").await;
    server.begins("flaky", "bare", json!({ "ok": true })).await;
    let digest = blob["digest"].as_str().unwrap();
    let path = format!("/v1/runs/it/blobs/{digest}");
    for (scopes, workflows, status) in [
        (&[Scope::RunsPayloads][..], &["takes"][..], 200),
        (&[Scope::RunsRead], &[], 403),
        (&[Scope::RunsPayloads], &["flaky"], 404),
    ] {
        let token = server.token_of(scopes, workflows);
        assert_eq!(server.sends(&token, Method::GET, &path, &[], Body::empty()).await.status().as_u16(), status);
    }
    let of_another = format!("/v1/runs/bare/blobs/{digest}");
    assert_eq!(server.gets(&of_another).await.problem(), (404, "unknown".to_owned()));
    assert_eq!(server.gets("/v1/runs/it/blobs/blake3:..%2F..").await.problem(), (404, "unknown".to_owned()));
}
