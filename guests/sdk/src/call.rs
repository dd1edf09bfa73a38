//! Calls of handlers, and children.

use std::future::IntoFuture;
use std::marker::PhantomData;
use std::rc::Rc;
use std::time::Duration;

use crate::answer::{Answer, Pending};
use crate::bindings::wfhost::process::types::{self, Action, Payload, Target};
use crate::core::Core;
use crate::ctx::micros;
use crate::message::{Exits, Sent};
use crate::{FromPayload, IntoPayload, Problem};

/// A call that has not been issued yet: `.await` or [`start`](Self::start) issues it.
#[must_use = "a call leaves only when it is awaited or started"]
pub struct Call<T> {
    core: Rc<Core>,
    command: Result<types::Call, Problem>,
    of: PhantomData<fn() -> T>,
}

impl<T> Call<T> {
    pub(crate) fn new(core: Rc<Core>, handler: &str, args: Result<Payload, Problem>) -> Self {
        let handler = handler.to_owned();
        let command = args.map(|args| types::Call { handler, args, timeout: None, idempotency_key: None });
        Self { core, command, of: PhantomData }
    }

    /// Limits the call's duration. After that it is answered with a timeout, and given up.
    pub fn timeout(mut self, limit: Duration) -> Self {
        if let Ok(call) = &mut self.command {
            call.timeout = Some(micros(limit));
        }
        self
    }

    /// Calls with the same key have one effect in all. By default the host derives the key.
    pub fn idempotency_key(mut self, key: &str) -> Self {
        if let Ok(call) = &mut self.command {
            call.idempotency_key = Some(key.to_owned());
        }
        self
    }

    /// Issues the call now; the answer can be awaited later.
    pub fn start(self) -> Answer<T> {
        match self.command {
            Ok(call) => Answer::new(Pending::issue(self.core, Action::Call(call))),
            Err(problem) => Answer::refused(problem),
        }
    }
}

impl<T: FromPayload> IntoFuture for Call<T> {
    type Output = Result<T, Problem>;
    type IntoFuture = Answer<T>;

    fn into_future(self) -> Answer<T> {
        self.start()
    }
}

/// A child that has not started yet: `.await` starts it and waits for its output, and
/// [`start`](Self::start) returns a [`Child`] to communicate with.
#[must_use = "a child starts only when it is awaited or started"]
pub struct Spawn<T> {
    core: Rc<Core>,
    command: Result<types::Spawn, Problem>,
    of: PhantomData<fn() -> T>,
}

impl<T> Spawn<T> {
    pub(crate) fn new(core: Rc<Core>, entry: &str, input: Result<Payload, Problem>) -> Self {
        let entry = entry.to_owned();
        let command = input.map(|input| types::Spawn {
            component: None,
            entry,
            input,
            name: None,
            link: false,
            detached: false,
            narrow: None,
        });
        Self { core, command, of: PhantomData }
    }

    fn with(mut self, change: impl FnOnce(&mut types::Spawn)) -> Self {
        if let Ok(spawn) = &mut self.command {
            change(spawn);
        }
        self
    }

    /// Selects another component: a name under the workflow's `components:`.
    pub fn component(self, name: &str) -> Self {
        self.with(|spawn| spawn.component = Some(name.to_owned()))
    }

    /// Registers the child under a name in the run.
    pub fn name(self, name: &str) -> Self {
        self.with(|spawn| spawn.name = Some(name.to_owned()))
    }

    /// Links the two: an ending other than `completed` of one cancels the other.
    pub fn linked(self) -> Self {
        self.with(|spawn| spawn.link = true)
    }

    /// Detaches it: it may outlive its parent, and dropping its [`Child`] does not cancel it.
    pub fn detached(self) -> Self {
        self.with(|spawn| spawn.detached = true)
    }

    /// Gives it only a part of this process's limits and grants: a JSON object.
    pub fn narrow(self, to: &serde_json::Value) -> Self {
        self.with(|spawn| spawn.narrow = Some(to.to_string()))
    }

    /// Starts the child.
    ///
    /// # Errors
    /// Fails if its input has no JSON form. A failure to start is the child's answer.
    pub fn start(self) -> Result<Child<T>, Problem> {
        let spawn = self.command?;
        let (linked, detached) = (spawn.link, spawn.detached);
        let mut pending = Pending::issue(self.core.clone(), Action::Spawn(spawn));
        if detached {
            pending.keep_running();
        }
        let exits = linked.then(|| Exits::of(self.core.clone(), pending.tag()));
        Ok(Child { core: self.core, pending, exits, of: PhantomData })
    }
}

impl<T: FromPayload> IntoFuture for Spawn<T> {
    type Output = Result<T, Problem>;
    type IntoFuture = Answer<T>;

    fn into_future(self) -> Answer<T> {
        self.start().map_or_else(Answer::refused, Child::join)
    }
}

/// A child process. Dropping it cancels the child, unless it is detached.
#[must_use = "dropping a child cancels it"]
pub struct Child<T> {
    core: Rc<Core>,
    pending: Pending,
    exits: Option<Exits>,
    of: PhantomData<fn() -> T>,
}

impl<T> Child<T> {
    /// Waits for its output.
    pub fn join(self) -> Answer<T> {
        Answer::new(self.pending)
    }

    /// The child's address.
    pub fn target(&self) -> Target {
        Target::Child(self.pending.tag())
    }

    /// The sender of its messages, for [`Receive::sender`](crate::Receive::sender).
    pub fn sender(&self) -> types::Sender {
        types::Sender::Child(self.pending.tag())
    }

    /// Sends it a message.
    ///
    /// # Errors
    /// Fails if the body has no JSON form.
    pub fn send(&self, topic: &str, body: impl IntoPayload) -> Result<Sent, Problem> {
        Ok(Sent::new(self.core.clone(), self.target(), topic, body.into_payload()?))
    }

    /// Asks the child to end; its answer still arrives.
    pub fn stop(&self) {
        self.core.issue(Action::Stop(self.target()));
    }

    /// Waits for the end of a [linked](Spawn::linked) child. `None` on a second call or if not linked.
    pub fn exited(&mut self) -> Option<Exits> {
        self.exits.take()
    }
}
