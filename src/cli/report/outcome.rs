//! The outcome of a run, as text and as JSON.

use crate::cli::exit::Exit;
use crate::cli::report::hints::Failure;
use crate::cli::report::invocation::Invocation;
use crate::cli::report::source_map::{Message, STDIN, SourceMap, SourceSpan, span_json};
use crate::cli::terminal::{Terminal, say};
use crate::host::script::without_place;
use crate::host::{Outcome, Status, Workflow};
use crate::process::Problem;
use crate::run::Uncertain;
use crate::workflow::diagnostics::Excerpt;
use crate::workflow::model::INLINE;
use crate::workflow::plan::Action;
use crate::workflow::syntax::Source;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// Failed steps that are listed besides the first. Arbitrary: some lines.
const ALSO_MAX: usize = 20;

/// What was undone, what was not, and what failed after the steps.
pub(in crate::cli) fn undone(problem: &Problem) -> Vec<String> {
    let data = problem.data.as_ref().map(crate::process::Json::to_value).unwrap_or_default();
    let list = |key: &str| data[key].as_array().map_or(&[][..], Vec::as_slice);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut notes = Vec::new();
    let names: Vec<String> = list("undone").iter().map(text).collect();
    if !names.is_empty() {
        let more = names.len().saturating_sub(ALSO_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        notes.push(format!("undone: {}{more}", names[..names.len().min(ALSO_MAX)].join(", ")));
    }
    for one in list("not-undone").iter().take(ALSO_MAX) {
        let what = match () {
            () if one["may-be-done"] == true => "perhaps done, and not undone",
            () if one["may-be-undone"] == true => "perhaps undone",
            () => "not undone",
        };
        notes.push(format!("{what}: {}: {} ({})", text(&one["step"]), text(&one["title"]), text(&one["kind"])));
    }
    for one in list("on").iter().take(ALSO_MAX) {
        let detail = text(&one["detail"]);
        notes.push(format!("{}: {detail}", text(&one["title"])));
    }
    notes
}

/// A run that has ended, and what is needed to report it.
#[derive(Clone)]
pub(in crate::cli) struct Report<'a> {
    pub(in crate::cli) outcome: &'a Outcome,
    /// Calls that may have happened: the run ended before their answers.
    pub(in crate::cli) uncertain: &'a [Uncertain],
    pub(in crate::cli) workflow: &'a Workflow,
    pub(in crate::cli) invocation: &'a Invocation,
    /// The slots that the host had.
    pub(in crate::cli) slots: u32,
}

impl Report<'_> {
    pub(in crate::cli) fn exit(&self) -> Exit {
        match self.outcome.status {
            Status::Succeeded => Exit::Success,
            Status::Failed => Exit::Failed,
            Status::Cancelled | Status::TimedOut | Status::Suspended => Exit::Cancelled,
        }
    }

    /// The run as a JSON object: that of [`Outcome::to_json`], with uncertain calls, places and a
    /// hint.
    pub(in crate::cli) fn to_json(&self) -> Value {
        let mut value = self.outcome.to_json();
        if !self.uncertain.is_empty() {
            value["uncertain"] = json!(self.uncertain);
        }
        let Err(problem) = &self.outcome.result else { return value };
        let map = SourceMap::of(self.workflow);
        let failure = FailedRun::of(problem, self.workflow);
        if let Some(map) = &map {
            if let Some(span) = failure.span(map) {
                value["problem"]["at"] = map.json(span);
            }
            if let Some(Excerpt { file, text, span, .. }) = failure.excerpt(self.workflow) {
                value["problem"]["script-at"] = span_json(&Source::new(&file, &text), span);
            }
            let failed = failure.failed.iter().map(|(step, pointer)| {
                let span = pointer.map(|pointer| map.json(map.find(pointer, None)));
                json!({ "step": step, "at": span })
            });
            if !failure.failed.is_empty() {
                value["failed"] = failed.collect();
            }
        }
        if let Some(hint) = self.hint(&failure) {
            value["problem"]["hint"] = json!(hint);
        }
        value
    }

    /// Reports why there are no outputs.
    pub(in crate::cli) fn say(&self, terminal: Terminal) {
        let Err(problem) = &self.outcome.result else { return };
        let failure = FailedRun::of(problem, self.workflow);
        let map = SourceMap::of(self.workflow);
        let cause = failure.excerpt(self.workflow);
        let mut notes = failure.notes(cause.is_some());
        notes.extend(crate::cli::report::reasons::said(&failure.cause));
        notes.extend(undone(problem));
        let node = failure.step.as_deref().and_then(|step| self.workflow.plan().node(step));
        if failure.cause["class"] == "uncertain" && node.is_some_and(|node| node.retry.is_some()) {
            notes.push("`retry` did not repeat it: it may have happened, and is not safe to repeat".to_owned());
        }
        if let Some(also) = failure.also(map.as_ref()) {
            notes.push(also);
        }
        let hint = self.hint(&failure);
        let message =
            Message { kind: failure.cause["kind"].as_str().unwrap_or_default(), title: failure.title(), notes, hint };
        let placed = map.as_ref().and_then(|map| Some((map, failure.span(map)?)));
        say(&match placed {
            Some((map, span)) => map.excerpt(span, cause.as_ref(), &message, terminal),
            None => message.plain(terminal),
        });
    }

    /// Warns of calls whose outcome is unknown. Shown wherever the run's own problem is.
    pub(in crate::cli) fn say_uncertain(&self, terminal: Terminal) {
        let title = match self.uncertain.len() {
            0 => return,
            1 => "a call may have happened: the run ended before its answer".to_owned(),
            count => format!("{count} calls may have happened: the run ended before their answers"),
        };
        say(&terminal.warning_text(&title, Some(&format!("`wfhost status {}` lists them", self.outcome.run))));
    }

    fn hint(&self, failure: &FailedRun<'_>) -> Option<String> {
        let node = failure.step.as_deref().and_then(|step| self.workflow.plan().node(step));
        let hint = Failure { problem: &failure.cause, node, invocation: self.invocation, slots: self.slots }.hint();
        let lines: Vec<String> = hint.into_iter().chain(self.retry_with_file(failure)).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    /// How to continue a run whose file has to change.
    fn retry_with_file(&self, failure: &FailedRun<'_>) -> Option<String> {
        let text = |key: &str| failure.cause[key].as_str().unwrap_or_default();
        let is_definite = text("class") == "definite" && self.outcome.status == Status::Failed;
        if !is_definite
            || !self.invocation.is_command("retry")
            || text("kind") == crate::dispatch::kind::ADDRESS_REFUSED
        {
            return None;
        }
        let file = match self.workflow.source().name() {
            // A workflow from a pipe has no file of that name.
            STDIN => "FILE",
            file => file,
        };
        if let Some((script, given)) = self.script_of(failure) {
            let command = self.invocation.with("--with", &given, true)?;
            return Some(format!("to continue once {script} is corrected: {command}"));
        }
        let command = self.invocation.with("--workflow", file, false)?;
        let other = failure.pointer.as_deref().map(|pointer| self.workflow.file_of(pointer).0.name());
        let wrong = other.filter(|other| *other != self.workflow.source().name()).unwrap_or(file);
        Some(format!("to continue once {wrong} is corrected: {command}"))
    }

    /// The file of the script that failed, and how a retry is given the script as it is then.
    fn script_of(&self, failure: &FailedRun<'_>) -> Option<(String, String)> {
        let file = failure.excerpt(self.workflow)?.file;
        let plan = self.workflow.plan();
        let Action::Uses { component, .. } = &plan.node(failure.step.as_deref()?)?.action else { return None };
        let component = plan.components.iter().find(|one| one.name == *component)?;
        if file == self.workflow.source().name() || component.source.starts_with(INLINE) {
            return None;
        }
        let folder = Path::new(self.workflow.source().name()).parent().unwrap_or(Path::new("."));
        let source = component.source.trim_start_matches("./");
        Some((file, format!("{}={}", component.name, folder.join(source).display())))
    }
}

/// A problem of a run, split into its parts.
struct FailedRun<'a> {
    /// The step that failed first, in the order of the plan.
    step: Option<String>,
    /// Which item, which attempt.
    attempt: String,
    /// The problem of the failed step, or the problem itself if no step failed.
    cause: Value,
    /// All steps that failed, with their pointers.
    failed: Vec<(String, Option<&'a str>)>,
    /// The pointer to the step that failed first, which may be within one of those.
    pointer: Option<String>,
}

impl<'a> FailedRun<'a> {
    fn of(problem: &Problem, workflow: &'a Workflow) -> Self {
        let mut whole = json!(problem);
        if let Some(data) = &problem.data {
            whole["data"] = data.to_value();
        }
        if problem.kind != crate::workflow::interpreter::kind::STEP_FAILED {
            return Self { step: None, attempt: String::new(), cause: whole, failed: Vec::new(), pointer: None };
        }
        let data = whole["data"].take();
        let number = |key: &str| data[key].as_u64();
        let item = number("item").map(|item| format!("item {item}"));
        let attempt = number("attempt").filter(|attempt| *attempt > 0).map(|attempt| format!("attempt {attempt}"));
        let names = data["failed"].as_array().map_or(&[][..], Vec::as_slice).iter().filter_map(Value::as_str);
        let pointer = |step: &str| workflow.plan().node(step).map(|node| node.pointer.as_str());
        Self {
            step: data["step"].as_str().map(str::to_owned),
            attempt: item.into_iter().chain(attempt).collect::<Vec<_>>().join(", "),
            failed: names.map(|step| (step.to_owned(), pointer(step))).collect(),
            cause: data["cause"].clone(),
            pointer: data["pointer"].as_str().map(str::to_owned),
        }
    }

    fn title(&self) -> String {
        let title = self.cause["title"].as_str().unwrap_or_default();
        match &self.step {
            Some(step) => format!("the step `{step}` failed: {title}"),
            None => title.to_owned(),
        }
    }

    /// The place in a script that the cause names.
    fn excerpt(&self, workflow: &Workflow) -> Option<Excerpt> {
        workflow.excerpt(&self.cause["data"])
    }

    /// `placed` says that the place in a script is shown.
    fn notes(&self, placed: bool) -> Vec<String> {
        let mut note = self.attempt.clone();
        let path = self.cause["data"]["at"]["path"].as_str().filter(|_| placed);
        let detail = self.cause["detail"].as_str();
        let detail = detail.map(|detail| path.map_or(detail, |path| without_place(detail, path)));
        if let Some(detail) = detail.filter(|detail| !detail.is_empty()) {
            let _ = write!(note, "{}{detail}", if note.is_empty() { "" } else { ": " });
        }
        if note.is_empty() { Vec::new() } else { vec![note] }
    }

    /// The expression that failed, else the step.
    fn span(&self, map: &SourceMap<'_>) -> Option<SourceSpan> {
        let data = &self.cause["data"];
        let offset = data["offset"].as_u64().and_then(|offset| usize::try_from(offset).ok());
        let outer = self.failed.first().and_then(|(_, pointer)| *pointer);
        let step = self.pointer.as_deref().or(outer);
        match data["pointer"].as_str() {
            // A pointer that a guest made is not about this file.
            Some(pointer) if step.is_none_or(|step| pointer.starts_with(&format!("{step}/"))) => {
                Some(map.find(pointer, offset))
            }
            _ => Some(map.find(step?, None)),
        }
    }

    /// `also failed: b (flow.yaml:7:9), c (flow.yaml:9:9)`.
    fn also(&self, map: Option<&SourceMap<'_>>) -> Option<String> {
        let others = self.failed.get(1..).filter(|others| !others.is_empty())?;
        let named = others.iter().take(ALSO_MAX).map(|(step, pointer)| match (map, pointer) {
            (Some(map), Some(pointer)) => format!("{step} ({})", map.short(map.find(pointer, None))),
            _ => step.clone(),
        });
        let named = named.collect::<Vec<_>>().join(", ");
        let more = others.len().saturating_sub(ALSO_MAX);
        Some(if more > 0 { format!("also failed: {named} and {more} more") } else { format!("also failed: {named}") })
    }
}
