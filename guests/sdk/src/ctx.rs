//! What an entry point is given to ask for things.

use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;

use crate::answer::{Answer, Pending};
use crate::bindings::wfhost::process::types::{Action, Expose, Pid, Renewal, Target};
use crate::call::{Call, Spawn};
use crate::combine::{self, Either};
use crate::core::Core;
use crate::host::{Identity, Level};
use crate::message::{Cancelled, Exits, Receive, Sent};
use crate::{IntoPayload, Payload, Problem};

/// A guest's access to its host. Cheap to clone; all clones are equivalent.
#[derive(Clone)]
pub struct Ctx {
    pub(crate) core: Rc<Core>,
}

/// The largest number of microseconds that the contract carries.
const MICROS_MAX: u64 = (1 << 53) - 1;

/// Rounds up, so that a wait is never shorter than requested.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000)).map_or(MICROS_MAX, |micros| micros.min(MICROS_MAX))
}

impl Ctx {
    /// Waits for this long. The wait begins at this call.
    pub fn sleep(&self, duration: Duration) -> Answer<()> {
        self.ask(Action::Sleep(micros(duration)))
    }

    /// Calls a handler of the host (`http`, `kv`, or an embedder's) when it is awaited or started.
    pub fn call<T>(&self, handler: &str, args: impl IntoPayload) -> Call<T> {
        Call::new(self.core.clone(), handler, args.into_payload())
    }

    /// Waits for a signal with this name, sent to the run from outside. Earlier signals count, the
    /// oldest first; each is received once. The wait begins when it is awaited or started.
    pub fn signal<T>(&self, name: &str) -> Call<T> {
        self.call("signal", serde_json::json!({ "name": name }))
    }

    /// Starts an entry of this component, or of [another](Spawn::component), as a child process.
    pub fn spawn<T>(&self, entry: &str, input: impl IntoPayload) -> Spawn<T> {
        Spawn::new(self.core.clone(), entry, input.into_payload())
    }

    /// Sends a message. A refusal (no such process, mailbox full) comes a step later: see [`Sent`].
    ///
    /// # Errors
    /// Fails if the body has no JSON form.
    pub fn send(&self, to: Target, topic: &str, body: impl IntoPayload) -> Result<Sent, Problem> {
        Ok(Sent::new(self.core.clone(), to, topic, body.into_payload()?))
    }

    /// Waits for a message. [`Receive::topic`] and [`Receive::sender`] filter what arrives.
    pub fn receive(&self) -> Receive {
        Receive::new(self.core.clone())
    }

    /// Waits for a cancel. A guest that holds one of these ends itself within the grace period. One
    /// that holds none is ended by this crate: its futures are dropped, it fails with `cancelled`.
    pub fn cancelled(&self) -> Cancelled {
        Cancelled::new(self.core.clone())
    }

    /// Waits for the end of another process.
    pub fn monitor(&self, target: Target) -> Exits {
        Exits::new(self.core.clone(), Action::Monitor(target))
    }

    /// A [`monitor`](Self::monitor) that also cancels one if the other does not end `completed`.
    pub fn link(&self, target: Target) -> Exits {
        Exits::new(self.core.clone(), Action::Link(target))
    }

    /// Undoes a [`link`](Self::link).
    pub fn unlink(&self, target: Target) {
        self.core.issue(Action::Unlink(target));
    }

    /// Asks a process to end.
    pub fn stop(&self, target: Target) {
        self.core.issue(Action::Stop(target));
    }

    /// Registers this process under a name in the run. `name-taken` if another process has it.
    pub fn register(&self, name: &str) -> Answer<()> {
        self.ask(Action::Register(name.to_owned()))
    }

    /// Sets the value that queries of this name return from now on.
    ///
    /// # Errors
    /// Fails if the value has no JSON form.
    pub fn expose(&self, query: &str, value: impl IntoPayload) -> Result<(), Problem> {
        self.core.issue(Action::Expose(Expose { query: query.to_owned(), value: value.into_payload()? }));
        Ok(())
    }

    /// Continues as a fresh instance with the same pid and an empty history. Never returns.
    pub async fn renew<T>(&self, entry: &str, input: impl IntoPayload) -> Result<T, Problem> {
        self.core.renew(Renewal { entry: entry.to_owned(), input: input.into_payload()? });
        core::future::pending().await
    }

    /// Yields to other processes: this one is stepped again without waiting for anything.
    pub async fn yield_now(&self) {
        let step = self.core.step();
        core::future::poll_fn(|context| {
            if self.core.step() > step {
                return core::task::Poll::Ready(());
            }
            self.core.yield_step(context.waker().clone());
            core::task::Poll::Pending
        })
        .await;
    }

    /// Limits how long a future may take.
    ///
    /// # Errors
    /// [`Elapsed`] if time runs out. The future is dropped, which cancels what it asked for.
    pub async fn timeout<F: IntoFuture>(&self, limit: Duration, future: F) -> Result<F::Output, Elapsed> {
        match combine::select(future, self.sleep(limit)).await {
            Either::Left(output) => Ok(output),
            Either::Right(_) => Err(Elapsed),
        }
    }

    /// Writes a line to the run's log.
    pub fn log(&self, level: Level, text: &str) {
        self.core.host.log(level, text, None);
    }

    /// Writes a line with fields to the run's log.
    ///
    /// # Errors
    /// Fails if the fields have no JSON form.
    pub fn log_with(&self, level: Level, text: &str, fields: &impl Serialize) -> Result<(), Problem> {
        self.core.host.log(level, text, Some(&serde_json::to_string(fields)?));
        Ok(())
    }

    /// Time since 1970, when the current batch of events was recorded. It never goes back.
    pub fn now(&self) -> Duration {
        Duration::from_micros(self.core.host.now())
    }

    /// Bytes of this process's seeded stream, equal in a replay. Not secret from journal readers.
    pub fn random<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        for part in bytes.chunks_mut(4096) {
            // A part has at most 4,096 bytes.
            #[allow(clippy::cast_possible_truncation)]
            part.copy_from_slice(&self.core.host.random(part.len() as u32));
        }
        bytes
    }

    /// The run, this process, and its next tag.
    pub fn whoami(&self) -> Identity {
        self.core.host.whoami()
    }

    /// This process's number in its run.
    pub fn pid(&self) -> Pid {
        self.whoami().pid
    }

    fn ask<T: crate::FromPayload>(&self, action: Action) -> Answer<T> {
        Answer::new(Pending::issue(self.core.clone(), action))
    }
}

/// The future's time ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl core::fmt::Display for Elapsed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the time is over")
    }
}

impl core::error::Error for Elapsed {}

impl From<Elapsed> for Problem {
    fn from(_: Elapsed) -> Self {
        Self::retryable("timeout", "The time is over")
    }
}

/// The JSON text of null, for entries without input.
impl Default for Payload {
    fn default() -> Self {
        Self::null()
    }
}
