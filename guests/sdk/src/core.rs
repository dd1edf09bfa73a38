//! What the futures of one guest share with its executor.
//!
//! Protocol: a future *issues* a command and holds its tag. The command is sent with the outcome of
//! the current step. The answer comes with the events of a later step, goes into the tag's slot and
//! wakes the future. A future that is dropped before that cancels its tag.
//!
//! I1. A slot exists exactly while a future holds its tag; an answer without a slot is dropped.
//! I2. No waker is called while the state is borrowed.
//! I3. Tags are issued in strictly increasing order; commands leave in the order of their issue.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::task::{Poll, Waker};

use crate::bindings::wfhost::process::types::{
    Action, Cancellation, Command, Event, Exit, Message, Payload, Problem, Renewal, Sender,
};
use crate::host::{Host, Level};
use crate::slots::Slots;

pub(crate) type Tag = u64;
pub(crate) type Answered = Result<Payload, Problem>;

/// Which messages a receiver takes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    pub(crate) topic: Option<String>,
    pub(crate) sender: Option<Sender>,
}

impl Filter {
    fn takes(&self, message: &Message) -> bool {
        // The host may add topics of its own at any time: they reach only those that ask for them.
        let topic = match &self.topic {
            Some(topic) => *topic == message.topic,
            None => !message.topic.starts_with("wfhost."),
        };
        topic && self.sender.as_ref().is_none_or(|sender| *sender == message.sender)
    }
}

#[derive(Default)]
struct State {
    next_tag: Tag,
    commands: Vec<Command>,
    answers: Slots<Answered>,
    exits: Slots<Exit>,
    mailbox: VecDeque<Message>,
    /// Waiting receivers, by their ids.
    receivers: Vec<(u64, Filter, Waker)>,
    cancellation: Option<Cancellation>,
    /// Whether there was a listener when the cancel came.
    cancel_heard: bool,
    /// Those that wait for a cancel.
    listeners: Vec<(u64, Option<Waker>)>,
    next_id: u64,
    renewal: Option<Renewal>,
    /// Those that yielded until the next step.
    yielders: Vec<Waker>,
    step: u64,
}

pub(crate) struct Core {
    pub(crate) host: Box<dyn Host>,
    state: RefCell<State>,
}

impl Core {
    pub(crate) fn new(host: Box<dyn Host>) -> Self {
        let next_tag = host.whoami().next_tag;
        Self { host, state: RefCell::new(State { next_tag, ..State::default() }) }
    }

    /// Adds a command to this step's outcome.
    pub(crate) fn issue(&self, action: Action) -> Tag {
        let mut state = self.state.borrow_mut();
        let tag = state.next_tag;
        state.next_tag += 1;
        state.commands.push(Command { tag, action });
        tag
    }

    /// Adds a command whose answer is wanted.
    pub(crate) fn issue_awaited(&self, action: Action) -> Tag {
        let tag = self.issue(action);
        self.state.borrow_mut().answers.push(tag);
        tag
    }

    pub(crate) fn poll_answer(&self, tag: Tag, waker: &Waker) -> Poll<Answered> {
        self.state.borrow_mut().answers.poll(tag, waker)
    }

    /// Takes the answer of a tag, if it has arrived.
    pub(crate) fn take_answer(&self, tag: Tag) -> Option<Answered> {
        self.state.borrow_mut().answers.take(tag)
    }

    /// Gives up the answer of a tag. Returns whether it was still outstanding.
    pub(crate) fn abandon(&self, tag: Tag) -> bool {
        self.state.borrow_mut().answers.remove(tag)
    }

    /// Keeps the exit reported `by` this tag, the last one issued, when it arrives.
    pub(crate) fn expect_exit(&self, by: Tag) {
        self.state.borrow_mut().exits.push(by);
    }

    pub(crate) fn poll_exit(&self, by: Tag, waker: &Waker) -> Poll<Exit> {
        self.state.borrow_mut().exits.poll(by, waker)
    }

    pub(crate) fn forget_exit(&self, by: Tag) {
        self.state.borrow_mut().exits.remove(by);
    }

    /// A number for a receiver or listener.
    pub(crate) fn next_id(&self) -> u64 {
        let mut state = self.state.borrow_mut();
        state.next_id += 1;
        state.next_id
    }

    pub(crate) fn take_message(&self, filter: &Filter) -> Option<Message> {
        let mut state = self.state.borrow_mut();
        let at = state.mailbox.iter().position(|message| filter.takes(message))?;
        state.mailbox.remove(at)
    }

    pub(crate) fn poll_message(&self, id: u64, filter: &Filter, waker: &Waker) -> Poll<Message> {
        if let Some(message) = self.take_message(filter) {
            self.stop_receiving(id);
            return Poll::Ready(message);
        }
        let mut state = self.state.borrow_mut();
        match state.receivers.iter_mut().find(|(of, ..)| *of == id) {
            Some((.., waiting)) => waiting.clone_from(waker),
            None => state.receivers.push((id, filter.clone(), waker.clone())),
        }
        Poll::Pending
    }

    pub(crate) fn stop_receiving(&self, id: u64) {
        self.state.borrow_mut().receivers.retain(|(of, ..)| *of != id);
    }

    pub(crate) fn listen(&self, id: u64, waker: Option<Waker>) {
        let mut state = self.state.borrow_mut();
        match state.listeners.iter_mut().find(|(of, _)| *of == id) {
            Some((_, waiting)) => *waiting = waker,
            None => state.listeners.push((id, waker)),
        }
    }

    pub(crate) fn stop_listening(&self, id: u64) {
        self.state.borrow_mut().listeners.retain(|(of, _)| *of != id);
    }

    pub(crate) fn cancellation(&self) -> Option<Cancellation> {
        self.state.borrow().cancellation.clone()
    }

    pub(crate) fn renew(&self, renewal: Renewal) {
        self.state.borrow_mut().renewal = Some(renewal);
    }

    pub(crate) fn take_renewal(&self) -> Option<Renewal> {
        self.state.borrow_mut().renewal.take()
    }

    /// The number of this step.
    pub(crate) fn step(&self) -> u64 {
        self.state.borrow().step
    }

    /// Wakes those that yielded until this step.
    pub(crate) fn begin_step(&self) {
        let mut state = self.state.borrow_mut();
        state.step += 1;
        let yielders = core::mem::take(&mut state.yielders);
        drop(state);
        wake(yielders);
    }

    /// Yields until the next step.
    pub(crate) fn yield_step(&self, waker: Waker) {
        self.state.borrow_mut().yielders.push(waker);
    }

    /// Whether a future has yielded until the next step.
    pub(crate) fn has_yielded(&self) -> bool {
        !self.state.borrow().yielders.is_empty()
    }

    pub(crate) fn take_commands(&self) -> Vec<Command> {
        core::mem::take(&mut self.state.borrow_mut().commands)
    }

    /// Delivers an event to the future that waits for it.
    pub(crate) fn deliver(&self, event: Event) {
        match event {
            Event::Completed(completion) => self.answer(completion.tag, completion.answer),
            Event::Message(message) => self.receive(message),
            Event::Exited(exit) => {
                let filled = self.state.borrow_mut().exits.fill(exit.by, exit);
                wake(filled.ok().flatten());
            }
            Event::Cancel(cancellation) => {
                let wakers: Vec<_> = {
                    let mut state = self.state.borrow_mut();
                    state.cancellation = Some(cancellation);
                    state.cancel_heard |= !state.listeners.is_empty();
                    state.listeners.iter_mut().filter_map(|(_, waker)| waker.take()).collect()
                };
                wake(wakers);
            }
        }
    }

    fn answer(&self, tag: Tag, answer: Answered) {
        let filled = self.state.borrow_mut().answers.fill(tag, answer);
        match filled {
            Ok(waker) => wake(waker),
            // No future waits: a message that could not be delivered, or the echo of a cancel.
            Err(Err(problem)) if problem.kind != "cancelled" => {
                self.host.log(Level::Warn, &format!("command {tag} failed unheard: {}", problem.kind), None);
            }
            Err(_) => {}
        }
    }

    fn receive(&self, message: Message) {
        let mut state = self.state.borrow_mut();
        let wakers: Vec<_> = state
            .receivers
            .iter()
            .filter(|(_, filter, _)| filter.takes(&message))
            .map(|(.., waker)| waker.clone())
            .collect();
        state.mailbox.push_back(message);
        drop(state);
        wake(wakers);
    }

    /// The cancellation, if it came without a listener: the guest must end now.
    pub(crate) fn cancelled_unheard(&self) -> Option<Cancellation> {
        let state = self.state.borrow();
        if state.cancel_heard { None } else { state.cancellation.clone() }
    }

    /// Whether only a message or a cancel can wake the guest.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.state.borrow();
        if !state.receivers.is_empty() {
            return true;
        }
        !state.listeners.is_empty() && !state.answers.any_waiting() && !state.exits.any_waiting()
    }
}

fn wake(wakers: impl IntoIterator<Item = Waker>) {
    wakers.into_iter().for_each(Waker::wake);
}
