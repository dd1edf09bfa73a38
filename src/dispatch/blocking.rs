//! Work of handlers that waits for a disk.

use crate::run::BlobError;

/// Does something with blobs on a thread that no process and no other call waits for.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BlobError> + Send + 'static,
) -> Result<T, BlobError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(BlobError::Unusable("the work with a blob panicked".to_owned())))
}
