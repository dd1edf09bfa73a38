//! The signals that end `wfhost dev`.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tokio::signal::unix::{SignalKind, signal};

/// Whether a signal has come.
#[derive(Clone, Debug, Default)]
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Listens for Ctrl-C, a termination, and the end of the terminal.
    pub(super) fn listen() -> io::Result<Self> {
        let stop = Self::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let flag = stop.clone();
        let entered = runtime.enter();
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        drop(entered);
        let listen = move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hang_up.recv() => {}
                }
            });
            // It carries no data: its reader only stops.
            flag.0.store(true, Relaxed);
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(listen)?;
        Ok(stop)
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.0.load(Relaxed)
    }
}
