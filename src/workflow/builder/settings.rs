//! What a definition declares beside its inputs and steps.

use super::tree::{Map, Tree};
use super::value::{Text, written};
use super::{CatchUp, FoldRule, GapRule, OnLimit, Overlap};
use crate::workflow::model::values::Unit;
use serde::Serialize;
use std::time::Duration;

/// A component: the path of a file, or a reference to a registry. Also made of its source alone.
#[derive(Clone, PartialEq, Debug)]
#[must_use]
pub struct Component(pub(super) Map);

impl Component {
    /// `source`: `./order.wasm`, or `oci://registry.example.com/team/orders:1.0`.
    pub fn new(source: impl Into<String>) -> Self {
        Self(Map::default().with("source", source.into()))
    }

    /// `limits`: those of every step that uses it.
    pub fn limits(self, limits: Limits) -> Self {
        Self(self.0.with("limits", limits.0))
    }

    /// An entry of `folders`: a program reads the folder at `path` as `name`, such as `/data`.
    pub fn folder(self, name: impl Into<String>, path: impl Into<String>) -> Self {
        Self(self.0.with_within("folders", name, path.into()))
    }
}

impl From<&str> for Component {
    fn from(source: &str) -> Self {
        Self::new(source)
    }
}

impl From<String> for Component {
    fn from(source: String) -> Self {
        Self::new(source)
    }
}

/// `limits`: what a guest may use. A limit that is not set is that of the host.
#[derive(Clone, PartialEq, Debug, Default)]
#[must_use]
pub struct Limits(pub(super) Map);

impl Limits {
    /// No limit is set.
    pub fn new() -> Self {
        Self::default()
    }

    fn key(self, key: &str, unit: Unit, value: u64) -> Self {
        Self(self.0.with(key, unit.write(value)))
    }

    /// `memory`: bytes of linear memory.
    pub fn memory(self, bytes: u64) -> Self {
        self.key("memory", Unit::Bytes, bytes)
    }

    /// `fuel-per-step`: computing in one step, about one unit per instruction.
    pub fn fuel_per_step(self, fuel: u64) -> Self {
        self.key("fuel-per-step", Unit::Amount, fuel)
    }

    /// `fuel`: computing in all steps.
    pub fn fuel(self, fuel: u64) -> Self {
        self.key("fuel", Unit::Amount, fuel)
    }

    /// `table-elements`: elements of its tables.
    pub fn table_elements(self, elements: u64) -> Self {
        self.key("table-elements", Unit::Amount, elements)
    }

    /// `commands-per-step`: commands of one step.
    pub fn commands_per_step(self, commands: u64) -> Self {
        self.key("commands-per-step", Unit::Amount, commands)
    }

    /// `outstanding`: commands that wait for their answers.
    pub fn outstanding(self, commands: u64) -> Self {
        self.key("outstanding", Unit::Amount, commands)
    }

    /// `mailbox`: messages that it has not received yet.
    pub fn mailbox(self, messages: u64) -> Self {
        self.key("mailbox", Unit::Amount, messages)
    }

    /// `payload`: bytes of one message, argument or answer.
    pub fn payload(self, bytes: u64) -> Self {
        self.key("payload", Unit::Bytes, bytes)
    }

    /// `output`: bytes of its output.
    pub fn output(self, bytes: u64) -> Self {
        self.key("output", Unit::Bytes, bytes)
    }

    /// `spawn-depth`: how deep guests spawn guests.
    pub fn spawn_depth(self, levels: u64) -> Self {
        self.key("spawn-depth", Unit::Amount, levels)
    }

    /// `processes`: processes below it.
    pub fn processes(self, processes: u64) -> Self {
        self.key("processes", Unit::Amount, processes)
    }

    /// `links`: its links and monitors.
    pub fn links(self, links: u64) -> Self {
        self.key("links", Unit::Amount, links)
    }

    /// `log-per-step`: bytes of log lines in one step.
    pub fn log_per_step(self, bytes: u64) -> Self {
        self.key("log-per-step", Unit::Bytes, bytes)
    }

    /// `grace`: the time that it has to end after it is asked to.
    pub fn grace(self, grace: Duration) -> Self {
        Self(self.0.with("grace", grace))
    }
}

/// `schedule`: when a service starts the workflow by itself.
#[derive(Clone, PartialEq, Debug)]
#[must_use]
pub struct Schedule(pub(super) Map);

impl Schedule {
    /// `cron`: minute, hour, day of month, month, day of week; or `@hourly` and the like.
    pub fn cron(cron: impl Into<String>) -> Self {
        Self(Map::default().with("cron", cron.into()))
    }

    /// `every`: a duration of real time, from 1 s to 366 days.
    pub fn every(period: Duration) -> Self {
        Self(Map::default().with("every", period))
    }

    fn key(self, key: &str, value: impl Into<Tree>) -> Self {
        Self(self.0.with(key, value))
    }

    /// `anchor`: a time of RFC 3339 that `every` counts from; by default 1970.
    pub fn anchor(self, time: impl Into<String>) -> Self {
        self.key("anchor", time.into())
    }

    /// `zone`: the time zone of `cron`, such as `Europe/Berlin`.
    pub fn zone(self, zone: impl Into<String>) -> Self {
        self.key("zone", zone.into())
    }

    /// `dst`: what happens on days when clocks change.
    pub fn dst(self, gap: GapRule, fold: FoldRule) -> Self {
        self.key("dst", Map::default().with("gap", Tree::literal(gap)).with("fold", Tree::literal(fold)))
    }

    /// `start`: a time of RFC 3339; no due time is before it.
    pub fn start(self, time: impl Into<String>) -> Self {
        self.key("start", time.into())
    }

    /// `end`: a time of RFC 3339; no due time is at it or after it.
    pub fn end(self, time: impl Into<String>) -> Self {
        self.key("end", time.into())
    }

    /// `jitter`: how much later than it is due a run may start.
    pub fn jitter(self, jitter: Duration) -> Self {
        self.key("jitter", jitter)
    }

    /// `catch-up`: which due times are caught up that passed while no service ran.
    pub fn catch_up(self, catch_up: CatchUp) -> Self {
        self.key("catch-up", Tree::literal(catch_up))
    }

    /// `overlap`: what happens while an earlier run of the schedule is unfinished.
    pub fn overlap(self, overlap: Overlap) -> Self {
        self.key("overlap", Tree::literal(overlap))
    }

    /// An entry of `inputs`: an input of each run. Expressions read `.due`, `.local` and
    /// `.schedule`.
    pub fn input(self, name: impl Into<String>, value: impl Serialize) -> Self {
        Self(self.0.with_within("inputs", name, Tree::value(value)))
    }
}

/// `concurrency`: how many runs of a group execute at one time.
#[derive(Clone, PartialEq, Debug)]
#[must_use]
pub struct Concurrency(pub(super) Map);

impl Concurrency {
    /// `group`: its name, at most 256 bytes. Expressions read `.inputs`.
    pub fn group(name: impl Into<Text>) -> Self {
        Self(Map::default().with("group", name.into()))
    }

    /// `limit`: how many runs have a place at one time, 1 to 1,000; by default 1.
    pub fn limit(self, runs: u32) -> Self {
        Self(self.0.with("limit", runs))
    }

    /// `on-limit`: what a run does that finds no place; by default [`OnLimit::Queue`].
    pub fn on_limit(self, on_limit: OnLimit) -> Self {
        Self(self.0.with("on-limit", on_limit.name()))
    }

    /// `queue-max`: how many runs may wait, 1 to 10,000; by default 100.
    pub fn queue_max(self, runs: u32) -> Self {
        Self(self.0.with("queue-max", runs))
    }
}

/// A secret: who may receive it. Whoever starts the run says where its value is.
#[derive(Clone, PartialEq, Debug)]
#[must_use]
pub struct Secret(pub(super) Map);

impl Secret {
    /// `hosts`: names and addresses, with `*.` and ports.
    pub fn for_hosts(hosts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self(Map::default().with("hosts", Tree::texts(hosts)))
    }

    /// `headers`: the header fields that may hold it; by default `authorization`, `x-api-key` and
    /// `cookie`.
    pub fn headers(self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self(self.0.with("headers", Tree::texts(names)))
    }

    fn expected(self, key: &str, value: impl Into<Tree>) -> Self {
        Self(self.0.with("from", Map::default().with(key, value)))
    }

    /// `from`: it is expected in this variable; by default in that of its name.
    pub fn from_env(self, variable: impl Into<String>) -> Self {
        self.expected("env", variable.into())
    }

    /// `from`: it is expected in this file.
    pub fn from_file(self, path: impl Into<String>) -> Self {
        self.expected("file", path.into())
    }

    /// `from`: it is expected to be what this command prints.
    pub fn from_command(self, words: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.expected("command", Tree::texts(words))
    }
}

/// An entry of `handlers`: bounds on the calls of a handler.
#[derive(Clone, PartialEq, Debug, Default)]
#[must_use]
pub struct CallBounds(pub(super) Map);

impl CallBounds {
    /// No bound is set.
    pub fn new() -> Self {
        Self::default()
    }

    /// `concurrency`: how many calls run at one time.
    pub fn concurrency(self, calls: u32) -> Self {
        Self(self.0.with("concurrency", calls))
    }

    /// `rate`: how many calls begin in which time.
    pub fn rate(self, calls: u32, period: Duration) -> Self {
        Self(self.0.with("rate", format!("{calls}/{}", written(period))))
    }

    /// `burst`: how many may begin together after a pause; by default 1.
    pub fn burst(self, calls: u32) -> Self {
        Self(self.0.with("burst", calls))
    }

    /// `per: host`: each host is bounded by itself.
    pub fn per_host(self) -> Self {
        Self(self.0.with("per", "host"))
    }
}
