//! Infers from the syntax tree of an expression which parts of its context it reads.
//!
//! The walk carries *value paths*: for each term, where in the context its input may be, and it
//! returns where its outputs may be. A value path is a path of constant keys from the root. Two
//! facts about a path are noted: it is *touched* (its existence or its kind matters) or it is
//! *read* (everything below it may matter). A value that was computed, or that lies below a path
//! that is read, has no path: none is needed. Calls read all of their input, except for a few
//! builtins that are known not to.
//!
//! In a *path expression* (the target of an assignment, the argument of `path`), jq's error for a
//! term that is not a path quotes the value that a key was applied to. So variables are read whole
//! there.
//!
//! Soundness (I3 of [the room](super)): if a term keeps only a part of an object, evaluating on the
//! object reduced to that part gives the same, since the kinds of all values on the way are kept
//! ([`Scope`](super::Scope) writes them).

use super::syntax::{Entry, Id, Pattern, Term, Tree};
use std::ops::Range;
use std::rc::Rc;

/// A part of the context that an expression reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reference {
    /// The keys that lead to it from the root: `["steps", "download", "output"]`. Everything below
    /// the last key may be read.
    pub path: Vec<String>,
    /// The bytes in the text of the expression that name it: the first of them, if there are
    /// several.
    pub span: Range<usize>,
}

/// The parts of its context that an expression reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum References {
    /// These parts and no others. No path is a prefix of another one; a literal has none.
    Paths(Vec<Reference>),
    /// The whole context (`.`, `keys`, `..`), so its dependencies must be declared. The span is the
    /// part that reads it, in bytes.
    Everything(Range<usize>),
    /// The host's parser does not understand the expression. Most likely it is an error for jq too.
    NotInferable {
        /// What is wrong, in one line.
        message: String,
        /// The bytes that are wrong.
        span: Range<usize>,
    },
}

/// Most notes of a walk before it gives up and reports that everything is read. Arbitrary: it
/// bounds the time for a hostile expression of 64 KiB.
const NOTES_MAX: usize = 10_000;

/// Most paths of one term, for the same reason.
const PATHS_MAX: usize = 256;

/// Builtins that do not read their input and evaluate their arguments on it, by name and number of
/// arguments. Their outputs are computed, or are outputs of their arguments.
const TRANSPARENT: &[(&str, usize)] = &[
    ("empty", 0),
    ("infinite", 0),
    ("nan", 0),
    ("range", 1),
    ("range", 2),
    ("range", 3),
    ("first", 1),
    ("last", 1),
    ("limit", 2),
    ("skip", 2),
    ("nth", 2),
    ("isempty", 1),
    ("add", 1),
    ("error", 1),
];

/// Builtins that evaluate an argument as a path expression. jq turns assignments into the last two,
/// which an expression can also call.
const PATH_TAKERS: &[&str] = &["path", "paths", "del", "pick", "_assign", "_modify"];

/// Infers what an expression reads.
pub(super) fn infer(tree: &Tree) -> References {
    let takes_paths = tree.terms().any(|term| match term {
        Term::Assign { .. } => true,
        Term::Call { name, .. } => PATH_TAKERS.contains(&name.as_str()),
        _ => false,
    });
    let defined = defined_names(tree);
    let mut walk =
        Walk { tree, notes: Vec::new(), variables: Vec::new(), defined, takes_paths, in_path_expression: false };
    let root = tree.root();
    let outputs = walk.outputs(root, &[Rc::default()]);
    walk.read(&outputs, root);
    walk.finish()
}

/// The keys of the items of a list in the context: `args` of `.calls[0].args` and `.calls[].args`.
pub(super) fn keys_of_items(tree: &Tree, list: &str) -> Vec<(String, Range<usize>)> {
    let is_list = |id: Id| match tree.term(id) {
        Term::Key { on, key, .. } => key == list && *tree.term(*on) == Term::Identity,
        _ => false,
    };
    let is_item = |id: Id| match tree.term(id) {
        Term::At { on, .. } | Term::Each { on } => is_list(*on),
        _ => false,
    };
    let key_of = |id: Id| match tree.term(id) {
        Term::Key { on, key, .. } if is_item(*on) => Some((key.clone(), tree.span(id))),
        _ => None,
    };
    tree.ids().filter_map(key_of).collect()
}

/// The names of functions and parameters that the expression itself defines, which hide builtins.
fn defined_names(tree: &Tree) -> Vec<&str> {
    let mut names = Vec::new();
    for term in tree.terms() {
        if let Term::Define { name, parameters, .. } = term {
            names.push(name.as_str());
            names.extend(parameters.iter().map(|p| p.trim_start_matches('$')));
        }
    }
    names
}

/// A path of constant keys from the root.
type ValuePath<'t> = Rc<[&'t str]>;

/// A fact about a path.
struct Note<'t> {
    path: ValuePath<'t>,
    /// Whether everything below it is read, not only its kind.
    read: bool,
    span: Range<usize>,
}

struct Walk<'t> {
    tree: &'t Tree,
    notes: Vec<Note<'t>>,
    /// The variables in scope, innermost last, and the paths of their values.
    variables: Vec<(&'t str, Vec<ValuePath<'t>>)>,
    defined: Vec<&'t str>,
    /// Whether there are path expressions at all: one may then use a function that the expression
    /// defines.
    takes_paths: bool,
    /// Whether the walk is within a path expression.
    in_path_expression: bool,
}

impl<'t> Walk<'t> {
    fn note(&mut self, path: &ValuePath<'t>, read: bool, id: Id) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(Note { path: path.clone(), read, span: self.tree.span(id) });
        } else {
            // The root, so that the answer is "everything".
            self.notes[0] = Note { path: Rc::default(), read: true, span: self.tree.span(id) };
        }
    }

    fn read(&mut self, paths: &[ValuePath<'t>], id: Id) {
        for path in paths {
            self.note(path, true, id);
        }
    }

    /// Walks a term whose outputs are used as values.
    fn value(&mut self, id: Id, input: &[ValuePath<'t>]) {
        let outputs = self.outputs(id, input);
        self.read(&outputs, id);
    }

    fn values(&mut self, ids: &[Id], input: &[ValuePath<'t>]) {
        for &id in ids {
            self.value(id, input);
        }
    }

    /// Walks terms that are evaluated as path expressions if `is_path`, otherwise as the term
    /// around them.
    fn path_values(&mut self, ids: &[Id], is_path: bool) {
        let outer = self.in_path_expression;
        self.in_path_expression |= is_path;
        self.values(ids, &[]);
        self.in_path_expression = outer;
    }

    /// Walks a term on inputs that may be at `input`, and returns the paths of its outputs.
    fn outputs(&mut self, id: Id, input: &[ValuePath<'t>]) -> Vec<ValuePath<'t>> {
        let tree = self.tree;
        match tree.term(id) {
            Term::Identity => input.to_vec(),
            Term::Key { on, key, .. } => self.keyed(*on, key, input, id),
            Term::Try { body, handler } => {
                // A handler's input is the error's message.
                let mut outputs = self.outputs(*body, input);
                if let Some(handler) = handler {
                    outputs.extend(self.outputs(*handler, &[]));
                }
                self.bounded(outputs, id)
            }
            Term::Pipe(left, right) => {
                let middle = self.outputs(*left, input);
                self.outputs(*right, &middle)
            }
            Term::Comma(left, right) | Term::Alternative(left, right) => {
                let mut outputs = self.outputs(*left, input);
                outputs.extend(self.outputs(*right, input));
                self.bounded(outputs, id)
            }
            Term::Bind { source, patterns, body } => self.bind(*source, patterns, *body, input),
            Term::Label(body) => self.outputs(*body, input),
            Term::If { branches, otherwise } => {
                let mut outputs = Vec::new();
                for &(condition, body) in branches {
                    self.value(condition, input);
                    outputs.extend(self.outputs(body, input));
                }
                match otherwise {
                    Some(otherwise) => outputs.extend(self.outputs(*otherwise, input)),
                    None => outputs.extend(input.iter().cloned()),
                }
                self.bounded(outputs, id)
            }
            Term::Define { parameters, body, rest, .. } => {
                self.define(parameters, *body);
                self.outputs(*rest, input)
            }
            Term::Call { name, arguments } => self.call(name, arguments, input, id),
            Term::Variable(name) if !self.in_path_expression => self.paths_of(name),
            computed => {
                self.computed(computed, input, id);
                Vec::new()
            }
        }
    }

    /// Walks a term whose outputs are computed, and so have no path.
    fn computed(&mut self, term: &'t Term, input: &[ValuePath<'t>], id: Id) {
        match term {
            Term::Number(_) | Term::Text(_) | Term::Constant(_) | Term::Opaque | Term::Break | Term::Array(None) => {}
            Term::Recurse => self.read(input, id),
            Term::Interpolated(parts) => self.values(parts, input),
            Term::At { on: left, index: right, .. } | Term::Operator(left, right) => {
                self.value(*left, input);
                self.value(*right, input);
            }
            Term::Slice { on, from, to } => {
                self.value(*on, input);
                for bound in [from, to].into_iter().flatten() {
                    self.value(*bound, input);
                }
            }
            Term::Each { on: body } | Term::Array(Some(body)) | Term::Negate(body) => self.value(*body, input),
            Term::Object(entries) => {
                for entry in entries {
                    self.entry(entry, input, id);
                }
            }
            Term::Assign { target, value } => {
                // The output is the whole input, changed.
                self.read(input, id);
                self.path_values(&[*target], true);
                self.value(*value, &[]);
            }
            Term::Fold { source, patterns, init, update, extract } => {
                self.value(*init, input);
                let bound = self.variables.len();
                self.bind_patterns(*source, patterns, input);
                // The state is computed from values that are read.
                self.value(*update, &[]);
                if let Some(extract) = extract {
                    self.value(*extract, &[]);
                }
                self.variables.truncate(bound);
            }
            Term::Variable(name) => {
                let paths = self.paths_of(name);
                self.read(&paths, id);
            }
            Term::Identity
            | Term::Key { .. }
            | Term::Try { .. }
            | Term::Pipe(..)
            | Term::Comma(..)
            | Term::Alternative(..)
            | Term::Bind { .. }
            | Term::Label(_)
            | Term::If { .. }
            | Term::Define { .. }
            | Term::Call { .. } => unreachable!("invariant: `outputs` walks the terms that pass paths on"),
        }
    }

    /// Walks the body of a function. Calls read their input and their arguments, so in the body
    /// these have no path. Only variables remain.
    fn define(&mut self, parameters: &'t [String], body: Id) {
        let bound = self.variables.len();
        for name in parameters.iter().filter_map(|p| p.strip_prefix('$')) {
            self.variables.push((name, Vec::new()));
        }
        self.path_values(&[body], self.takes_paths);
        self.variables.truncate(bound);
    }

    /// The paths of a variable's value. An unbound variable is an error for jq.
    fn paths_of(&self, name: &str) -> Vec<ValuePath<'t>> {
        let known = self.variables.iter().rev().find(|(variable, _)| *variable == name);
        known.map(|(_, paths)| paths.clone()).unwrap_or_default()
    }

    /// A union of paths, read whole if there are too many to carry along.
    fn bounded(&mut self, paths: Vec<ValuePath<'t>>, id: Id) -> Vec<ValuePath<'t>> {
        if paths.len() <= PATHS_MAX {
            return paths;
        }
        self.read(&paths, id);
        Vec::new()
    }

    fn keyed(&mut self, on: Id, key: &'t str, input: &[ValuePath<'t>], id: Id) -> Vec<ValuePath<'t>> {
        let on = self.outputs(on, input);
        let paths: Vec<ValuePath<'t>> =
            on.iter().map(|path| path.iter().copied().chain([key]).collect::<Vec<_>>().into()).collect();
        for path in &paths {
            self.note(path, false, id);
        }
        paths
    }

    fn entry(&mut self, entry: &'t Entry, input: &[ValuePath<'t>], id: Id) {
        match entry {
            Entry::Same(key) => {
                for path in input {
                    let path: ValuePath<'t> = path.iter().copied().chain([key.as_str()]).collect::<Vec<_>>().into();
                    self.note(&path, true, id);
                }
            }
            Entry::Variable(name) => {
                let paths = self.paths_of(name);
                self.read(&paths, id);
            }
            Entry::Constant(value) => self.value(*value, input),
            Entry::Computed(key, value) => {
                self.value(*key, input);
                self.value(*value, input);
            }
            Entry::Dynamic(key) => {
                self.value(*key, input);
                self.read(input, id);
            }
        }
    }

    fn bind(&mut self, source: Id, patterns: &'t [Pattern], body: Id, input: &[ValuePath<'t>]) -> Vec<ValuePath<'t>> {
        let bound = self.variables.len();
        self.bind_patterns(source, patterns, input);
        let outputs = self.outputs(body, input);
        self.variables.truncate(bound);
        outputs
    }

    /// Brings the variables of patterns into scope. A plain variable has the paths of its source;
    /// other patterns read the source.
    fn bind_patterns(&mut self, source: Id, patterns: &'t [Pattern], input: &[ValuePath<'t>]) {
        let paths = self.outputs(source, input);
        if let [Pattern::Variable(name)] = patterns {
            self.variables.push((name, paths));
            return;
        }
        self.read(&paths, source);
        // The keys first: in them, a variable that the patterns bind is the outer one of that name.
        // (Not so with several patterns, but then the variables' values are parts of the source,
        // which is read.)
        for pattern in patterns {
            self.pattern_keys(pattern, input);
        }
        // Each pattern binds the variables of all.
        for pattern in patterns {
            self.bind_pattern(pattern);
        }
    }

    fn bind_pattern(&mut self, pattern: &'t Pattern) {
        match pattern {
            Pattern::Variable(name) => self.variables.push((name, Vec::new())),
            Pattern::Array(parts) => {
                for part in parts {
                    self.bind_pattern(part);
                }
            }
            Pattern::Object(parts) => {
                for (variable, _, part) in parts {
                    if let Some(name) = variable {
                        self.variables.push((name, Vec::new()));
                    }
                    if let Some(part) = part {
                        self.bind_pattern(part);
                    }
                }
            }
        }
    }

    fn pattern_keys(&mut self, pattern: &'t Pattern, input: &[ValuePath<'t>]) {
        match pattern {
            Pattern::Variable(_) => {}
            Pattern::Array(parts) => {
                for part in parts {
                    self.pattern_keys(part, input);
                }
            }
            Pattern::Object(parts) => {
                for (_, key, part) in parts {
                    if let Some(key) = key {
                        self.value(*key, input);
                    }
                    if let Some(part) = part {
                        self.pattern_keys(part, input);
                    }
                }
            }
        }
    }

    fn call(&mut self, name: &str, arguments: &[Id], input: &[ValuePath<'t>], id: Id) -> Vec<ValuePath<'t>> {
        let is_builtin = !self.defined.contains(&name);
        if is_builtin && TRANSPARENT.contains(&(name, arguments.len())) {
            self.values(arguments, input);
            return Vec::new();
        }
        if is_builtin && name == "select" && arguments.len() == 1 {
            self.value(arguments[0], input);
            return input.to_vec();
        }
        // The arguments are evaluated on the input, on parts of it, or on values computed from it:
        // all of it is read.
        self.read(input, id);
        let is_path = if is_builtin { PATH_TAKERS.contains(&name) } else { self.takes_paths };
        self.path_values(arguments, is_path);
        Vec::new()
    }

    fn finish(mut self) -> References {
        if let Some(note) = self.notes.iter().find(|note| note.read && note.path.is_empty()) {
            return References::Everything(note.span.clone());
        }
        // In the order of paths, a path follows its prefixes. A path is dropped if it lies below
        // one that is read, or if it was only touched on the way to another. The span is that of a
        // term that touches it, since that one names it: what reads it may be a term after a pipe.
        self.notes.sort_by(|a, b| a.path.cmp(&b.path).then(a.read.cmp(&b.read)).then(a.span.start.cmp(&b.span.start)));
        let mut kept: Vec<Note<'t>> = Vec::new();
        for note in self.notes {
            match kept.last_mut() {
                Some(last) if note.path == last.path => {
                    last.read |= note.read;
                    continue;
                }
                Some(last) if note.path.starts_with(&last.path) && last.read => continue,
                Some(last) if note.path.starts_with(&last.path) => {
                    kept.pop();
                }
                _ => {}
            }
            kept.push(note);
        }
        kept.sort_by_key(|note| note.span.start);
        let keys = |path: &ValuePath<'t>| path.iter().map(|&key| key.to_owned()).collect();
        References::Paths(kept.into_iter().map(|note| Reference { path: keys(&note.path), span: note.span }).collect())
    }
}
