//! Looks up the components that steps use, each once, and checks the entry points that steps name.

use super::Component;
use super::arguments::Argument;
use super::children::InFile;
use super::environment::{Environment, ResolvedComponent, ScriptPlace, Unusable};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics, Excerpt, all_of, closest};
use crate::workflow::model::{Action, ENTRY_DEFAULT, InlineScript, ScriptLanguage, Spanned, Workflow, shorten};
use crate::workflow::syntax::Source;
use std::collections::BTreeMap;

/// Most entry points that a hint lists. Arbitrary.
const ENTRIES_SHOWN_MAX: usize = 20;

/// Finds the components of a file, declared ones first, then in the order of first use.
pub(super) fn find(
    (workflow, file, in_file): (&Workflow, &Source, InFile<'_>),
    environment: &dyn Environment,
    found: &mut Found,
    problems: &mut Diagnostics,
) {
    environment.announce(&sources(workflow));
    for declared in &workflow.components {
        let name = declared.name.value.as_str();
        let (resolved, span) = if declared.folders.is_empty() {
            (environment.component(&declared.source.value), declared.source.span)
        } else {
            let resolved = environment.granted(declared);
            let span = resolved.as_ref().err().map_or(declared.source.span, |(_, span)| *span);
            (resolved.map_err(|(why, _)| why), span)
        };
        let source = Spanned { value: declared.key(), span };
        found.add(&in_file.component(workflow, name), &source, None, (resolved, file), problems);
    }
    for step in workflow.all_steps() {
        let (component, entry) = match &step.action {
            Action::Uses { component, entry } => (component, entry),
            Action::Script(script) => {
                let name = Spanned { value: in_file.inline(step), span: script.span };
                let resolved = environment.script(&name.value, script, file).map_err(|why| hinted(why, script));
                found.add(&name.value, &name, Some(script), (resolved, file), problems);
                continue;
            }
            _ => continue,
        };
        let name = in_file.component(workflow, &component.value);
        if !workflow.components.iter().any(|declared| declared.name.value == component.value) {
            if workflow.unread_components.contains(&component.value) {
                continue;
            }
            if !is_source(&name) {
                let wants_hint = !problems.is_full();
                problems.push(unknown(component, workflow, environment, wants_hint));
                continue;
            }
        }
        if !found.known.contains_key(&name) {
            let resolved = environment.component(&name).map_err(|why| match why.hint {
                None if is_action(&name) => Unusable {
                    hint: Some(
                        "`uses` names a component or a script, not an action: ./hello.wasm, ./order.js, \
                         oci://registry.example.com/hello:1.0"
                            .to_owned(),
                    ),
                    ..why
                },
                _ => why,
            });
            found.add(&name, component, None, (resolved, file), problems);
        }
        if let Some(ResolvedComponent { entries: Some(entries), name: called, .. }) = found.known.get(&name)
            && !entries.contains(&entry.value)
        {
            let name = called.as_deref().unwrap_or(&component.value);
            problems.push(unknown_entry(name, entry, entries, entry.span == component.span));
        }
        if let Some(ResolvedComponent { input: Some(schema), .. }) = found.known.get(&name)
            && let (Some(handlers), Some(with)) = (environment.handlers(), &step.with)
        {
            Argument { handler: component, handlers }.check(with, schema, problems);
        }
    }
}

/// Returns whether a source is an action of GitHub: `actions/checkout@v4`.
fn is_action(source: &str) -> bool {
    !source.starts_with(['.', '/']) && !source.contains("://") && source.contains('/') && source.contains('@')
}

/// Says of a script that cannot be loaded how Python is written, if it may be Python.
fn hinted(why: Unusable, script: &InlineScript) -> Unusable {
    if why.hint.is_some() || script.language == ScriptLanguage::Python || !is_python(&script.scalar.text) {
        return why;
    }
    Unusable { hint: Some("a script is JavaScript; Python goes under `py`: script: { py: … }".to_owned()), ..why }
}

/// Returns whether a text that is no JavaScript may be Python.
fn is_python(text: &str) -> bool {
    const WORDS: &[&str] = &["def ", "for ", "if ", "elif ", "else", "while ", "try", "except", "with ", "class "];
    text.lines().map(str::trim).any(|line| {
        let opens = line.ends_with(':') && WORDS.iter().any(|word| line.starts_with(word));
        let lists = line.contains(" for ") && line.contains(" in ");
        opens || lists || line.starts_with("print(") || line.contains(" import ") && line.starts_with("from ")
    })
}

/// The sources of the components that the workflow uses, each once.
fn sources(workflow: &Workflow) -> Vec<&str> {
    let mut sources: Vec<&str> = workflow.components.iter().map(|declared| declared.source.value.as_str()).collect();
    for step in workflow.all_steps() {
        if let Action::Uses { component, .. } = &step.action
            && !workflow.components.iter().any(|declared| declared.name.value == component.value)
            && !workflow.unread_components.contains(&component.value)
            && is_source(&component.value)
        {
            sources.push(&component.value);
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    sources.retain(|source| seen.insert(*source));
    sources
}

/// The components that were found so far, of all files.
#[derive(Default)]
pub(super) struct Found {
    pub(super) components: Vec<Component>,
    /// By name, those that cannot be used too.
    known: BTreeMap<String, ResolvedComponent>,
}

impl Found {
    /// Adds a component, or reports why it cannot be used.
    fn add(
        &mut self,
        name: &str,
        source: &Spanned<String>,
        inline: Option<&InlineScript>,
        (resolved, in_source): (Result<ResolvedComponent, Unusable>, &Source),
        problems: &mut Diagnostics,
    ) {
        let found = match resolved {
            Ok(found) => {
                let (digest, content) = (found.digest.clone(), found.content.clone());
                self.components.push(Component { name: name.into(), source: source.value.clone(), digest, content });
                found
            }
            Err(Unusable { message, hint, at }) => {
                let is_script = inline.is_some() || ScriptLanguage::of(&source.value).is_some();
                let code = if is_script { "script" } else { "component" };
                let problem = Diagnostic::new(code, message, source.span).hint_maybe(hint);
                problems.push(match (at, inline) {
                    (Some(ScriptPlace { file, text: Some(text), line, column }), _) => {
                        problem.excerpt(Excerpt::at(&file, &text, line, column))
                    }
                    (Some(ScriptPlace { text: None, line, column, .. }), Some(script)) => {
                        Diagnostic { span: script.span_at(in_source, line, column), ..problem }
                    }
                    _ => problem,
                });
                ResolvedComponent::default()
            }
        };
        self.known.insert(name.to_owned(), found);
    }
}

/// Returns whether the `uses` of a step is a source, not a name under `components:`.
pub(super) fn is_source(text: &str) -> bool {
    text.contains(['/', '\\'])
        || text.starts_with('.')
        || text.starts_with("native:")
        || ScriptLanguage::of(text).is_some()
        || [".wasm", ".wat"].iter().any(|ending| text.ends_with(ending))
}

fn unknown(
    component: &Spanned<String>,
    workflow: &Workflow,
    environment: &dyn Environment,
    wants_hint: bool,
) -> Diagnostic {
    let name = component.value.as_str();
    let message = format!("there is no component `{}`", shorten(name));
    let problem = Diagnostic::new("unknown-component", message, component.span);
    // The search for a similar name takes long if there are many.
    if !wants_hint {
        return problem;
    }
    let names = || workflow.components.iter().map(|component| component.name.value.as_str());
    let is_handler = || environment.handlers().is_some_and(|handlers| handlers.names().iter().any(|one| one == name));
    let hint = match closest(name, names()) {
        _ if is_handler() => format!("`{name}` is a handler of the host: call: {name}"),
        Some(meant) => format!("did you mean `{meant}`?"),
        None if workflow.components.is_empty() => format!("give the path of a file: ./{}.wasm", shorten(name)),
        None => format!("the components are {}; or give the path of a file", all_of(names().take(ENTRIES_SHOWN_MAX))),
    };
    problem.hint(hint)
}

fn unknown_entry(component: &str, entry: &Spanned<String>, entries: &[String], is_default: bool) -> Diagnostic {
    let (component, wanted) = (shorten(component), shorten(&entry.value));
    let names = || entries.iter().map(String::as_str);
    let listed = all_of(names().take(ENTRIES_SHOWN_MAX));
    let (message, hint) = if is_default {
        let message = format!("`{component}` has no entry point `{wanted}`, the default of a step without `entry`");
        (message, format!("name one with `entry`; it has {listed}"))
    } else {
        let hint = match closest(&entry.value, names()) {
            Some(meant) => format!("did you mean `entry: {meant}`? It has {listed}"),
            None if entries.iter().any(|name| name == ENTRY_DEFAULT) => {
                format!("it has {listed}; a step without `entry` uses `{ENTRY_DEFAULT}`")
            }
            None => format!("it has {listed}"),
        };
        (format!("`{component}` has no entry point `{wanted}`"), hint)
    };
    Diagnostic::new("unknown-entry", message, entry.span).hint(hint)
}
