//! Acts that are stored for a run that is not running, and take effect when it is recovered.

use crate::cli::report::brief::{cut, shown};
use crate::cli::table::Table;
use crate::process::{Micros, Pid, Tag};
use crate::run::{Act, Mail, Resolution};
use serde_json::{Value, json};

/// Acts shown in the table; the JSON has all of them. Arbitrary: some lines.
const SHOWN_MAX: usize = 20;

/// A stored act.
pub(in crate::cli) struct PendingAct {
    id: String,
    /// `None`: it is from a release that this one does not know.
    act: Option<Act>,
}

impl From<&Mail> for PendingAct {
    fn from(mail: &Mail) -> Self {
        Self { id: mail.id.to_string(), act: Act::of_mail(mail).ok() }
    }
}

impl PendingAct {
    /// The call that it resolves.
    pub(in crate::cli) fn resolves(&self) -> Option<(Pid, Tag)> {
        match &self.act {
            Some(Act::Resolve { pid, tag, .. }) => Some((*pid, *tag)),
            _ => None,
        }
    }

    /// Returns whether it is this act.
    pub(in crate::cli) fn is_act(&self, act: &Act) -> bool {
        self.act.as_ref() == Some(act)
    }

    /// The outcome that it gives a call.
    pub(in crate::cli) fn outcome(&self) -> Option<&'static str> {
        match &self.act {
            Some(Act::Resolve { resolution, .. }) => Some(outcome(resolution)),
            _ => None,
        }
    }

    /// `act` is the command; its arguments are members beside it.
    pub(in crate::cli) fn to_json(&self) -> Value {
        let (act, described) = self.described();
        let mut value = json!({ "act": act, "id": self.id });
        match &self.act {
            Some(Act::Signal { name, body }) => {
                value["name"] = json!(name);
                value["bytes"] = json!(body.size());
            }
            Some(Act::Cancel { reason, grace }) => {
                value["reason"] = json!(reason);
                value["now"] = json!(*grace == Some(Micros(0)));
            }
            Some(Act::Resolve { pid, tag, resolution }) => {
                (value["pid"], value["tag"]) = (json!(pid), json!(tag));
                value["outcome"] = json!(outcome(resolution));
            }
            Some(Act::TimeOut { .. } | Act::Pause | Act::Resume) => {}
            None => value["problem"] = json!(described),
        }
        value
    }

    /// The command, and what it was given.
    fn described(&self) -> (&'static str, String) {
        match &self.act {
            Some(Act::Signal { name, body }) => ("signal", cut(&format!("{name} {}", shown(body)))),
            Some(Act::Cancel { reason, grace: Some(Micros(0)) }) => ("cancel", cut(&format!("at once: {reason}"))),
            Some(Act::Cancel { reason, .. }) => ("cancel", cut(reason)),
            Some(Act::TimeOut { .. }) => ("time-out", String::new()),
            Some(Act::Pause) => ("pause", String::new()),
            Some(Act::Resume) => ("resume", String::new()),
            Some(Act::Resolve { pid, tag, resolution }) => ("resolve", format!("{pid}/{tag} {}", outcome(resolution))),
            None => ("unknown", "it is from another release".to_owned()),
        }
    }
}

fn outcome(resolution: &Resolution) -> &'static str {
    match resolution {
        Resolution::Answered(Ok(_)) => "completed",
        Resolution::Answered(Err(_)) => "failed",
        Resolution::Again => "again",
    }
}

/// A table, with a line below it if there are more.
pub(in crate::cli) fn text(pending: &[PendingAct]) -> String {
    let mut table = Table::new(&["WAITS TO BE DELIVERED", "WITH"]);
    for one in pending.iter().take(SHOWN_MAX) {
        let (act, described) = one.described();
        table.row(vec![act.to_owned(), described]);
    }
    let more = pending.len().saturating_sub(SHOWN_MAX);
    let more = if more > 0 { format!("and {more} more\n") } else { String::new() };
    table.text() + &more
}
