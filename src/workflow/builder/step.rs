//! Steps, and what is in one.

use super::tree::{Map, Tree};
use super::value::{Expr, Text, written};
use super::{Limits, ScriptLanguage, Wait, When};
use serde::Serialize;
use std::panic::Location;
use std::time::Duration;

/// A step, without its id: the list that it is in names it.
///
/// The functions that make one say what it does; the methods add its other keys. Problems of a step
/// name the place in the program that made it.
#[derive(Clone, PartialEq, Debug)]
#[must_use]
pub struct Step(Map);

impl Step {
    #[track_caller]
    fn of(action: &str, value: impl Into<Tree>) -> Self {
        let map = Map { entries: Vec::new(), place: Some(Location::caller()) };
        Self(map.with(action, value))
    }

    /// `uses`: runs a guest: a name from `components`, a path, or `native:NAME`.
    #[track_caller]
    pub fn uses(component: impl Into<String>) -> Self {
        Self::of("uses", component.into())
    }

    /// `script`: runs the body of a function, whose `input` is what [`Self::with`] gives.
    #[track_caller]
    pub fn script(language: ScriptLanguage, body: impl Into<String>) -> Self {
        Self::of("script", Map::default().with(language.key(), body.into()))
    }

    /// `call`: calls a handler of the host, with the arguments of [`Self::with`].
    #[track_caller]
    pub fn call(handler: impl Into<String>) -> Self {
        Self::of("call", handler.into())
    }

    /// `wait`: waits for a duration, a time, a [`Signal`](super::Signal), or
    /// [several](super::Several) of them.
    #[track_caller]
    pub fn wait(wait: impl Into<Wait>) -> Self {
        Self::of("wait", wait.into().0)
    }

    /// `set`: computes a value.
    #[track_caller]
    pub fn set(value: impl Serialize) -> Self {
        Self::of("set", Tree::value(value))
    }

    /// `steps`: runs steps of its own, each with its id. [`Self::output`] names what it gives.
    #[track_caller]
    pub fn group(steps: impl IntoIterator<Item = (impl Into<String>, Step)>) -> Self {
        Self::of("steps", list(steps))
    }

    /// `switch`: runs the steps of the first case that applies.
    #[track_caller]
    pub fn switch(cases: impl IntoIterator<Item = Case>) -> Self {
        Self::of("switch", Tree::List(cases.into_iter().map(|case| case.0.into()).collect()))
    }

    /// `workflow`: runs the workflow of another file, with the inputs of [`Self::with`].
    #[track_caller]
    pub fn workflow(file: impl Into<String>) -> Self {
        Self::of("workflow", file.into())
    }

    fn key(self, key: &str, value: impl Into<Tree>) -> Self {
        Self(self.0.with(key, value))
    }

    /// `name`: for people.
    pub fn name(self, name: impl Into<String>) -> Self {
        self.key("name", name.into())
    }

    /// `entry`: the entry point of the guest; by default `run`.
    pub fn entry(self, entry: impl Into<String>) -> Self {
        self.key("entry", entry.into())
    }

    /// `with`: the input of the guest, the arguments of the handler, or the inputs of the workflow.
    pub fn with(self, value: impl Serialize) -> Self {
        self.key("with", Tree::value(value))
    }

    /// `needs`: steps to wait for; those that an expression reads are implied.
    pub fn needs(self, ids: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.key("needs", Tree::texts(ids))
    }

    /// `if`: false or null skips the step.
    pub fn condition(self, condition: Expr) -> Self {
        self.key("if", condition)
    }

    /// `when`: which endings of the steps before it let it start; by default [`When::Succeeded`].
    pub fn when(self, when: When) -> Self {
        self.key(
            "when",
            match when {
                When::FailedOrUnreached => Tree::texts(["failed", "unreached"]),
                one => Tree::literal(one),
            },
        )
    }

    /// `for-each`: a list, or an expression that gives one; the step runs once for each item.
    pub fn for_each(self, items: impl Serialize) -> Self {
        self.key("for-each", Tree::value(items))
    }

    /// `for-each`: the step runs for each line of a blob.
    pub fn for_each_line(self, lines: Lines) -> Self {
        self.key("for-each", lines.0)
    }

    /// `max-parallel`: how many items run at the same time, 1 to 4,096; by default 64.
    pub fn max_parallel(self, items: u32) -> Self {
        self.key("max-parallel", items)
    }

    /// `retry`: how failures are retried.
    pub fn retry(self, retry: Retry) -> Self {
        self.key("retry", retry.0)
    }

    /// `repeat`: turns of the step.
    pub fn repeat(self, repeat: Repeat) -> Self {
        self.key("repeat", repeat.0)
    }

    /// `cache: auto`: uses outcomes of earlier runs that depend on the input of the guest alone.
    pub fn cache_auto(self) -> Self {
        self.key("cache", "auto")
    }

    /// `cache`: uses outcomes of earlier runs, by the author's word.
    pub fn cache(self, cache: Cache) -> Self {
        self.key("cache", cache.0)
    }

    /// `timeout`: how long one attempt of one item may take.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.key("timeout", timeout)
    }

    /// `continue-on-error`: a failure counts as success for other steps and for the run.
    pub fn continue_on_error(self) -> Self {
        self.key("continue-on-error", true)
    }

    /// `limits`: what the guest may use.
    pub fn limits(self, limits: Limits) -> Self {
        self.key("limits", limits.0)
    }

    /// An entry of `allow`: the patterns that are granted under a capability.
    pub fn allow(self, capability: impl Into<String>, patterns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self(self.0.with_within("allow", capability, Tree::texts(patterns)))
    }

    /// `secrets`: the names of those that the guest or the call may send.
    pub fn secrets(self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.key("secrets", Tree::texts(names))
    }

    /// An entry of `outputs`: what a [group](Self::group) gives.
    pub fn output(self, name: impl Into<String>, value: impl Serialize) -> Self {
        Self(self.0.with_within("outputs", name, Tree::value(value)))
    }

    /// `compensate`: what undoes the step if the run fails or is cancelled. It reads the result as
    /// `.output`.
    pub fn compensate(self, undo: Step) -> Self {
        self.key("compensate", undo.0)
    }

    /// The step in a list.
    pub(super) fn named(self, id: impl Into<String>) -> Tree {
        let Self(mut map) = self;
        map.entries.insert(0, ("id".to_owned(), Tree::Text(id.into())));
        map.into()
    }
}

fn list(steps: impl IntoIterator<Item = (impl Into<String>, Step)>) -> Tree {
    Tree::List(steps.into_iter().map(|(id, step)| step.named(id)).collect())
}

/// A case of a [`Step::switch`].
#[derive(Clone, PartialEq, Debug)]
#[must_use]
pub struct Case(Map);

impl Case {
    /// Runs the steps if the condition is neither false nor null, and no case before it applied.
    pub fn when(condition: Expr, steps: impl IntoIterator<Item = (impl Into<String>, Step)>) -> Self {
        Self(Map::default().with("if", condition).with("steps", list(steps)))
    }

    /// Runs the steps if no case applied: the last one.
    pub fn otherwise(steps: impl IntoIterator<Item = (impl Into<String>, Step)>) -> Self {
        Self(Map::default().with("steps", list(steps)))
    }

    /// An entry of `outputs`: what the step gives if this case runs.
    pub fn output(self, name: impl Into<String>, value: impl Serialize) -> Self {
        Self(self.0.with_within("outputs", name, Tree::value(value)))
    }
}

/// `for-each: { lines: … }`.
#[derive(Clone, PartialEq, Debug)]
#[must_use]
pub struct Lines(Map);

impl Lines {
    /// `lines`: those of the blob that the expression gives.
    pub fn of(blob: Expr) -> Self {
        Self(Map::default().with("lines", blob))
    }

    /// `batch`: `.item` is a list of at most so many lines.
    pub fn batch(self, lines: u32) -> Self {
        Self(self.0.with("batch", lines))
    }

    /// `window`: how many lines are read at once; by default 10,000.
    pub fn window(self, lines: u32) -> Self {
        Self(self.0.with("window", lines))
    }
}

/// `retry`.
#[derive(Clone, PartialEq, Debug)]
#[must_use]
pub struct Retry(pub(super) Map);

impl Retry {
    /// `max`: the number of retries, not attempts; up to 1,000.
    pub fn times(max: u32) -> Self {
        Self(Map::default().with("max", max))
    }

    /// `backoff`: the wait doubles from the first duration to the second. By default from 1 s to
    /// 30 s.
    pub fn backoff(self, min: Duration, max: Duration) -> Self {
        Self(self.0.with("backoff", format!("{}..{}", written(min), written(max))))
    }

    /// `backoff`: the same wait before each retry.
    pub fn delay(self, delay: Duration) -> Self {
        Self(self.0.with("backoff", delay))
    }
}

/// `repeat`. `max` is the most turns, up to 1,000,000.
#[derive(Clone, PartialEq, Debug)]
#[must_use]
pub struct Repeat(Map);

impl Repeat {
    /// Exactly `max` turns.
    pub fn times(max: u32) -> Self {
        Self(Map::default().with("max", max))
    }

    /// `until`: ends after a turn where the condition is neither false nor null.
    pub fn until(condition: Expr, max: u32) -> Self {
        Self(Map::default().with("until", condition).with("max", max))
    }

    /// `while`: ends after a turn where the condition is false or null.
    pub fn while_true(condition: Expr, max: u32) -> Self {
        Self(Map::default().with("while", condition).with("max", max))
    }

    /// `delay`: the time between two turns; by default none.
    pub fn delay(self, delay: Duration) -> Self {
        Self(self.0.with("delay", delay))
    }
}

/// `cache`, with a bound on the age or a key.
#[derive(Clone, PartialEq, Debug)]
#[must_use]
pub struct Cache(Map);

impl Cache {
    /// `ttl`: how old an outcome may be.
    pub fn ttl(ttl: Duration) -> Self {
        Self(Map::default().with("ttl", ttl))
    }

    /// `key`: what an outcome of any age is found by, in place of the input.
    pub fn key(key: impl Into<Text>) -> Self {
        Self(Map::default().with("key", key.into()))
    }

    /// `key`, beside a `ttl`.
    pub fn with_key(self, key: impl Into<Text>) -> Self {
        Self(self.0.with("key", key.into()))
    }
}
