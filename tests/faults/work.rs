//! The runs whose hosts are killed: what each does, its outputs, and the effects that it must have.
//!
//! A run is named by its number alone, `run-7`: its workflow, its input and its outputs follow from
//! it. So every process that recovers a folder knows what each run in it must be.

use crate::kinds::{HEAD, Kind, SIGNALLED, guests, kinds};
use serde_json::{Map, Value};
use std::net::SocketAddr;

/// A run of a campaign.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Job(pub(crate) u64);

impl Job {
    /// The run whose id [`id`](Self::id) gave.
    pub(crate) fn of(id: &str) -> Self {
        Self(id.strip_prefix("run-").and_then(|number| number.parse().ok()).expect("an id of a campaign"))
    }

    /// A run of the first workflow, which makes one call after the other.
    pub(crate) fn order(input: u64) -> Self {
        Self(input * kinds().len() as u64)
    }

    pub(crate) fn id(self) -> String {
        format!("run-{}", self.0)
    }

    fn kind(self) -> &'static Kind {
        &kinds()[(self.0 % kinds().len() as u64) as usize]
    }

    /// What distinguishes runs of one workflow.
    fn input(self) -> u64 {
        self.0 / kinds().len() as u64
    }

    pub(crate) fn file(self) -> String {
        format!("{}.yaml", self.kind().name)
    }

    /// The text of its workflow, for a server at that address.
    pub(crate) fn workflow(self, server: SocketAddr) -> String {
        let kind = self.kind();
        let grant = format!("allow: {{ http: [ \"GET,PUT,POST http://{server}\" ] }}");
        let steps = kind.text.replace("ADDRESS", &server.to_string()).replace("GRANT", &grant);
        let path = |folder| guests(folder).to_str().expect("a path in UTF-8").to_owned();
        let steps = steps.replace("BUILT", &path("built")).replace("DEMAND", &path("built-on-demand"));
        format!("name: {}\n{HEAD}{steps}", kind.name)
    }

    /// The signals that it must receive, in this order.
    pub(crate) fn signals(self) -> Vec<u64> {
        if self.kind().name == SIGNALLED { vec![self.input(), self.input() + 1] } else { Vec::new() }
    }

    pub(crate) fn inputs(self) -> Map<String, Value> {
        Map::from_iter([("n".to_owned(), self.input().into())])
    }

    pub(crate) fn outputs(self) -> Value {
        (self.kind().outputs)(&self.id(), self.input())
    }

    /// The paths of its effects.
    pub(crate) fn effects(self) -> Vec<String> {
        (self.kind().effects)(self.input()).into_iter().map(|name| format!("/effects/{}/{name}", self.id())).collect()
    }
}
