//! Makes spans from records.

use super::{Flow, Span, SpanEnd, SpanId, SpanKind, Traced};
use crate::host::RunProjection;
use crate::process::handler::LOG;
use crate::process::{Action, Answer, Call, Ending, Payload, Pid, Status, Tag, Timestamp};
use crate::run::{Decided, Decision, Died, News, Record, Started, Stepped};
use crate::workflow::interpreter::progress::{NodeProgress, Progress};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Flows to one process that wait for its next step. Further ones are not drawn.
const FLOWS_MAX: usize = 1_000;

/// Characters of a name.
const NAME_CHARS_MAX: usize = 200;

/// Takes what the records say.
type Report<'r> = &'r mut dyn FnMut(Traced);

/// Makes the spans of a run from its records.
#[derive(Default, Debug)]
pub struct RunSpans {
    run: Arc<str>,
    /// The name of the workflow.
    name: String,
    projection: RunProjection,
    /// The time of the last record.
    at: Timestamp,
    root: Option<Span>,
    steps: BTreeMap<String, Span>,
    processes: BTreeMap<Pid, Span>,
    commands: BTreeMap<(Pid, Tag), Span>,
    flows: BTreeMap<Pid, Vec<(Arc<str>, Pid, Timestamp)>>,
}

impl RunSpans {
    /// Begins the spans of a run of the workflow of this name, before its first record.
    #[must_use]
    pub fn of(run: Arc<str>, workflow: impl Into<String>) -> Self {
        Self { run, name: workflow.into(), ..Self::default() }
    }

    /// Applies the next record.
    pub fn apply(&mut self, record: &Record, report: &mut dyn FnMut(Traced)) {
        let mut changed = Vec::new();
        self.projection.apply(record, &mut |line| {
            if let Some(Progress::Node(node)) = line.progress() {
                changed.push((line.at, node));
            }
        });
        match record {
            Record::Started(started) => self.started(started, report),
            Record::Stepped(stepped) => self.stepped(stepped, report),
            Record::Died(died) => self.died(died, report),
            Record::Arrived(arrived) => {
                self.at = self.at.max(arrived.at);
                self.arrived(&arrived.news, report);
            }
            Record::Leaving { .. } | Record::Upgraded(_) => {}
        }
        for (at, node) in changed {
            self.node(at, &node, report);
        }
        if self.projection.has_ended() && self.processes.is_empty() {
            self.close_all(&SpanEnd::Cancelled, report);
        }
    }

    /// Reports the spans that have not ended, as they are at this time.
    pub fn finish(mut self, at: Timestamp, report: &mut dyn FnMut(Traced)) {
        self.at = self.at.max(at);
        self.close_all(&SpanEnd::Open, report);
        if let Some(root) = self.root.take() {
            close(root, self.at, SpanEnd::Open, report);
        }
    }

    /// The id of the span of a run itself.
    #[must_use]
    pub fn root_id(run: &str) -> SpanId {
        id_in(run, "run", Pid::ROOT, b"")
    }

    /// The id of a span that says that a run has begun.
    #[must_use]
    pub fn beginning_id(run: &str) -> SpanId {
        id_in(run, "started", Pid::ROOT, b"")
    }

    /// The id of the span of a command: of a call, say.
    #[must_use]
    pub fn command_id(run: &str, pid: Pid, tag: Tag) -> SpanId {
        id_in(run, "command", pid, &tag.0.to_le_bytes())
    }

    fn id(&self, kind: &str, pid: Pid, rest: &[u8]) -> SpanId {
        id_in(&self.run, kind, pid, rest)
    }

    fn run_id(&self) -> SpanId {
        Self::root_id(&self.run)
    }

    fn step_id(&self, step: &str) -> SpanId {
        self.id("step", Pid::ROOT, step.as_bytes())
    }

    fn process_id(&self, pid: Pid) -> SpanId {
        if pid == Pid::ROOT { self.run_id() } else { self.id("process", pid, b"") }
    }

    /// What a command of a process is within: the step of its scope, or the process.
    fn parent(&self, pid: Pid, scope: Option<&str>) -> SpanId {
        match scope.map(|scope| self.projection.known_step(scope)) {
            Some(step) => self.step_id(&step),
            None => self.process_id(pid),
        }
    }

    fn started(&mut self, started: &Started, report: Report<'_>) {
        self.at = started.at;
        let origin = started.origin.as_ref().map(|origin| Arc::clone(&origin.run));
        let span = Span {
            id: self.run_id(),
            parent: None,
            kind: SpanKind::Run { origin },
            name: self.name.clone(),
            pid: Pid::ROOT,
            tag: None,
            from: started.at,
            to: started.at,
            end: SpanEnd::Open,
        };
        report(Traced::Began(span.clone()));
        self.root = Some(span);
    }

    fn stepped(&mut self, stepped: &Stepped, report: Report<'_>) {
        let Stepped { pid, step, at, fuel, .. } = *stepped;
        self.at = self.at.max(at);
        for (name, from, sent) in self.flows.remove(&pid).unwrap_or_default() {
            report(Traced::Flow(Flow { name, from: (from, sent), to: (pid, at.max(sent)) }));
        }
        report(Traced::Stepped { pid, step, at, fuel });
        for decided in &stepped.decided {
            self.decided(pid, at, decided, report);
        }
        match &stepped.status {
            Status::Complete(_) => self.ended(pid, at, SpanEnd::Succeeded, report),
            Status::Failed(problem) => self.ended(pid, at, SpanEnd::Failed(problem.kind.to_string()), report),
            _ => {}
        }
    }

    fn died(&mut self, died: &Died, report: Report<'_>) {
        self.at = self.at.max(died.at);
        let end = match &died.ending {
            Ending::Completed => SpanEnd::Succeeded,
            Ending::Failed(problem) => SpanEnd::Failed(problem.kind.to_string()),
            Ending::Cancelled(_) => SpanEnd::Cancelled,
        };
        self.ended(died.pid, died.at, end, report);
    }

    fn decided(&mut self, pid: Pid, at: Timestamp, decided: &Decided, report: Report<'_>) {
        let tag = decided.command.tag;
        match (&decided.command.action, &decided.decision) {
            (Action::Spawn(spawn), Decision::Spawned(child)) => {
                let scope = spawn.placement.as_ref().map(|placement| &*placement.scope);
                let name = self.projection.name(*child).unwrap_or(&spawn.entry).to_owned();
                let parent = self.parent(pid, scope);
                let span = self.span(SpanKind::Process, &name, (*child, None), parent, at);
                self.processes.insert(*child, span);
                self.flow(*child, "spawn".into(), pid, at);
            }
            (Action::Send(send), Decision::Delivered(to)) => {
                self.flow(*to, Arc::clone(&send.message.topic), pid, at);
            }
            (Action::Sleep(_), Decision::Due(_)) => {
                let span = self.span(SpanKind::Sleep, "sleep", (pid, Some(tag)), self.process_id(pid), at);
                self.commands.insert((pid, tag), span);
            }
            (Action::Call(call), decision) if *call.handler != *LOG => {
                let span = self.call(pid, tag, at, call, decision);
                match decision {
                    Decision::Answered(answer) | Decision::Took(answer) => close(span, at, end_of(answer), report),
                    _ => {
                        self.commands.insert((pid, tag), span);
                    }
                }
            }
            (Action::Cancel(tag), _) => self.settle(pid, *tag, SpanEnd::Cancelled, report),
            _ => {}
        }
    }

    fn call(&self, pid: Pid, tag: Tag, at: Timestamp, call: &Call, decision: &Decision) -> Span {
        let scope = call.placement.as_ref().map(|placement| &*placement.scope);
        let parent = self.parent(pid, scope);
        match decision {
            Decision::Waits | Decision::Took(_) => {
                let name = signal_of(&call.args).unwrap_or_else(|| call.handler.to_string());
                self.span(SpanKind::Wait, &name, (pid, Some(tag)), parent, at)
            }
            _ => {
                let kind = SpanKind::Call { handler: Arc::clone(&call.handler) };
                self.span(kind, &call.handler, (pid, Some(tag)), parent, at)
            }
        }
    }

    fn span(&self, kind: SpanKind, name: &str, (pid, tag): (Pid, Option<Tag>), parent: SpanId, at: Timestamp) -> Span {
        let id = match tag {
            Some(tag) => Self::command_id(&self.run, pid, tag),
            None => self.process_id(pid),
        };
        let name = name.chars().take(NAME_CHARS_MAX).collect();
        Span { id, parent: Some(parent), kind, name, pid, tag, from: at, to: at, end: SpanEnd::Open }
    }

    fn flow(&mut self, to: Pid, name: Arc<str>, from: Pid, at: Timestamp) {
        let flows = self.flows.entry(to).or_default();
        if flows.len() < FLOWS_MAX {
            flows.push((name, from, at));
        }
    }

    fn arrived(&mut self, news: &News, report: Report<'_>) {
        match news {
            News::Answered { pid, tag, answer } => self.settle(*pid, *tag, end_of(answer), report),
            News::Due { pid, tag } => self.settle(*pid, *tag, SpanEnd::Succeeded, report),
            News::Signal { .. } => {
                let waits: Vec<(Pid, Tag)> = self.commands.keys().copied().collect();
                for (pid, tag) in waits {
                    self.settle(pid, tag, SpanEnd::Succeeded, report);
                }
            }
            _ => {}
        }
    }

    /// Ends the span of a command if the command has its answer now.
    fn settle(&mut self, pid: Pid, tag: Tag, end: SpanEnd, report: Report<'_>) {
        if !self.projection.state().is_outstanding(pid, tag)
            && let Some(span) = self.commands.remove(&(pid, tag))
        {
            close(span, self.at, end, report);
        }
    }

    /// Ends the span of a process, and those of the commands that it no longer waits for.
    fn ended(&mut self, pid: Pid, at: Timestamp, end: SpanEnd, report: Report<'_>) {
        let open: Vec<(Pid, Tag)> =
            self.commands.range((pid, Tag(0))..=(pid, Tag(u64::MAX))).map(|(key, _)| *key).collect();
        for (pid, tag) in open {
            self.settle(pid, tag, SpanEnd::Cancelled, report);
        }
        self.flows.remove(&pid);
        if pid == Pid::ROOT {
            if let Some(root) = &mut self.root {
                root.end = end;
            }
        } else if let Some(span) = self.processes.remove(&pid) {
            close(span, at, end, report);
        }
    }

    fn node(&mut self, at: Timestamp, node: &NodeProgress, report: Report<'_>) {
        let end = match &*node.status {
            "succeeded" => SpanEnd::Succeeded,
            "failed" => SpanEnd::Failed(node.error["kind"].as_str().unwrap_or("failed").to_owned()),
            "cancelled" => SpanEnd::Cancelled,
            "running" | "waiting" => SpanEnd::Open,
            // It never ran.
            _ => return,
        };
        let has_begun = node.status == "running" || node.in_flight > 0 || node.waiting > 0;
        if node.taken_over || end == SpanEnd::Open && !has_begun {
            return;
        }
        let open = self.steps.remove(&node.node);
        let span = open.unwrap_or_else(|| Span {
            id: self.step_id(&node.node),
            ..self.span(SpanKind::Step, &node.node, (Pid::ROOT, None), self.run_id(), at)
        });
        if end == SpanEnd::Open {
            self.steps.insert(node.node.clone(), span);
        } else {
            close(span, at, end, report);
        }
    }

    /// Ends everything. The run too, if it has ended.
    fn close_all(&mut self, end: &SpanEnd, report: Report<'_>) {
        let commands = std::mem::take(&mut self.commands).into_values();
        let processes = std::mem::take(&mut self.processes).into_values();
        let steps = std::mem::take(&mut self.steps).into_values();
        for span in commands.chain(processes).chain(steps) {
            close(span, self.at, end.clone(), report);
        }
        if let Some(root) = self.root.take_if(|root| root.end != SpanEnd::Open) {
            let end = root.end.clone();
            close(root, self.at, end, report);
        }
    }
}

/// The id of what these words name in a run.
fn id_in(run: &str, kind: &str, pid: Pid, rest: &[u8]) -> SpanId {
    let mut hash = blake3::Hasher::new();
    for part in [b"wfhost span", run.as_bytes(), kind.as_bytes(), &pid.0.to_le_bytes(), rest] {
        hash.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
    let mut id = [0; 8];
    hash.finalize_xof().fill(&mut id);
    SpanId(id)
}

fn close(span: Span, at: Timestamp, end: SpanEnd, report: Report<'_>) {
    let to = at.max(span.from);
    report(Traced::Ended(Span { to, end, ..span }));
}

fn end_of(answer: &Answer) -> SpanEnd {
    match answer {
        Ok(_) => SpanEnd::Succeeded,
        Err(problem) => SpanEnd::Failed(problem.kind.to_string()),
    }
}

/// The name of the signal that a call waits for.
fn signal_of(args: &Payload) -> Option<String> {
    let Payload::Json(json) = args else { return None };
    Some(json.to_value()["name"].as_str()?.to_owned())
}
