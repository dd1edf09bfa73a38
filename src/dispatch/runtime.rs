//! The tokio runtime of the handlers: the embedder's, or one of our own.

use std::sync::OnceLock;
use tokio::runtime::{Builder, Handle, Runtime};

/// Threads of our own runtime. Handlers wait more than they compute; arbitrary.
const THREADS: usize = 2;

/// Threads of our own runtime for blocking work: name resolution, checks of large arguments.
/// Arbitrary.
const BLOCKING_THREADS_MAX: usize = 32;

/// The runtime on which the futures of handlers run.
pub(super) enum HandlerRuntime {
    /// The embedder's.
    Given(Handle),
    /// Our own, started by the first call that waits: a run of pure guests never starts it. `None`
    /// if it could not be started.
    Owned(OnceLock<Option<Runtime>>),
}

impl HandlerRuntime {
    /// Returns the runtime; `None` if it could not be started.
    pub(super) fn handle(&self) -> Option<&Handle> {
        match self {
            Self::Given(handle) => Some(handle),
            Self::Owned(runtime) => runtime.get_or_init(start).as_ref().map(Runtime::handle),
        }
    }
}

fn start() -> Option<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(THREADS)
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_name("wfhost-handlers")
        .enable_all()
        .build()
        .ok()
}

impl Drop for HandlerRuntime {
    fn drop(&mut self) {
        // Dropping a runtime waits for its threads, which panics in async context; this does not
        // wait.
        if let Self::Owned(runtime) = self
            && let Some(Some(runtime)) = runtime.take()
        {
            runtime.shutdown_background();
        }
    }
}
