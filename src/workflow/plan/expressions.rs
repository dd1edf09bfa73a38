//! Turns the values of the file into templates, and checks every expression on the way: that it
//! compiles, and that what it reads can exist at its site.

use super::children::InFile;
use super::hints::{self, BadExpression};
use super::references::{ExpressionSite, KnownNames, ReferenceTarget};
use super::template::{Template, Text};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics};
use crate::workflow::expression::{CompileError, Expression, Jq, Reference, References, TemplateError};
use crate::workflow::syntax::ScalarOffsets;
use crate::workflow::syntax::{Content, Node, Scalar, Source, Span, Style};
use serde_json::{Value, json};
use std::cell::OnceCell;

/// A dependency of an expression.
pub(super) enum Dependency {
    /// A step: the depth of the list that it is in, and its index there.
    Step(usize, usize, Span),
    /// Steps that are not known before the run.
    Unknown(Span),
}

/// Reads the values of a file as templates.
pub(super) struct TemplateReader<'a> {
    pub(super) source: &'a Source,
    pub(super) jq: &'a Jq,
    pub(super) names: KnownNames<'a>,
    pub(super) problems: &'a mut Diagnostics,
    /// The dependencies of the expressions read since the last
    /// [`TemplateReader::take_dependencies`].
    pub(super) dependencies: Vec<Dependency>,
    /// How many expressions were read.
    pub(super) expressions: usize,
    /// The site of the step whose steps are read.
    pub(super) outer: ExpressionSite,
    /// The file.
    pub(super) in_file: InFile<'a>,
}

/// Most expressions of a file. Arbitrary: each is compiled before anything runs.
const EXPRESSIONS_MAX: usize = 10_000;

/// A string in the file, to find the positions of its parts.
struct SourceString<'a> {
    scalar: &'a Scalar,
    span: Span,
    /// Made when the first position is needed.
    places: OnceCell<ScalarOffsets>,
}

impl TemplateReader<'_> {
    /// Takes the dependencies of the expressions read since the last call.
    pub(super) fn take_dependencies(&mut self) -> Vec<Dependency> {
        std::mem::take(&mut self.dependencies)
    }

    /// Reads a value whose strings may hold expressions.
    pub(super) fn value(&mut self, node: &Node, site: ExpressionSite) -> Option<Template> {
        match &node.content {
            Content::Scalar(scalar) if scalar.is_string() => self.text(scalar, node.span, site),
            Content::Scalar(scalar) => match scalar.to_json() {
                Ok(value) => Some(Template::Literal(value)),
                Err(why) => {
                    self.problems.push(Diagnostic::new("value", why, node.span).hint("to make it a string, quote it"));
                    None
                }
            },
            Content::Sequence(items) => {
                let items: Vec<_> = items.iter().map(|item| self.value(item, site)).collect();
                Some(fold_list(items.into_iter().collect::<Option<_>>()?))
            }
            Content::Mapping(entries) => {
                let read = |entry: &crate::workflow::syntax::Entry| {
                    if entry.key.contains("${") {
                        let problem = Diagnostic::new("expression", "a key cannot hold an expression", entry.key_span);
                        self.problems
                            .push(problem.hint("build the whole object in one expression: ${ {(.inputs.key): 1} }"));
                    }
                    Some((entry.key.clone(), self.value(&entry.value, site)?))
                };
                let entries: Vec<_> = entries.iter().map(read).collect();
                Some(fold_object(entries.into_iter().collect::<Option<_>>()?))
            }
        }
    }

    /// Reads a value that must be one expression as a whole: `if`, `for-each`.
    pub(super) fn whole(&mut self, node: &Node, what: &str, site: ExpressionSite) -> Option<Template> {
        if let Some(text) = node.as_text().filter(|text| !text.contains("${")) {
            let problem =
                Diagnostic::new("expression", format!("`{what}` must be an expression, not a string"), node.span);
            let meant = hints::as_jq(text);
            let list = hints::as_list(text).filter(|_| what == "for-each");
            let hint = match self.jq.check(&Expression::new(meant.trim())) {
                _ if list.is_some() => format!("write {what}: {}", list.unwrap_or_default()),
                _ if let Some(instead) = hints::on_outcomes(text) => instead.to_owned(),
                Ok(()) if !text.trim().is_empty() => format!("write {what}: {}", self.braced(&meant, node.span)),
                _ => format!("write jq within ${{ … }}: {what}: ${{ .inputs.count > 1 }}"),
            };
            self.problems.push(problem.hint(hint));
            return None;
        }
        let template = self.value(node, site)?;
        let problem = match &template {
            Template::Text(text) if !text.is_whole() => {
                Diagnostic::new("expression", format!("`{what}` must be a single expression"), node.span)
                    .hint("put everything into one ${ … }: a jq expression can compare and combine")
            }
            _ => return Some(template),
        };
        self.problems.push(problem);
        None
    }

    /// An expression with its braces, ready for a position in the file: in quotes within `{ }` and
    /// `[ ]`, and if YAML would read a part of it differently.
    fn braced(&self, expression: &str, at: Span) -> String {
        let line = self.source.line_of(at.start);
        let is_flow =
            line.trim_start_matches(['-', ' ']).starts_with(['{', '[']) || line.contains(": {") || line.contains(": [");
        let plain = format!("${{ {} }}", expression.trim());
        if is_flow || [": ", " #"].iter().any(|odd| plain.contains(odd)) {
            return format!("'{}'", plain.replace('\'', "''"));
        }
        plain
    }

    fn text(&mut self, scalar: &Scalar, span: Span, site: ExpressionSite) -> Option<Template> {
        if !scalar.text.contains("${") {
            if let Some((found, meant)) = hints::without_braces(&scalar.text, &self.names, site) {
                let message = format!("`{found}` is plain text here, not an expression");
                let hint = format!("write ${{ {meant} }}, or for the text itself, ${{ {} }}", json!(found));
                self.problems.push(Diagnostic::new("no-braces", message, span).hint(hint));
                return None;
            }
            return Some(Template::Literal(Value::String(scalar.text.clone())));
        }
        let written = SourceString { scalar, span, places: OnceCell::new() };
        let text = match read_text(scalar) {
            Ok(text) => text,
            Err(error) => {
                self.report_template(&error, &written);
                return None;
            }
        };
        let mut good = true;
        for placed in text.template().expressions() {
            good &= self.expression(&placed.expression, placed.offset, &written, site);
        }
        good.then_some(Template::Text(text))
    }

    /// Checks an expression and adds its dependencies.
    fn expression(
        &mut self,
        expression: &Expression,
        offset: usize,
        written: &SourceString<'_>,
        site: ExpressionSite,
    ) -> bool {
        self.expressions += 1;
        if self.expressions > EXPRESSIONS_MAX {
            if self.expressions == EXPRESSIONS_MAX + 1 {
                let message = format!("the file has more than {EXPRESSIONS_MAX} expressions");
                self.problems.push(Diagnostic::new("too-large", message, written.span));
            }
            return false;
        }
        if let Err(errors) = self.jq.check(expression) {
            for error in &errors {
                self.report_compile(error, expression, offset, written);
            }
            return false;
        }
        match expression.references() {
            References::Paths(paths) => {
                // Not `all`: every bad reference is reported.
                let bad = paths.iter().filter(|path| !self.reference(path, expression, offset, written, site)).count();
                bad == 0
            }
            References::Everything(range) | References::NotInferable { span: range, .. } => {
                let span = self.span_of(written, offset + range.start..offset + range.end);
                if site.only_inputs {
                    let message = "expressions read `.inputs` alone here, and what this one reads is not known";
                    let problem = Diagnostic::new("only-inputs", message, span);
                    self.problems.push(problem.hint("write what it reads as a path: ${ .inputs.stage }"));
                    return false;
                }
                self.dependencies.push(Dependency::Unknown(span));
                true
            }
        }
    }

    fn reference(
        &mut self,
        reference: &Reference,
        expression: &Expression,
        offset: usize,
        written: &SourceString<'_>,
        site: ExpressionSite,
    ) -> bool {
        let span = self.span_of(written, offset + reference.span.start..offset + reference.span.end);
        self.names.hints = !self.problems.is_full();
        match self.names.resolve(&reference.path, site) {
            Ok(ReferenceTarget::Step(depth, index)) => self.dependencies.push(Dependency::Step(depth, index, span)),
            Ok(ReferenceTarget::Steps) => self.dependencies.push(Dependency::Unknown(span)),
            Ok(ReferenceTarget::Given) => {}
            Err(wrong) => {
                let text = expression.text();
                let part = text.get(reference.span.clone()).unwrap_or_default();
                let advice = BadExpression { string: &written.scalar.text, offset, text, part }.double_braces();
                self.problems
                    .push(Diagnostic::new(wrong.code, wrong.message, span).hint(wrong.hint).hint_maybe(advice));
                return false;
            }
        }
        true
    }

    fn report_template(&mut self, error: &TemplateError, written: &SourceString<'_>) {
        let end = written.scalar.text.len();
        let span = self.span_of(written, error.offset.min(end)..end);
        let rest = self.source.rest_of_line(written.span.end);
        let cut =
            written.scalar.style == Style::Plain && rest.trim_start().starts_with('#') && rest.starts_with([' ', '\t']);
        let problem = Diagnostic::new("expression", error.message.clone(), span);
        self.problems.push(if cut {
            problem.hint(
                "YAML takes ` #` as the start of a comment: quote the expression, '${ … }', or write it after `|`",
            )
        } else {
            problem
        });
    }

    fn report_compile(
        &mut self,
        error: &CompileError,
        expression: &Expression,
        offset: usize,
        written: &SourceString<'_>,
    ) {
        let span = self.span_of(written, offset + error.span.start..offset + error.span.end);
        let problem = Diagnostic::new("expression", error.message.clone(), span);
        // For jq `.steps.my-step` is a subtraction, and `step` a function.
        let text = expression.text();
        let steps = self.names.steps().map(|name| ("steps", name));
        let inputs = self.names.inputs.0.iter().map(|input| ("inputs", input.name.as_str()));
        let dashed = steps
            .chain(inputs)
            .filter(|(root, name)| name.contains('-') && text.contains(&format!(".{root}.{name}")))
            .max_by_key(|(_, name)| name.len());
        let hint = dashed.map(|(root, name)| format!("write a name with a dash as .{root}[\"{name}\"]"));
        let part = text.get(error.span.clone()).unwrap_or_default();
        let bad = BadExpression { string: &written.scalar.text, offset, text, part };
        let hint = hint.or_else(|| bad.hint()).or_else(|| hints::function(&error.message));
        self.problems.push(problem.hint_maybe(hint));
    }

    /// The span in the file of a part of a string's text.
    fn span_of(&self, written: &SourceString<'_>, range: std::ops::Range<usize>) -> Span {
        let places = written.places.get_or_init(|| ScalarOffsets::new(self.source, written.span, written.scalar));
        let (start, end) = (places.at(range.start), places.at(range.end));
        Span { start, end: end.max(start) }
    }
}

fn read_text(scalar: &Scalar) -> Result<Text, TemplateError> {
    let text = Text::try_from(scalar.text.clone())?;
    if scalar.style == Style::Block {
        // A block scalar ends with an unintended line end: without it an expression after `|` keeps
        // the type of its result.
        let unended = Text::try_from(scalar.text.trim_end().to_owned())?;
        if unended.is_whole() {
            return Ok(unended);
        }
    }
    Ok(text)
}

fn fold_list(items: Vec<Template>) -> Template {
    if items.iter().all(|item| matches!(item, Template::Literal(_))) {
        let plain = items.into_iter().filter_map(|item| match item {
            Template::Literal(value) => Some(value),
            _ => None,
        });
        return Template::Literal(plain.collect());
    }
    Template::List(items)
}

fn fold_object(entries: Vec<(String, Template)>) -> Template {
    if entries.iter().all(|(_, value)| matches!(value, Template::Literal(_))) {
        let plain = entries.into_iter().filter_map(|(key, value)| match value {
            Template::Literal(value) => Some((key, value)),
            _ => None,
        });
        return Template::Literal(Value::Object(plain.collect()));
    }
    Template::Object(entries)
}
