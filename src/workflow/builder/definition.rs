//! The definition itself: the keys at the top of a file.

use super::rendering::Rendering;
use super::tree::{Map, Tree};
use super::{CallBounds, Component, Concurrency, Durability, Input, Limits, Retry, Schedule, Secret, Step};
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// A workflow that is written in Rust. Its `Display` is the text of the workflow file that it
/// stands for.
#[derive(Clone, PartialEq, Debug)]
#[must_use]
pub struct Definition {
    name: String,
    keys: Map,
}

impl Definition {
    /// Starts a workflow of this `name`, without steps.
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        Self { keys: Map::default().with("name", name.as_str()), name }
    }

    fn key(self, key: &str, value: impl Into<Tree>) -> Self {
        Self { keys: self.keys.with(key, value), ..self }
    }

    fn within(self, outer: &str, key: impl Into<String>, value: impl Into<Tree>) -> Self {
        Self { keys: self.keys.with_within(outer, key, value), ..self }
    }

    /// `description`: for people.
    pub fn description(self, text: impl Into<String>) -> Self {
        self.key("description", text.into())
    }

    /// `durability`: whether a run survives its host; by default it does.
    pub fn durability(self, durability: Durability) -> Self {
        self.key("durability", Tree::literal(durability))
    }

    /// `schedule`: when a service starts it by itself.
    pub fn schedule(self, schedule: Schedule) -> Self {
        self.key("schedule", schedule.0)
    }

    /// `concurrency`: how many runs of a group execute at one time.
    pub fn concurrency(self, concurrency: Concurrency) -> Self {
        self.key("concurrency", concurrency.0)
    }

    /// An entry of `inputs`: what a run is given.
    pub fn input(self, name: impl Into<String>, input: Input) -> Self {
        self.within("inputs", name, input.0)
    }

    /// An entry of `secrets`: what steps may send.
    pub fn secret(self, name: impl Into<String>, secret: Secret) -> Self {
        self.within("secrets", name, secret.0)
    }

    /// An entry of `handlers`: bounds on the calls of a handler.
    pub fn handler(self, name: impl Into<String>, bounds: CallBounds) -> Self {
        self.within("handlers", name, bounds.0)
    }

    /// An entry of `components`: a name for a component.
    pub fn component(self, name: impl Into<String>, component: impl Into<Component>) -> Self {
        self.within("components", name, component.into().0)
    }

    /// `defaults: { timeout }`: that of every guest and call that has none of its own.
    pub fn default_timeout(self, timeout: Duration) -> Self {
        self.within("defaults", "timeout", timeout)
    }

    /// `defaults: { retry }`: that of every guest and call that has none of its own.
    pub fn default_retry(self, retry: Retry) -> Self {
        self.within("defaults", "retry", retry.0)
    }

    /// `defaults: { limits }`: those of every guest, unless its component or step has its own.
    pub fn default_limits(self, limits: Limits) -> Self {
        self.within("defaults", "limits", limits.0)
    }

    /// Adds a step under its id: a letter, then at most 63 letters, digits, `_` or `-`. It starts
    /// when every step that it reads or [needs](Step::needs) has ended.
    pub fn step(mut self, id: impl Into<String>, step: Step) -> Self {
        self.keys.list("steps").push(step.named(id));
        self
    }

    /// An entry of `outputs`: what a run returns.
    pub fn output(self, name: impl Into<String>, value: impl Serialize) -> Self {
        self.within("outputs", name, Tree::value(value))
    }

    /// Adds a step that runs after the others if the run failed.
    pub fn on_failure(self, id: impl Into<String>, step: Step) -> Self {
        self.after("failure", id, step)
    }

    /// Adds a step that runs after the others if the run is cancelled, within its grace.
    pub fn on_cancel(self, id: impl Into<String>, step: Step) -> Self {
        self.after("cancel", id, step)
    }

    /// Adds a step that runs after the others in any case.
    pub fn on_always(self, id: impl Into<String>, step: Step) -> Self {
        self.after("always", id, step)
    }

    fn after(mut self, occasion: &str, id: impl Into<String>, step: Step) -> Self {
        self.keys.map("on").list(occasion).push(step.named(id));
        self
    }

    /// `grace`: how long a cancelled run has to end; by default 5 s, and 5 min if something is
    /// undone or runs after the others.
    pub fn grace(self, grace: Duration) -> Self {
        self.key("grace", grace)
    }

    /// The name of the file that problems name.
    pub(crate) fn file(&self) -> String {
        format!("{}.yaml", self.name)
    }

    /// Renders it as the text of a workflow file.
    pub(crate) fn render(&self) -> Rendering {
        Rendering::of(&self.keys)
    }
}

impl fmt::Display for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render().text)
    }
}
