//! What a step waits for.

use super::tree::{Map, Tree};
use super::value::{Expr, Interval, Text};
use serde::Serialize;
use std::time::Duration;

/// What a step waits for: made of a `Duration`, of an [`Expr`] that gives one, of a [`Signal`], or
/// of [`Several`].
#[derive(Clone, PartialEq, Debug)]
#[must_use]
pub struct Wait(pub(super) Tree);

impl Wait {
    /// `until`: a time of RFC 3339 with the offset of its zone, or an expression that gives one.
    pub fn until(time: impl Into<Text>) -> Self {
        Self(Map::default().with("until", time.into()).into())
    }
}

impl From<Duration> for Wait {
    fn from(duration: Duration) -> Self {
        Self(duration.into())
    }
}

impl From<Expr> for Wait {
    fn from(duration: Expr) -> Self {
        Self(duration.into())
    }
}

impl From<Signal> for Wait {
    fn from(signal: Signal) -> Self {
        Self(signal.0.into())
    }
}

impl From<Several> for Wait {
    fn from(several: Several) -> Self {
        let Several { mode, parts, timeout } = several;
        let timeout = timeout.into_iter().map(|timeout| ("timeout".to_owned(), timeout.into()));
        let entries = std::iter::once((mode.to_owned(), parts.into())).chain(timeout).collect();
        Self(Map { entries, place: None }.into())
    }
}

/// A message from outside; its body is the output.
#[derive(Clone, PartialEq, Debug)]
#[must_use]
pub struct Signal(Map);

impl Signal {
    /// `signal`: its name.
    pub fn named(name: impl Into<Text>) -> Self {
        Self(Map::default().with("signal", name.into()))
    }

    /// `timeout`: then the step fails as `timed-out`; by default it waits for as long as it takes.
    pub fn timeout(self, timeout: impl Into<Interval>) -> Self {
        Self(self.0.with("timeout", timeout.into()))
    }

    /// `title`: what the person sees who sends it; cut after 200 characters.
    pub fn title(self, title: impl Into<Text>) -> Self {
        Self(self.0.with("title", title.into()))
    }

    /// `text`: what the person sees below the title; cut after 4,000 characters.
    pub fn text(self, text: impl Into<Text>) -> Self {
        Self(self.0.with("text", text.into()))
    }

    /// `schema`: a JSON Schema of the body, at most 16 KiB, from which a form is made.
    pub fn schema(self, schema: impl Serialize) -> Self {
        Self(self.0.with("schema", Tree::literal(schema)))
    }
}

/// Several things, each under a name: at most 100.
#[derive(Clone, PartialEq, Debug)]
#[must_use]
pub struct Several {
    mode: &'static str,
    parts: Map,
    timeout: Option<Interval>,
}

impl Several {
    /// `any`: waits for the first of them.
    pub fn any() -> Self {
        Self { mode: "any", parts: Map::default(), timeout: None }
    }

    /// `all`: waits for each of them.
    pub fn all() -> Self {
        Self { mode: "all", parts: Map::default(), timeout: None }
    }

    /// Adds a part.
    pub fn part(self, name: impl Into<String>, wait: impl Into<Wait>) -> Self {
        let Self { mode, mut parts, timeout } = self;
        parts.entries.push((name.into(), wait.into().0));
        Self { mode, parts, timeout }
    }

    /// `timeout`: how long the step waits. Each part has none of its own.
    pub fn timeout(self, timeout: impl Into<Interval>) -> Self {
        Self { timeout: Some(timeout.into()), ..self }
    }
}
