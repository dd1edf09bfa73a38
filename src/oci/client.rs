//! Pulling and pushing.

use super::blobs::Blobs;
use super::exchange::{Request, Session};
use super::manifest::{self, ACCEPTED, Descriptor, MANIFEST};
use super::reference::Reference;
use super::{Pulled, RegistryError, credentials, sha256};
use crate::dispatch::http::{HttpConfig, client};
use crate::guest::COMPONENT_BYTES_MAX;
use bytes::Bytes;
use http::{Method, StatusCode};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a manifest at most. Arbitrary: one of a component has 600.
const MANIFEST_BYTES_MAX: u64 = 1 << 20;

/// How often a pull looks whether it was cancelled.
const CANCEL_POLL: Duration = Duration::from_millis(50);

/// The media type of a body whose type does not matter.
const BYTES: &str = "application/octet-stream";

/// Access to registries, with the operator's settings.
#[derive(Clone, Debug)]
pub struct Registries {
    http: Arc<HttpConfig>,
    credentials: Option<PathBuf>,
    blobs: Blobs,
}

impl Registries {
    /// Makes an access whose connections go to public addresses and to those that `http` permits.
    /// Credentials come from the usual file; what is pulled is kept in `folder`.
    #[must_use]
    pub fn new(http: HttpConfig, folder: Option<PathBuf>) -> Self {
        Self { http: Arc::new(http), credentials: credentials::file(), blobs: Blobs(folder) }
    }

    /// Sets the file with the credentials; `None` uses none.
    #[must_use]
    pub fn credentials(mut self, file: Option<PathBuf>) -> Self {
        self.credentials = file;
        self
    }

    /// Pulls a component, and verifies it. A reference with a digest is answered from the folder,
    /// if it was pulled before. Blocks; `is_cancelled` is asked from another thread.
    ///
    /// # Errors
    /// Says why the component cannot be had.
    pub fn pull(
        &self,
        reference: &Reference,
        is_cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<Pulled, RegistryError> {
        if let Some(kept) = self.kept(reference) {
            return Ok(kept);
        }
        block_on(self.fetch(reference), is_cancelled)
    }

    /// Pushes a component under the reference's tag. `title` is its file's name. Returns the
    /// manifest's digest. Blocks.
    ///
    /// # Errors
    /// Says why it cannot be pushed.
    pub fn push(&self, reference: &Reference, component: &[u8], title: &str) -> Result<String, RegistryError> {
        block_on(self.send(reference, component, title), &|| false)
    }

    /// A pinned component that was pulled before.
    fn kept(&self, reference: &Reference) -> Option<Pulled> {
        let digest = reference.digest()?;
        let manifest = self.blobs.read(digest, MANIFEST_BYTES_MAX)?;
        let Descriptor { digest: layer, bytes } = manifest::component(&manifest).ok()?;
        let bytes = self.blobs.read(&layer, bytes.min(COMPONENT_BYTES_MAX as u64))?;
        Some(Pulled { bytes, digest: digest.to_owned() })
    }

    fn session<'a>(&self, reference: &'a Reference, actions: &'static str) -> Result<Session<'a>, RegistryError> {
        let client = client(&self.http).map_err(|error| RegistryError::new(error.to_string()))?;
        Session::new(client, reference, actions, self.credentials.as_deref())
    }

    async fn fetch(&self, reference: &Reference) -> Result<Pulled, RegistryError> {
        let mut session = self.session(reference, "pull")?;
        let url = session.url(&format!("manifests/{}", reference.name()));
        let manifest = get(&mut session, url, ACCEPTED, MANIFEST_BYTES_MAX).await?;
        let digest = sha256(&manifest);
        if reference.digest().is_some_and(|asked| asked != digest) {
            return Err(session.wrong(&format!("its manifest is not the one that {reference} names but {digest}")));
        }
        let layer = manifest::component(&manifest)?;
        if layer.bytes > COMPONENT_BYTES_MAX as u64 {
            let bytes = layer.bytes;
            return Err(
                session.wrong(&format!("the component has {bytes} bytes; at most {COMPONENT_BYTES_MAX} are compiled"))
            );
        }
        let bytes = match self.blobs.read(&layer.digest, layer.bytes) {
            Some(kept) => kept,
            None => {
                let url = session.url(&format!("blobs/{}", layer.digest));
                let bytes = get(&mut session, url, BYTES, layer.bytes).await?;
                if sha256(&bytes) != layer.digest || bytes.len() as u64 != layer.bytes {
                    return Err(session.wrong("the component's bytes are not those that its manifest names"));
                }
                self.blobs.write(&layer.digest, &bytes);
                bytes
            }
        };
        self.blobs.write(&digest, &manifest);
        Ok(Pulled { bytes, digest })
    }

    async fn send(&self, reference: &Reference, component: &[u8], title: &str) -> Result<String, RegistryError> {
        let mut session = self.session(reference, "pull,push")?;
        let (config, manifest) = manifest::of(component, title);
        let digest = sha256(&manifest);
        if reference.digest().is_some_and(|asked| asked != digest) {
            return Err(RegistryError::new(format!(
                "the artifact's digest is {digest}, not the one that the reference names"
            ))
            .with_hint("push by a tag: the digest is printed"));
        }
        upload(&mut session, &config).await?;
        upload(&mut session, component).await?;
        let request = Request {
            method: Method::PUT,
            url: session.url(&format!("manifests/{}", reference.tag_or_default())),
            media_type: MANIFEST,
            body: manifest.into(),
            bytes_max: MANIFEST_BYTES_MAX,
        };
        let answer = session.send(&request).await?;
        if answer.status == StatusCode::CREATED { Ok(digest) } else { Err(session.unexpected(&answer)) }
    }
}

async fn get(
    session: &mut Session<'_>,
    url: url::Url,
    media_type: &'static str,
    bytes_max: u64,
) -> Result<Bytes, RegistryError> {
    let request = Request { method: Method::GET, url, media_type, body: Bytes::new(), bytes_max };
    let answer = session.send(&request).await?;
    if answer.status == StatusCode::OK { Ok(answer.body) } else { Err(session.unexpected(&answer)) }
}

/// Uploads a blob in one piece, unless the registry has it.
async fn upload(session: &mut Session<'_>, blob: &[u8]) -> Result<(), RegistryError> {
    let digest = sha256(blob);
    let url = session.url(&format!("blobs/{digest}"));
    let head = Request { method: Method::HEAD, url, media_type: BYTES, body: Bytes::new(), bytes_max: 0 };
    if session.send(&head).await?.status == StatusCode::OK {
        return Ok(());
    }
    let url = session.url("blobs/uploads/");
    let begin =
        Request { method: Method::POST, url, media_type: BYTES, body: Bytes::new(), bytes_max: MANIFEST_BYTES_MAX };
    let answer = session.send(&begin).await?;
    if answer.status != StatusCode::ACCEPTED {
        return Err(session.unexpected(&answer));
    }
    let mut url = session.location(&begin.url, &answer.headers)?;
    url.query_pairs_mut().append_pair("digest", &digest);
    let put = Request {
        method: Method::PUT,
        url,
        media_type: BYTES,
        body: Bytes::copy_from_slice(blob),
        bytes_max: MANIFEST_BYTES_MAX,
    };
    let answer = session.send(&put).await?;
    if answer.status == StatusCode::CREATED { Ok(()) } else { Err(session.unexpected(&answer)) }
}

/// Waits for a future on a thread and a runtime of its own: the caller may be on any thread.
fn block_on<T: Send>(
    future: impl Future<Output = Result<T, RegistryError>> + Send,
    is_cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<T, RegistryError> {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| RegistryError::new(format!("no thread can wait: {error}")))?;
        runtime.block_on(async {
            let cancelled = async {
                while !is_cancelled() {
                    tokio::time::sleep(CANCEL_POLL).await;
                }
            };
            tokio::select! {
                result = future => result,
                () = cancelled => Err(RegistryError::new("it was cancelled")),
            }
        })
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("wfhost-oci".to_owned()).spawn_scoped(scope, run);
        match thread.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(error) => Err(RegistryError::new(format!("no thread can be started: {error}"))),
        }
    })
}
