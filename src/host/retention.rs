//! How long a host retains runs that have ended.

use super::{Host, Shared};
use crate::journal::Retention;
use crate::process::Timestamp;
use crate::run::system_time;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The longest and the shortest time between two looks for runs to remove.
const LOOK_EVERY: (Duration, Duration) = (Duration::from_hours(1), Duration::from_secs(1));

/// How long runs that have ended stay in the folder of durable runs. A run that is removed frees
/// its id, and its idempotency key.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RetentionPolicy {
    /// How long after their end; `None`: for ever.
    pub ended_for: Option<Duration>,
    /// How many, the newest; `None`: all.
    pub runs_max: Option<u64>,
}

impl RetentionPolicy {
    /// Whether every run stays.
    #[must_use]
    pub fn is_for_ever(&self) -> bool {
        self.ended_for.is_none() && self.runs_max.is_none()
    }

    fn at(&self, now: Timestamp) -> Retention {
        let before =
            |age: Duration| Timestamp(now.0.saturating_sub(u64::try_from(age.as_micros()).unwrap_or(u64::MAX)));
        Retention { ended_before: self.ended_for.map(before), runs_max: self.runs_max }
    }

    /// A tenth of what is promised, so that no run stays much longer.
    fn look_every(&self) -> Duration {
        let (max, min) = LOOK_EVERY;
        self.ended_for.map_or(max, |age| (age / 10).clamp(min, max))
    }
}

/// The thread that removes runs. It ends when this is dropped.
pub(super) struct Sweeper {
    _alive: SyncSender<()>,
}

impl Sweeper {
    /// Starts the thread.
    ///
    /// # Errors
    /// The operating system starts no thread.
    pub(super) fn start(policy: RetentionPolicy, host: Weak<Shared>) -> std::io::Result<Self> {
        let (alive, ended) = sync_channel(0);
        let sweep = move || sweep_until(&policy, &host, &ended);
        std::thread::Builder::new().name("wfhost-sweeper".to_owned()).spawn(sweep)?;
        Ok(Self { _alive: alive })
    }
}

impl Host {
    /// Retains runs that have ended as this policy says.
    pub(super) fn retain(&self, policy: RetentionPolicy) -> std::io::Result<()> {
        if !policy.is_for_ever() && self.shared.data.is_some() {
            let _ = self.shared.sweeper.set(Sweeper::start(policy, Arc::downgrade(&self.shared))?);
        }
        Ok(())
    }
}

fn sweep_until(policy: &RetentionPolicy, host: &Weak<Shared>, ended: &Receiver<()>) {
    loop {
        let Some(shared) = host.upgrade() else { return };
        sweep(policy, &shared);
        drop(shared);
        if ended.recv_timeout(policy.look_every()) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

fn sweep(policy: &RetentionPolicy, shared: &Shared) {
    let Some(data) = &shared.data else { return };
    let swept = data.journal().and_then(|journal| journal.store().sweep(&policy.at(system_time())));
    match swept {
        Ok(0) => {}
        Ok(runs) => tracing::info!(runs, "removed runs that have ended"),
        // The next look tries again.
        Err(error) => tracing::warn!(%error, "runs that have ended cannot be removed now"),
    }
}
