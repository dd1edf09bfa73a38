//! A guest as a bare state machine.

use crate::bindings::wfhost::process::types::{Action, Command, Event, Outcome, Payload, Problem, Status};

/// A state machine to be stepped. [`export_process!`](crate::export_process) makes it a component.
pub trait Process: Sized {
    /// Checks entry and input. The first step, with or without events, follows at once.
    ///
    /// # Errors
    /// Returns the problem that the process then fails with.
    fn init(entry: &str, input: Payload) -> Result<Self, Problem>;

    /// Takes the events since the last step, and returns what to do next.
    fn step(&mut self, events: Vec<Event>) -> Outcome;

    /// Called once after a normal end.
    fn close(&mut self) {}
}

impl Outcome {
    /// A status with commands.
    pub fn new(status: Status, commands: Vec<Command>) -> Self {
        Self { status, commands }
    }

    /// Adds commands.
    #[must_use]
    pub fn with(mut self, commands: Vec<Command>) -> Self {
        self.commands.extend(commands);
        self
    }

    /// Ends with this output.
    pub fn complete(output: Payload) -> Self {
        Self::new(Status::Complete(output), Vec::new())
    }

    /// Ends with this problem.
    pub fn failed(problem: Problem) -> Self {
        Self::new(Status::Failed(problem), Vec::new())
    }

    /// Waits for answers.
    pub fn blocked(commands: Vec<Command>) -> Self {
        Self::new(Status::Blocked, commands)
    }

    /// Waits for any event.
    pub fn idle(commands: Vec<Command>) -> Self {
        Self::new(Status::Idle, commands)
    }

    /// Asks to be stepped again without waiting.
    pub fn ready(commands: Vec<Command>) -> Self {
        Self::new(Status::Ready, commands)
    }
}

/// Assigns tags in order.
#[derive(Clone, Copy, Debug)]
pub struct Tags(u64);

impl Tags {
    /// Starts at the tag of [`whoami`](crate::host::Host::whoami); 1 unless renewed.
    pub fn starting_at(first: u64) -> Self {
        Self(first)
    }

    /// Gives an action the next tag.
    pub fn command(&mut self, action: Action) -> Command {
        let tag = self.0;
        self.0 += 1;
        Command { tag, action }
    }
}

impl Default for Tags {
    fn default() -> Self {
        Self::starting_at(1)
    }
}

/// Exports a [`Process`] as this component's guest. Panics are logged, then trap.
#[macro_export]
macro_rules! export_process {
    ($process:ty) => {
        const _: () = {
            struct Component;

            ::std::thread_local! {
                static PROCESS: ::core::cell::RefCell<::core::option::Option<$process>> =
                    const { ::core::cell::RefCell::new(::core::option::Option::None) };
            }

            fn with<T>(act: impl ::core::ops::FnOnce(&mut $process) -> T) -> T {
                PROCESS.with_borrow_mut(|process| act(process.as_mut().expect("invariant: the host calls init first")))
            }

            impl $crate::bindings::exports::wfhost::process::guest::Guest for Component {
                fn init(
                    entry: ::std::string::String,
                    input: $crate::Payload,
                ) -> ::core::result::Result<(), $crate::Problem> {
                    $crate::log_panics();
                    let process = <$process as $crate::Process>::init(&entry, input)?;
                    PROCESS.set(::core::option::Option::Some(process));
                    ::core::result::Result::Ok(())
                }

                fn step(events: ::std::vec::Vec<$crate::Event>) -> $crate::Outcome {
                    with(|process| $crate::Process::step(process, events))
                }

                fn close() {
                    with(|process| $crate::Process::close(process));
                }
            }

            // Natively, in tests, there is no host to export to, and linkers do not like the names.
            #[cfg(target_arch = "wasm32")]
            $crate::bindings::export_guest! { Component with_types_in $crate::bindings }
            #[cfg(not(target_arch = "wasm32"))]
            const _: () = $crate::export_nowhere(&Component);
        };
    };
}

/// Uses a guest that is not exported.
#[doc(hidden)]
pub const fn export_nowhere<G: crate::bindings::exports::wfhost::process::guest::Guest>(_: &G) {}

/// Makes panics reach the run's log before they trap.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        use crate::host::{Host, Imports, Level};
        Imports.log(Level::Error, &panic.to_string(), None);
    }));
}
