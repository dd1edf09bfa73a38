//! Turns an entry point into a process: `step` polls the guest's one future if it was woken.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crate::bindings::wfhost::process::types::{Event, Outcome, Payload, Problem, Status};
use crate::core::Core;
use crate::ctx::Ctx;
use crate::host::Host;
use crate::{FromPayload, IntoPayload, unknown_entry};

/// A started entry point.
pub type Task = Pin<Box<dyn Future<Output = Result<Payload, Problem>>>>;

/// An entry point: name and start function. [`export!`](crate::export) makes the table of these.
pub type Entry = (&'static str, fn(Ctx, Payload) -> Result<Task, Problem>);

/// Starts an entry point of any input and output; used by [`export!`](crate::export).
///
/// # Errors
/// Fails if the input does not fit.
pub fn start<I, O, F>(entry: impl FnOnce(Ctx, I) -> F, ctx: Ctx, input: Payload) -> Result<Task, Problem>
where
    I: FromPayload,
    O: IntoPayload,
    F: Future<Output = Result<O, Problem>> + 'static,
{
    let input = I::from_payload(input).map_err(|problem| Problem {
        kind: "bad-input".to_owned(),
        title: "The input does not fit the entry".to_owned(),
        ..problem
    })?;
    let future = entry(ctx, input);
    Ok(Box::pin(async move { future.await?.into_payload() }))
}

/// Set by the root's waker: whether it has to be polled again.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        // Relaxed: a guest has one thread; the atomic only makes the waker `Sync`.
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The executor of one process.
pub struct Executor {
    core: Rc<Core>,
    /// `None` once it has ended.
    root: Option<Task>,
    woken: Arc<Woken>,
}

impl Executor {
    /// Starts an entry of a table.
    ///
    /// # Errors
    /// Fails with `unknown-entry` or `bad-input`.
    pub fn start(host: impl Host + 'static, entries: &[Entry], entry: &str, input: Payload) -> Result<Self, Problem> {
        let (_, begin) = entries.iter().find(|(name, _)| *name == entry).ok_or_else(|| unknown_entry(entry))?;
        let core = Rc::new(Core::new(Box::new(host)));
        let root = begin(Ctx { core: core.clone() }, input)?;
        Ok(Self { core, root: Some(root), woken: Arc::new(Woken(AtomicBool::new(true))) })
    }

    /// Delivers events, runs the guest as far as it goes, and returns what it waits for.
    pub fn step(&mut self, events: Vec<Event>) -> Outcome {
        self.core.begin_step();
        for event in events {
            self.core.deliver(event);
        }
        let status = self.run();
        // What is dropped at the end cancels its requests: these commands are part of the outcome.
        if matches!(status, Status::Complete(_) | Status::Failed(_) | Status::Renew(_)) {
            self.root = None;
        }
        Outcome { status, commands: self.core.take_commands() }
    }

    fn run(&mut self) -> Status {
        if let Some(cancellation) = self.core.cancelled_unheard() {
            return Status::Failed(Problem::new("cancelled", "Cancelled").detail(cancellation.reason));
        }
        let root = self.root.as_mut().expect("invariant: a process that has ended is not stepped");
        let waker = Waker::from(self.woken.clone());
        while self.woken.0.swap(false, Ordering::Relaxed) {
            match root.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(Ok(output)) => return Status::Complete(output),
                Poll::Ready(Err(problem)) => return Status::Failed(problem),
                Poll::Pending => {}
            }
            if let Some(renewal) = self.core.take_renewal() {
                return Status::Renew(renewal);
            }
        }
        if self.core.has_yielded() {
            Status::Ready
        } else if self.core.is_idle() {
            Status::Idle
        } else {
            Status::Blocked
        }
    }
}

/// Exports `async fn` entry points as this component's guest.
///
/// ```
/// # use wfhost_guest::{Ctx, Problem};
/// async fn double(_ctx: Ctx, n: u32) -> Result<u32, Problem> {
///     Ok(2 * n)
/// }
///
/// wfhost_guest::export! { "double" => double }
/// ```
///
/// With documentation the component also exports `describe`, so that hosts know it: first the
/// component's text, then the entries', each with the JSON Schema of its input. The schema follows
/// from the type of the input, or stands in braces after the entry.
///
/// ```
/// # use wfhost_guest::{Ctx, Problem};
/// # async fn double(_ctx: Ctx, n: u32) -> Result<u32, Problem> {
/// #     Ok(2 * n)
/// # }
/// wfhost_guest::export! {
///     //! Arithmetic.
///
///     /// Gives twice its input.
///     "double" => double { "type": "integer", "minimum": 0 },
/// }
/// ```
#[macro_export]
macro_rules! export {
    ($($name:literal => $entry:path),+ $(,)?) => {
        $crate::export! { @process $($name => $entry),+ }
    };
    ($(#![doc = $about:literal])* $($(#[doc = $doc:literal])* $name:literal => $entry:path $({ $($schema:tt)* })?),+ $(,)?) => {
        $crate::export! { @process $($name => $entry),+ }
        $crate::export_description! {
            &[$($about),*],
            &[$($crate::Described {
                name: $name,
                docs: &[$($doc),*],
                input: $crate::export! { @schema $entry; $($($schema)*)? },
            }),+]
        }
    };
    (@schema $entry:path;) => {
        $crate::input_schema($entry)
    };
    (@schema $entry:path; $($schema:tt)+) => {
        ::core::option::Option::Some($crate::json!({ $($schema)+ }))
    };
    (@process $($name:literal => $entry:path),+) => {
        const _: () = {
            struct Entries($crate::Executor);

            impl $crate::Process for Entries {
                fn init(entry: &str, input: $crate::Payload) -> ::core::result::Result<Self, $crate::Problem> {
                    let entries: &[$crate::Entry] = &[$(($name, |ctx, input| $crate::start($entry, ctx, input))),+];
                    $crate::Executor::start($crate::host::Imports, entries, entry, input).map(Self)
                }

                fn step(&mut self, events: ::std::vec::Vec<$crate::Event>) -> $crate::Outcome {
                    self.0.step(events)
                }
            }

            $crate::export_process!(Entries);
        };
    };
}
