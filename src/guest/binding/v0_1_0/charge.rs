//! A guest pays fuel for what a step returned as well as for what it did: for taking it over, for
//! checking its texts, and for committing its commands.
//!
//! The work is charged before it is done, and paid in slices, so other processes have their turn
//! between two pieces of a long text, and between commands. After this the reader only moves what
//! is known to be well-formed.

use super::lift::{Action, Command, Outcome, Payload, Problem, Spawn, Status, Target};
use crate::guest::context::{Context, settle};
use crate::guest::problem::Breach;
use crate::process::{self, Check, GIVEN_DEPTH_MAX, problem::kind};
use wasmtime::{AsContextMut as _, Store};

/// The host's work for one command, in fuel: to decide it, to record it, to send it. Derived: a
/// spawn within a run takes 2 to 3 µs (`cargo bench --bench run`), that of a guest twice as long,
/// and a million of fuel a little less than a millisecond.
const COMMAND_FUEL: u64 = 1_000;
const CALL_FUEL: u64 = 4_000;
const SPAWN_FUEL: u64 = 12_000;

/// Fuel of each byte: it is copied, compared, hashed and written.
const BYTE_FUEL: u64 = 2;

/// Fuel for checking each byte of JSON. Estimated, like the one above: `cargo bench --bench guests
/// -- slices`.
const JSON_BYTE_FUEL: u64 = 2;

/// Bytes of a text that are checked at one time: a fraction of a slice.
const PIECE_BYTES: usize = 64 << 10;

/// Bytes of a spawn's `narrow`. Arbitrary: all limits and some hundred patterns.
const NARROW_BYTES_MAX: usize = 64 << 10;

type Charged = wasmtime::Result<()>;

/// Charges and checks what a step returned.
///
/// # Errors
/// Fails if it is not what the contract allows, or the fuel is used up.
pub(super) async fn outcome(store: &mut Store<Context>, outcome: &Outcome) -> Charged {
    let limits = store.data().limits();
    let (count, max) = (outcome.commands.len(), limits.commands_per_step);
    if count > max as usize {
        return Err(breach(
            process::Problem::new(kind::TOO_MANY_COMMANDS, "The step returned too many commands")
                .with_detail(format!("{count} commands in one step; at most {max} are allowed")),
        ));
    }
    let mut checker = Checker { payload_bytes: limits.payload_bytes, store };
    for command in &outcome.commands {
        checker.command(command).await?;
    }
    checker.status(&outcome.status).await
}

/// Charges and checks a problem that a guest returned.
///
/// # Errors
/// Fails like [`outcome`].
pub(super) async fn problem(store: &mut Store<Context>, problem: &Problem) -> Charged {
    let payload_bytes = store.data().limits().payload_bytes;
    Checker { store, payload_bytes }.problem(problem).await
}

/// Charges a guest for the checks of what it returned.
struct Checker<'a> {
    store: &'a mut Store<Context>,
    payload_bytes: u64,
}

impl Checker<'_> {
    fn charge(&mut self, fuel: u64) {
        self.store.data_mut().work.charge(fuel);
    }

    fn bytes(&mut self, bytes: usize) {
        self.charge(bytes as u64 * BYTE_FUEL);
    }

    fn name(&mut self, name: Option<&str>) {
        self.bytes(name.map_or(0, str::len));
    }

    async fn settle(&mut self) -> Charged {
        if self.store.data().work.is_due() {
            settle(&mut self.store.as_context_mut()).await?;
        }
        Ok(())
    }

    async fn command(&mut self, command: &Command) -> Charged {
        match &command.action {
            Action::Spawn(spawn) => self.spawn(spawn).await?,
            Action::Call(call) => {
                self.charge(CALL_FUEL);
                self.name(Some(&call.handler));
                self.name(call.idempotency_key.as_deref());
                self.payload(&call.args).await?;
            }
            Action::Send(send) => {
                self.charge(COMMAND_FUEL);
                self.target(&send.to);
                self.name(Some(&send.topic));
                self.payload(&send.body).await?;
            }
            Action::Expose(expose) => {
                self.charge(COMMAND_FUEL);
                self.name(Some(&expose.query));
                self.payload(&expose.value).await?;
            }
            Action::Stop(target) | Action::Monitor(target) | Action::Link(target) | Action::Unlink(target) => {
                self.charge(COMMAND_FUEL);
                self.target(target);
            }
            Action::Register(name) => {
                self.charge(COMMAND_FUEL);
                self.name(Some(name));
            }
            Action::Sleep(_) | Action::Cancel(_) => self.charge(COMMAND_FUEL),
        }
        self.settle().await
    }

    async fn spawn(&mut self, spawn: &Spawn) -> Charged {
        self.charge(SPAWN_FUEL);
        self.name(spawn.component.as_deref());
        self.name(Some(&spawn.entry));
        self.name(spawn.name.as_deref());
        if let Some(narrow) = &spawn.narrow {
            if narrow.len() > NARROW_BYTES_MAX {
                return Err(breach(
                    process::Problem::new(kind::TOO_LARGE, "The bounds of a child are too large").with_detail(format!(
                        "`narrow` has {} bytes; at most {NARROW_BYTES_MAX} are allowed",
                        narrow.len()
                    )),
                ));
            }
            self.json(narrow, "narrow").await?;
        }
        self.payload(&spawn.input).await
    }

    fn target(&mut self, target: &Target) {
        match target {
            Target::Process(_) | Target::Child(_) => {}
            Target::Name(name) => self.name(Some(name)),
            Target::Run(target) => {
                self.name(Some(&target.run));
                self.name(Some(&target.name));
            }
        }
    }

    async fn status(&mut self, status: &Status) -> Charged {
        match status {
            Status::Ready | Status::Blocked | Status::Idle => Ok(()),
            Status::Complete(output) => self.payload(output).await,
            Status::Failed(problem) => self.problem(problem).await,
            Status::Renew(renewal) => {
                self.charge(SPAWN_FUEL);
                self.name(Some(&renewal.entry));
                self.payload(&renewal.input).await
            }
        }
    }

    async fn problem(&mut self, problem: &Problem) -> Charged {
        self.bytes(problem.kind.len() + problem.title.len());
        self.name(problem.detail.as_deref());
        match &problem.data {
            Some(data) => self.json(data, "data").await,
            None => Ok(()),
        }
    }

    async fn payload(&mut self, payload: &Payload) -> Charged {
        match payload {
            Payload::Json(text) => self.json(text, "payload").await,
            Payload::Bytes(bytes) => {
                self.size(bytes.len(), "payload")?;
                self.bytes(bytes.len());
                Ok(())
            }
            Payload::Blob(blob) => {
                self.bytes(blob.digest.len() + blob.media_type.len());
                Ok(())
            }
        }
    }

    fn size(&self, bytes: usize, what: &str) -> Charged {
        let max = self.payload_bytes;
        if bytes as u64 <= max {
            return Ok(());
        }
        Err(breach(
            process::Problem::new(kind::TOO_LARGE, "A payload is too large")
                .with_detail(format!("a {what} has {bytes} bytes; at most {max} are allowed")),
        ))
    }

    async fn json(&mut self, text: &str, what: &str) -> Charged {
        self.size(text.len(), what)?;
        self.bytes(text.len());
        let mut check = Check::new(GIVEN_DEPTH_MAX);
        loop {
            self.charge(text.len().min(PIECE_BYTES) as u64 * JSON_BYTE_FUEL);
            match check.advance(text, PIECE_BYTES) {
                Ok(true) => return Ok(()),
                Ok(false) => self.settle().await?,
                Err(flaw) if flaw.too_deep => {
                    return Err(breach(
                        process::Problem::new(kind::JSON_TOO_DEEP, "A JSON payload is nested too deeply").with_detail(
                            format!("{what}: {flaw}; arrays and objects may be nested {GIVEN_DEPTH_MAX} deep"),
                        ),
                    ));
                }
                Err(flaw) => {
                    return Err(breach(
                        process::Problem::new(kind::BAD_JSON, "A JSON payload is not valid JSON")
                            .with_detail(format!("{what}: {flaw}")),
                    ));
                }
            }
        }
    }
}

fn breach(problem: process::Problem) -> wasmtime::Error {
    Breach(problem).into()
}
