//! The runs of a server.

use super::folder_remove::not_named;
use super::server_view::{declared, live, may_wait_for, row, unexpected};
use super::{
    Acted, Cancel, CancelOutcome, Cancelled, ListWanted, Listed, Row, RunBlobs, RunView, State, TakeLine, Target,
    server_inbox,
};
use crate::cli::args::http::{Ask, Problem, Refused, Server};
use crate::cli::commands::acts::ended_error;
use crate::cli::exit::Exit;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::report::journal::{FULL, FULL_HINT};
use crate::cli::store::Ownership;
use crate::cli::table::rfc3339;
use crate::cli::terminal::{Terminal, quoted, say};
use crate::host::RunProjection;
use crate::host::control::{Answer, ControlError, Refusal, Request, Resolve};
use crate::journal::Stored;
use crate::journal::catalog::{InboxFilter, WaitingRun};
use crate::process::{Blob, Payload, Tag};
use crate::run::Record;
use crate::workflow::diagnostics::closest;
use crate::workflow::model::Inputs;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::{Value, json};
use std::cell::OnceCell;
use std::sync::Arc;

/// Runs of a page.
const PAGE: u32 = 1_000;

/// Ids listed if a prefix matches several.
const LISTED_MAX: usize = 5;

/// Runs whose ids are compared with an unknown one. Arbitrary: a user means a recent one.
const CANDIDATES_MAX: u32 = 200;

/// The runs of this server.
pub(in crate::cli) struct RemoteRuns {
    pub(in crate::cli) server: Server,
    /// The id of its process.
    process: OnceCell<u32>,
}

impl RemoteRuns {
    pub(in crate::cli) fn new(server: Server) -> Self {
        Self { server, process: OnceCell::new() }
    }

    /// Asks about a run by what was given, and if that is no id, by the id that begins with it.
    pub(in crate::cli) fn with_run<T>(
        &self,
        given: &str,
        ask: &mut dyn FnMut(&str) -> Result<T, Refused>,
    ) -> Result<(String, T), CommandError> {
        let is_segment = !matches!(given, "" | "." | "..");
        let problem = match is_segment.then(|| ask(given)) {
            Some(Ok(answer)) => return Ok((given.to_owned(), answer)),
            Some(Err(Refused::Problem(problem))) if problem.kind == "unknown" => Some(problem),
            Some(Err(refused)) => return Err(self.explained(given, refused)),
            None => None,
        };
        let id = self.resolve(given)?;
        match problem {
            Some(problem) if id == given => Err(Refused::Problem(problem).into()),
            _ => ask(&id).map(|answer| (id.clone(), answer)).map_err(|refused| self.explained(&id, refused)),
        }
    }

    /// The inputs that the workflow of a run declares; none if it was not deployed.
    pub(in crate::cli) fn inputs_of(&self, given: &str) -> Result<Inputs, CommandError> {
        let (_, detail) = self.with_run(given, &mut |id| self.server.get(&["runs", id], &[]))?;
        let (Some(name), Some(number)) = (detail["workflow"].as_str(), detail["version"].as_u64()) else {
            return Ok(Inputs::default());
        };
        Ok(declared(&self.server.get(&["workflows", name, "versions", &number.to_string()], &[])?))
    }

    /// The refusal of an act on a run, in the words that a folder has for it.
    fn explained(&self, id: &str, refused: Refused) -> CommandError {
        match &refused {
            Refused::Problem(Problem { kind, .. }) if kind == "run-ended" => match self.row(id) {
                Ok(Row { stored, .. }) => ended_error(&stored).into(),
                Err(_) => refused.into(),
            },
            _ => refused.into(),
        }
    }

    /// The id of a run that there is. Its state is not read, which is long for a long run.
    fn known(&self, given: &str) -> Result<String, CommandError> {
        Ok(self.with_run(given, &mut |id| self.server.get(&["runs", id, "snapshots"], &[]))?.0)
    }

    pub(super) fn row(&self, id: &str) -> Result<Row, UserError> {
        self.row_of(&self.server.get(&["runs", id], &[]).map_err(UserError::from)?)
    }

    /// A run as the API shows it.
    fn row_of(&self, value: &Value) -> Result<Row, UserError> {
        row(value, || {
            *self.process.get_or_init(|| {
                let host = self.server.get(&["host"], &[]).ok();
                host.and_then(|host| u32::try_from(host["pid"].as_u64()?).ok()).unwrap_or(0)
            })
        })
    }

    /// The id that begins with what was given.
    fn resolve(&self, given: &str) -> Result<String, UserError> {
        let ids = |query: &[(&str, String)]| -> Result<Vec<String>, UserError> {
            let page = self.server.get(&["runs"], query).map_err(UserError::from)?;
            let runs = page["runs"].as_array().ok_or_else(|| unexpected("runs"))?;
            Ok(runs.iter().filter_map(|run| run["id"].as_str().map(str::to_owned)).collect())
        };
        let mut found = match given {
            "" => Vec::new(),
            _ => ids(&[("q", given.to_owned()), ("limit", (LISTED_MAX + 1).to_string())])?,
        };
        if found.iter().any(|id| id == given) {
            return Ok(given.to_owned());
        }
        match found.len() {
            0 => {}
            1 => return Ok(found.remove(0)),
            more => {
                let more = if more > LISTED_MAX { ", and more" } else { "" };
                found.sort();
                let listed = found.into_iter().take(LISTED_MAX).collect::<Vec<_>>().join(", ");
                let refused = UserError::new(kind::UNKNOWN_RUN, format!("several runs begin with `{}`", quoted(given)));
                return Err(refused.hint(format!("they are {listed}{more}")));
            }
        }
        let recent = ids(&[("limit", CANDIDATES_MAX.to_string())])?;
        let hint = match closest(given, recent.iter().map(String::as_str)) {
            Some(meant) => format!("did you mean {meant}?"),
            None => format!("`wfhost ls` lists the runs of {}; --server names another", self.server.name()),
        };
        Err(UserError::new(kind::UNKNOWN_RUN, format!("there is no run `{}`", quoted(given))).hint(hint))
    }

    /// Reads the durable records of a run one by one.
    pub(in crate::cli) fn each_record(
        &self,
        id: &str,
        take: &mut dyn FnMut(Record) -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        let query = [("encoded", "true".to_owned())];
        let path = ["runs", id, "history"];
        let ask = Ask::get(&path).query(&query);
        self.server.lines(&ask, "application/x-ndjson", &mut |line| {
            if line.is_empty() {
                return Ok(true);
            }
            take(record(line)?)?;
            Ok(true)
        })
    }

    /// Carries out an act on a run whose id is known.
    fn carry_out(&self, id: &str, request: &Request) -> Result<bool, Refused> {
        let post = |path: &[&str], body: &Value, key: &Option<String>| {
            let mut ask = Ask::post(path, body);
            ask.key = key.as_deref();
            self.server.ask(ask).map_err(|refused| match (&refused, request) {
                (Refused::Problem(problem), _) if problem.kind == "key-reused" => {
                    act_refused(Refusal::Conflict { id: key.clone().unwrap_or_default() })
                }
                (Refused::Problem(problem), Request::Resolve { tag, .. }) if problem.kind == "no-such-call" => {
                    act_refused(Refusal::NoSuchCall { tag: *tag, count: 0 })
                }
                _ => refused,
            })
        };
        let (_, done) = match request {
            Request::Signal { name, body, id: key, .. } => {
                let body = match body {
                    Payload::Json(json) => json.to_value(),
                    other => json!(other),
                };
                post(&["runs", id, "signals", name], &body, key)?
            }
            Request::Cancel { reason, now, id: key, .. } => {
                let mut body = json!({ "reason": reason });
                if *now {
                    body["grace"] = json!("0s");
                }
                post(&["runs", id, "cancel"], &body, key)?
            }
            Request::Pause { id: key, .. } => post(&["runs", id, "pause"], &json!({}), key)?,
            Request::Unpause { id: key, .. } => post(&["runs", id, "resume"], &json!({}), key)?,
            Request::Resolve { pid, tag, outcome, id: key, .. } => {
                let pid = match pid {
                    Some(pid) => pid.0,
                    None => self.caller_of(id, *tag)?,
                };
                let body = match outcome {
                    Resolve::Completed(Payload::Json(answer)) => {
                        json!({ "outcome": "completed", "answer": answer.to_value() })
                    }
                    Resolve::Completed(_) => json!({ "outcome": "completed" }),
                    Resolve::Failed => json!({ "outcome": "failed" }),
                    Resolve::Resend => json!({ "outcome": "again" }),
                };
                let (pid, tag) = (pid.to_string(), tag.0.to_string());
                post(&["runs", id, "uncertain", &pid, &tag], &body, key)?
            }
            _ => return Err(unexpected("such act").into()),
        };
        Ok(done["outcome"] == "recorded")
    }

    /// The process that made the uncertain call with this tag.
    fn caller_of(&self, id: &str, tag: Tag) -> Result<u64, Refused> {
        let detail = self.server.get(&["runs", id], &[])?;
        let calls = detail["live"]["uncertain"].as_array().or(detail["uncertain"].as_array());
        let calls: Vec<u64> = calls
            .into_iter()
            .flatten()
            .filter(|call| call["tag"] == tag.0)
            .filter_map(|call| call["pid"].as_u64())
            .collect();
        match calls[..] {
            [pid] => Ok(pid),
            _ => Err(act_refused(Refusal::NoSuchCall { tag, count: calls.len() })),
        }
    }
}

/// The refusal of an act, in the words that a host has for it.
fn act_refused(refusal: Refusal) -> Refused {
    UserError::from(ControlError::Refused(refusal)).into()
}

/// A record that was sent as the journal has it.
pub(super) fn record(line: &[u8]) -> Result<Record, CommandError> {
    let value: Value = serde_json::from_slice(line).map_err(|_| unexpected("record"))?;
    if let Some(problem) = value.get("problem") {
        let title = problem["detail"].as_str().or(problem["title"].as_str()).unwrap_or("the records cannot be read");
        return Err(UserError::new(kind::JOURNAL, title).into());
    }
    let bytes = value["record"].as_str().and_then(|text| STANDARD.decode(text).ok());
    let record = bytes.and_then(|bytes| Record::decode(bytes.into()).ok());
    Ok(record.ok_or_else(|| unexpected("record that this release can read"))?)
}

/// The states that the API filters by.
fn state_filter(state: State) -> &'static str {
    match state {
        State::Running | State::Waiting | State::Paused | State::Suspended => "unfinished",
        State::Queued => "queued",
        State::Damaged => "damaged",
        State::Succeeded => "succeeded",
        State::Failed => "failed",
        State::Cancelled => "cancelled",
        State::TimedOut => "timed-out",
    }
}

/// Returns whether a run of the filtered list is wanted.
fn is_wanted(row: &Row, state: Option<State>) -> bool {
    let is_owned = matches!(row.ownership, Ownership::Owned(_));
    match state {
        Some(State::Running) => is_owned,
        Some(State::Waiting) => row.state == Some("waiting"),
        Some(State::Paused) => row.state == Some("paused"),
        Some(State::Suspended) => row.ownership == Ownership::Orphaned && row.stored.damage.is_none(),
        Some(State::Damaged) => !is_owned,
        Some(State::Queued) => row.stored.queued && row.stored.status.is_none(),
        _ => true,
    }
}

impl Target for RemoteRuns {
    fn name(&self) -> String {
        self.server.name()
    }

    fn list(&self, wanted: &ListWanted<'_>) -> Result<Listed, CommandError> {
        let mut filter = Vec::new();
        filter.extend(wanted.status.map(|state| ("state", state_filter(state).to_owned())));
        filter.extend(wanted.name.map(|name| ("workflow", name.to_owned())));
        filter.extend(wanted.since.map(|since| ("created-after", rfc3339(since))));
        let is_exact = !matches!(
            wanted.status,
            Some(State::Running | State::Waiting | State::Paused | State::Suspended | State::Damaged | State::Queued)
        );
        let limit = wanted.limit.map_or(usize::MAX, |limit| limit as usize);
        let mut rows = Vec::new();
        let mut cursor = None;
        let is_whole = loop {
            let page = if is_exact { u32::try_from(limit - rows.len()).unwrap_or(PAGE).min(PAGE) } else { PAGE };
            let mut query = filter.clone();
            query.push(("limit", page.to_string()));
            query.extend(cursor.map(|cursor| ("cursor", cursor)));
            let page = self.server.get(&["runs"], &query)?;
            for run in page["runs"].as_array().ok_or_else(|| unexpected("runs"))? {
                let row = self.row_of(run)?;
                if is_wanted(&row, wanted.status) {
                    rows.push(row);
                }
            }
            cursor = page["next"].as_str().map(str::to_owned);
            if cursor.is_none() || is_exact && rows.len() >= limit {
                break cursor.is_none();
            }
        };
        let mut count = rows.len() as u64;
        if !is_whole {
            // A token for some workflows may not count.
            let counted = self.server.get(&["runs", "count"], &filter).ok();
            count = counted.and_then(|counted| counted["count"].as_u64()).unwrap_or(count).max(count);
        }
        rows.truncate(limit);
        Ok(Listed { rows, count })
    }

    fn view(&self, given: &str, terminal: Terminal) -> Result<RunView, CommandError> {
        let (id, detail) = self.with_run(given, &mut |id| self.server.get(&["runs", id], &[]))?;
        let Row { stored, ownership, state, queue } = self.row_of(&detail)?;
        let mut projection = RunProjection::default();
        self.each_record(&id, &mut |record| {
            projection.apply(&record, &mut |_| {});
            Ok(())
        })?;
        let row = Row { stored, ownership, state, queue };
        let live = live(&detail, &row, &projection);
        if live.as_ref().is_some_and(|live| live.facts.stalled) {
            say(&terminal.warning_text(FULL, Some(FULL_HINT)));
        }
        let Row { stored, ownership, queue, .. } = row;
        let damage = stored.damage.as_ref().map(ToString::to_string);
        Ok(RunView {
            file: detail["file"].as_str().unwrap_or("unknown").to_owned(),
            queue,
            resume: format!("wfhost resume {id}"),
            stored,
            ownership,
            projection,
            live,
            silent: false,
            pending: Vec::new(),
            damage,
            is_readable: true,
            scripts: None,
        })
    }

    fn act(&self, given: &str, request: &dyn Fn(&str) -> Request) -> Result<Acted, CommandError> {
        let (run, is_done) = self.with_run(given, &mut |id| self.carry_out(id, &request(id)))?;
        Ok(Acted { run, is_done })
    }

    fn cancel(&self, given: &str, cancel: &Cancel<'_>) -> Result<Cancelled, CommandError> {
        let request = |run: &str| Request::Cancel {
            run: run.to_owned(),
            reason: cancel.reason.to_owned(),
            now: cancel.now,
            id: Some(cancel.id.to_owned()),
        };
        let Acted { run, is_done } = self.act(given, &request)?;
        let outcome = if is_done { CancelOutcome::Asked } else { CancelOutcome::Stored(None) };
        Ok(Cancelled { run, outcome, has_end_steps: false })
    }

    fn unclaimed(&self, given: &str, name: &str) -> Result<Option<Vec<String>>, CommandError> {
        // The signal has been sent: a token that may not see more gets no warning.
        let Ok((_, detail)) = self.with_run(given, &mut |id| self.server.get(&["runs", id], &[])) else {
            return Ok(None);
        };
        let (workflow, version) = (detail["workflow"].as_str(), detail["version"].as_u64());
        let (Some(workflow), Some(version), None) = (workflow, version, detail["ended"].as_str()) else {
            return Ok(None);
        };
        let path = ["workflows", workflow, "versions", &version.to_string()];
        let Ok(version) = self.server.get(&path, &[]) else { return Ok(None) };
        let (file, source) = (version["file"].as_str().unwrap_or_default(), version["source"].as_str());
        if source.is_none_or(|source| may_wait_for(file, source, name)) {
            return Ok(None);
        }
        let signals = detail["signals"].as_array().map(Vec::as_slice).unwrap_or_default();
        let has = |signal: &&Value, key: &str| signal[key].as_u64().unwrap_or(0) > 0;
        let is_kept = signals.iter().any(|signal| signal["name"] == name && has(&signal, "kept"));
        let waited = signals.iter().filter(|signal| has(signal, "waiting"));
        let waited = waited.filter_map(|signal| signal["name"].as_str().map(str::to_owned)).collect();
        Ok(is_kept.then_some(waited))
    }

    fn remove(&self, given: &[String], _: bool) -> Result<Vec<Arc<str>>, CommandError> {
        let mut meant = Vec::new();
        for given in given {
            let (id, detail) = self.with_run(given, &mut |id| self.server.get(&["runs", id], &[]))?;
            let Row { stored, ownership, .. } = self.row_of(&detail)?;
            if id != *given {
                return Err(not_named(given, &id).into());
            }
            if let Ownership::Owned(owner) = ownership {
                let title = format!("the run {id} is running in process {}", owner.pid);
                return Err(UserError::new(kind::WRONG_STATE, title)
                    .hint(format!("to end it: wfhost cancel {id}"))
                    .into());
            }
            meant.push(stored.id);
        }
        let mut removed = Vec::new();
        for id in meant {
            let path = ["runs", &*id];
            let ask = Ask { method: Method::DELETE, ..Ask::get(&path) };
            match self.server.ask(ask) {
                Ok(_) => removed.push(id),
                // Somebody else was quicker, or the run was named twice.
                Err(Refused::Problem(problem)) if problem.kind == "unknown" => {}
                Err(refused) => return Err(refused.into()),
            }
        }
        Ok(removed)
    }

    fn records(&self, given: &str) -> Result<(Stored, Vec<Record>), CommandError> {
        let (id, detail) = self.with_run(given, &mut |id| self.server.get(&["runs", id], &[]))?;
        let Row { stored, .. } = self.row_of(&detail)?;
        let mut records = Vec::new();
        self.each_record(&id, &mut |record| {
            records.push(record);
            Ok(())
        })?;
        Ok((stored, records))
    }

    fn log(&self, given: &str, follow: bool, terminal: Terminal, take: TakeLine<'_>) -> Result<Exit, CommandError> {
        let id = self.known(given)?;
        self.show_log(&id, follow, terminal, take)
    }

    fn waiting(&self, filter: &InboxFilter) -> Result<Vec<WaitingRun>, CommandError> {
        server_inbox::waiting(&self.server, filter)
    }

    fn blobs(&self, given: &str) -> Result<RunBlobs, CommandError> {
        let (id, held) = self.with_run(given, &mut |id| self.server.get(&["runs", id, "blobs"], &[]))?;
        let held = held["items"].as_array().ok_or_else(|| unexpected("items"))?;
        let held = held.iter().map(|item| Blob::of_value(item).ok_or_else(|| unexpected("digest")));
        let held = held.collect::<Result<_, _>>()?;
        let (_, records) = self.records(&id)?;
        Ok(RunBlobs::new(&id, held, &records))
    }

    fn copy_blob(&self, run: &str, digest: &str, to: &mut dyn std::io::Write) -> Result<(), String> {
        self.server.download(&["runs", run, "blobs", digest], digest, to)
    }

    fn query(&self, given: &str, name: Option<&str>, _: Terminal) -> Result<Answer, CommandError> {
        let names = |value: Value| -> Vec<_> {
            value.as_array().into_iter().flatten().filter_map(Value::as_str).map(Into::into).collect()
        };
        let (id, all) = self.with_run(given, &mut |id| self.server.get(&["runs", id, "queries"], &[]))?;
        let Some(name) = name else { return Ok(Answer::Names(names(all))) };
        match self.server.get(&["runs", &id, "queries", name], &[]) {
            Ok(value) => Ok(Answer::Value(Payload::json(&value))),
            Err(Refused::Problem(problem)) if problem.kind == "unknown" => {
                let refusal = Refusal::NotExposed { name: name.to_owned(), names: names(all) };
                Err(ControlError::Refused(refusal).into())
            }
            Err(refused) => Err(refused.into()),
        }
    }
}
