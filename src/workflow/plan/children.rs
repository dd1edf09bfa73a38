//! The other files that a workflow consists of: those that its steps, and theirs, run as workflows.
//!
//! Each file is read once, however many steps name it, and is named by its path below the folder of
//! the workflow. A file may name itself: how deep workflows run within each other is bounded when
//! they run. Only what would never end is refused here.

use super::arguments::Argument;
use super::environment::{Environment, Handlers, Unusable};
use super::paths::{folder_of, rebase, within};
use crate::process::handler::KV;
use crate::workflow::diagnostics::{Diagnostic, Diagnostics, Excerpt, all_of};
use crate::workflow::model::{self, Action, INLINE, Inputs, STEPS_MAX, Spanned, Step, When, Workflow, shorten};
use crate::workflow::syntax::{self, SOURCE_BYTES_MAX, Source, Span};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Most files of one workflow, beside its own. Arbitrary.
pub const WORKFLOW_FILES_MAX: usize = 100;
/// Most bytes of those files together. Arbitrary.
pub const WORKFLOW_FILES_BYTES_MAX: usize = 4 * SOURCE_BYTES_MAX;
/// Most steps of those files together. Arbitrary.
pub const WORKFLOW_FILES_STEPS_MAX: usize = 10 * STEPS_MAX;

/// A file that a step runs.
pub(super) struct ChildFile {
    /// Its path below the folder of the workflow.
    pub(super) path: String,
    pub(super) source: Source,
    /// `None` if it could not be read.
    pub(super) workflow: Option<Workflow>,
    /// Where it is named first: in a file, `None` for the workflow's own.
    named: (Option<usize>, Span),
    /// Whether its steps, and those of the files that it names, may use the run's store.
    pub(super) stores: bool,
    /// Whether its inputs and outputs could be read.
    is_declared: bool,
}

/// The files that steps run, in the order in which they are named.
#[derive(Default)]
pub(super) struct Children {
    pub(super) files: Vec<ChildFile>,
    by_path: BTreeMap<String, usize>,
}

impl Children {
    /// Reads all files that a workflow names, and those that these name. Their problems are
    /// returned, those of the workflow itself are added to `problems`.
    pub(super) fn read(
        own: &Workflow,
        environment: &dyn Environment,
        problems: &mut Diagnostics,
    ) -> (Self, Vec<Diagnostics>) {
        let (mut children, mut theirs) = (Self::default(), Vec::new());
        children.name_all(own, None, environment, problems, &mut theirs);
        let mut at = 0;
        while at < children.files.len() {
            if let Some(workflow) = children.files[at].workflow.take() {
                let mut problems: Diagnostics = std::mem::replace(&mut theirs[at], nothing());
                children.name_all(&workflow, Some(at), environment, &mut problems, &mut theirs);
                theirs[at] = problems;
                children.files[at].workflow = Some(workflow);
            }
            at += 1;
        }
        children.find_stores();
        children.report_endless(&mut theirs);
        (children, theirs)
    }

    /// Reads the files that the steps of a workflow name, but for those that were read.
    fn name_all(
        &mut self,
        workflow: &Workflow,
        of: Option<usize>,
        environment: &dyn Environment,
        problems: &mut Diagnostics,
        theirs: &mut Vec<Diagnostics>,
    ) {
        for step in workflow.all_steps() {
            let Action::Workflow { file } = &step.action else { continue };
            let path = within(self.folder(of), &file.value).map_err(|why| {
                let hint = "a workflow runs the files of its own folder, and of those below it: workflow: ./label.yaml";
                Unusable { hint: Some(hint.to_owned()), ..Unusable::from((refusal(file, &why), None)) }
            });
            let added = match &path {
                Ok(path) if self.by_path.contains_key(path) => continue,
                Ok(path) => self.add(path, (of, file), environment),
                Err(why) => Err(why.clone()),
            };
            match added {
                Ok(found) => theirs.push(found),
                Err(why) => {
                    problems.push(Diagnostic::new("workflow", why.message, file.span).hint_maybe(why.hint));
                }
            }
        }
    }

    /// Reads a file, and returns its problems.
    fn add(
        &mut self,
        path: &str,
        (of, file): (Option<usize>, &Spanned<String>),
        environment: &dyn Environment,
    ) -> Result<Diagnostics, Unusable> {
        let too_many = |what: String| Unusable::from((format!("the workflow has more than {what}"), None));
        if self.files.len() >= WORKFLOW_FILES_MAX {
            return Err(too_many(format!("{WORKFLOW_FILES_MAX} files")));
        }
        let source = environment.workflow(path).map_err(|Unusable { message, hint, .. }| {
            let hint = hint.or_else(|| Some("the path is relative to the folder of the file that names it".to_owned()));
            Unusable { hint, ..Unusable::from((refusal(file, &message), None)) }
        })?;
        let bytes: usize = self.files.iter().map(|file| file.source.text().len()).sum();
        if bytes + source.text().len() > WORKFLOW_FILES_BYTES_MAX {
            return Err(too_many(format!("{WORKFLOW_FILES_BYTES_MAX} bytes in other files")));
        }
        let mut problems = Diagnostics::new(source.clone());
        let root = syntax::parse(&source, &mut problems);
        let mut workflow = root.as_ref().map(|root| model::read(root, &mut problems));
        let steps = |workflow: &Workflow| workflow.all_steps().count();
        let before: usize = self.files.iter().filter_map(|file| file.workflow.as_ref()).map(steps).sum();
        if before + workflow.as_ref().map_or(0, steps) > WORKFLOW_FILES_STEPS_MAX {
            return Err(too_many(format!("{WORKFLOW_FILES_STEPS_MAX} steps in other files")));
        }
        if let Some(workflow) = &mut workflow {
            rebase(workflow, folder_of(path));
        }
        let is_declared = problems.is_empty();
        self.by_path.insert(path.to_owned(), self.files.len());
        let named = (of, file.span);
        self.files.push(ChildFile { path: path.to_owned(), source, workflow, named, stores: false, is_declared });
        Ok(problems)
    }

    /// The folder that the paths in a file start from.
    fn folder(&self, of: Option<usize>) -> &str {
        of.map_or("", |at| folder_of(&self.files[at].path))
    }

    /// The file that a step of a file names.
    fn find(&self, of: Option<usize>, file: &str) -> Option<usize> {
        self.by_path.get(&within(self.folder(of), file).ok()?).copied()
    }

    /// Finds the files whose steps may use the run's store.
    fn find_stores(&mut self) {
        let is_store = |step: &Step| {
            let calls = matches!(&step.action, Action::Call { handler } if handler.value == KV);
            calls || step.allow.iter().flatten().any(|allowed| allowed.capability.value == KV)
        };
        loop {
            let uses = |(at, file): (usize, &ChildFile)| {
                let mut steps = file.workflow.iter().flat_map(Workflow::all_steps);
                !file.stores
                    && steps.any(|step| match &step.action {
                        Action::Workflow { file } => {
                            self.find(Some(at), &file.value).is_some_and(|at| self.files[at].stores)
                        }
                        _ => is_store(step),
                    })
            };
            let Some(at) = self.files.iter().enumerate().position(uses) else { break };
            self.files[at].stores = true;
        }
    }

    /// Reports workflows that run themselves whatever happens.
    fn report_endless(&self, theirs: &mut [Diagnostics]) {
        let always = |at: usize| -> Vec<(usize, Span)> {
            let mut named = Vec::new();
            self.files[at].workflow.iter().for_each(|workflow| add_always(&workflow.steps, &mut named));
            named.into_iter().filter_map(|(file, span)| Some((self.find(Some(at), file)?, span))).collect()
        };
        let edges: Vec<Vec<(usize, Span)>> = (0..self.files.len()).map(always).collect();
        // What is reached without a condition, for each file.
        let reaches = |from: usize, to: usize| {
            let (mut seen, mut open) = (vec![false; edges.len()], vec![from]);
            while let Some(at) = open.pop() {
                if at == to {
                    return true;
                }
                if !std::mem::replace(&mut seen[at], true) {
                    open.extend(edges[at].iter().map(|(next, _)| *next));
                }
            }
            false
        };
        for (at, file) in self.files.iter().enumerate() {
            for (next, span) in edges[at].iter().filter(|(next, _)| reaches(*next, at)) {
                let other = &self.files[*next].path;
                let message = if *next == at {
                    format!("`{}` always runs itself, so it would never end", file.path)
                } else {
                    format!("`{}` always runs `{other}`, which runs it again, so they would never end", file.path)
                };
                let hint = "give the step an `if`, or a `for-each` whose list becomes empty";
                theirs[at].push(Diagnostic::new("endless", message, *span).hint(hint));
            }
        }
    }

    /// Adds the problems of all files to those of the workflow's own, each with the step that runs
    /// the file.
    pub(super) fn report(&self, theirs: Vec<Diagnostics>, problems: &mut Diagnostics) {
        for (at, found) in theirs.into_iter().enumerate() {
            let source = found.source().clone();
            let (kept, dropped) = found.into_kept();
            problems.count_dropped(dropped);
            for problem in kept {
                // The workflow may name itself: it is not reported twice.
                if source.name() == problems.source().name() && source.text() == problems.source().text() {
                    problems.push(problem);
                    continue;
                }
                let here = Excerpt {
                    file: source.name().to_owned(),
                    text: source.text().to_owned(),
                    span: problem.span,
                    related: problem.related,
                };
                let (cause, mut through) = match problem.excerpt {
                    Some(cause) => (cause, vec![here]),
                    None => (here, Vec::new()),
                };
                let mut named = &self.files[at].named;
                while let Some(outer) = named.0 {
                    let source = &self.files[outer].source;
                    through.push(Excerpt {
                        file: source.name().to_owned(),
                        text: source.text().to_owned(),
                        span: named.1,
                        related: Vec::new(),
                    });
                    named = &self.files[outer].named;
                }
                problems.push(Diagnostic {
                    span: named.1,
                    related: Vec::new(),
                    excerpt: Some(cause),
                    through,
                    ..problem
                });
            }
        }
    }
}

/// Problems of nothing, to stand in for others.
fn nothing() -> Diagnostics {
    Diagnostics::new(Source::new("", ""))
}

fn refusal(file: &Spanned<String>, why: &str) -> String {
    format!("cannot read the workflow `{}`: {why}", shorten(&file.value))
}

/// Adds the files that are run whatever happens.
fn add_always<'a>(steps: &'a [Step], named: &mut Vec<(&'a str, Span)>) {
    for step in steps {
        let is_sure = matches!(step.when, When::Succeeded | When::Done);
        if step.condition.is_some() || step.for_each.is_some() || !is_sure {
            continue;
        }
        match &step.action {
            Action::Workflow { file } => named.push((&file.value, file.span)),
            Action::Steps(block) => add_always(&block.steps, named),
            _ => {}
        }
    }
}

/// The file that is read, among those of the workflow.
#[derive(Clone, Copy)]
pub(super) struct InFile<'a> {
    pub(super) children: &'a Children,
    /// `None` for the workflow's own.
    pub(super) at: Option<usize>,
}

impl<'a> InFile<'a> {
    fn path(self) -> Option<&'a str> {
        self.at.map(|at| self.children.files[at].path.as_str())
    }

    /// The file that a step names.
    pub(super) fn child(self, file: &str) -> Option<(usize, &'a ChildFile)> {
        let at = self.children.find(self.at, file)?;
        Some((at, &self.children.files[at]))
    }

    /// A JSON Pointer in the file, after the path of the file if it is not the workflow's own.
    pub(super) fn pointer(self, pointer: &str) -> String {
        self.path().map_or_else(|| pointer.to_owned(), |path| format!("{path}#{pointer}"))
    }

    /// The name of a component in the plan. Those that another file declares have names of their
    /// own.
    pub(super) fn component(self, workflow: &Workflow, name: &str) -> String {
        match self.path() {
            Some(path) if workflow.components.iter().any(|declared| declared.name.value == name) => {
                format!("{path}:{name}")
            }
            _ => name.to_owned(),
        }
    }

    /// The name of a script that is written in a step.
    pub(super) fn inline(self, step: &Step) -> String {
        match self.path() {
            Some(path) => format!("{INLINE}{path}#{}", step.path),
            None => format!("{INLINE}{}", step.path),
        }
    }

    /// The outputs that a step gives, if they are known: those of the workflow that it runs once.
    pub(super) fn outputs(self, step: &Step) -> Option<Vec<&'a str>> {
        let Action::Workflow { file } = &step.action else { return None };
        let (_, child) = self.child(&file.value)?;
        let workflow = child.workflow.as_ref().filter(|_| child.is_declared && step.for_each.is_none())?;
        let entries = workflow.outputs.as_ref().and_then(syntax::Node::as_mapping).unwrap_or_default();
        Some(entries.iter().map(|entry| entry.key.as_str()).collect())
    }

    /// Reports what the steps of the file give to workflows that do not take it.
    pub(super) fn check_inputs(self, workflow: &Workflow, handlers: &dyn Handlers, problems: &mut Diagnostics) {
        for step in workflow.all_steps() {
            let Action::Workflow { file } = &step.action else { continue };
            let Some((_, child)) = self.child(&file.value).filter(|(_, child)| child.is_declared) else { continue };
            let Some(declared) = child.workflow.as_ref().map(|workflow| &workflow.inputs) else { continue };
            let required: Vec<&str> =
                declared.0.iter().filter(|input| input.required).map(|input| input.name.as_str()).collect();
            let example = || {
                let entries: Vec<String> = required.iter().map(|name| format!("{name}: …")).collect();
                format!("with: {{ {} }}", entries.join(", "))
            };
            match &step.with {
                None if required.is_empty() => {}
                None => {
                    let what = all_of(required.iter().copied());
                    let message = format!("`{}` needs {what}, but the step has no `with`", shorten(&file.value));
                    problems.push(Diagnostic::new("arguments", message, file.span).hint(example()));
                }
                Some(with) if with.as_mapping().is_some() => {
                    Argument { handler: file, handlers }.check(with, &schema_of(declared), problems);
                }
                Some(with) if with.as_text().is_some_and(|text| text.contains("${")) => {}
                Some(with) => {
                    let message = format!(
                        "`with` must be a mapping with the inputs of `{}`, not {}",
                        shorten(&file.value),
                        with.kind()
                    );
                    problems.push(Diagnostic::new("type", message, with.span).hint(example()));
                }
            }
        }
    }
}

/// The JSON Schema of inputs as a whole.
fn schema_of(inputs: &Inputs) -> Value {
    let mut properties = Map::new();
    for input in &inputs.0 {
        let mut schema = input.schema.to_json();
        // Null stands for an absent input.
        if !input.required && input.schema.default.is_none() {
            match schema.get_mut("type") {
                Some(Value::Array(kinds)) => kinds.push(json!("null")),
                Some(kind) => *kind = json!([kind.take(), "null"]),
                None => {}
            }
            if let Some(Value::Array(choices)) = schema.get_mut("enum") {
                choices.push(Value::Null);
            }
        }
        properties.insert(input.name.clone(), schema);
    }
    let required: Vec<&str> = inputs.0.iter().filter(|input| input.required).map(|input| input.name.as_str()).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}
