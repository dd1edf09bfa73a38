use super::*;
use crate::workflow::diagnostics::Diagnostics;
use crate::workflow::syntax::{Node, Source, parse};
use boon::{Compiler, Schemas};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The model and this table must know the same keys, and the rules must name keys that exist.
#[test]
fn each_key_of_the_model_has_its_words() {
    let mut missing = Vec::new();
    for keys in all() {
        for key in keys.known().iter().filter(|key| keys.word(key).is_none()) {
            missing.push(format!(
                "{} has a key `{key}` without words: add Word::new(\"{key}\", \"What it means, as docs/workflows.md says \
                 it.\", Shape::…) to the words of `{}` in src/workflow/model/keys, at the place where the formatter should \
                 write it",
                keys.known.what, keys.name
            ));
        }
        for word in keys.words.iter().filter(|word| !keys.known().contains(&word.key)) {
            missing.push(format!(
                "{} has no key `{}` in the model: remove its Word from `{}` in src/workflow/model/keys",
                keys.known.what, word.key, keys.name
            ));
        }
        let rules = keys.required.iter().chain(keys.exactly_one).copied();
        let rules = rules.chain(
            keys.only_with
                .iter()
                .copied()
                .flatten()
                .flat_map(|(key, others)| std::iter::once(*key).chain(others.iter().copied())),
        );
        for key in rules.filter(|key| !keys.known().contains(key)) {
            missing.push(format!("a rule of `{}` names `{key}`, which is no key", keys.name));
        }
        let distinct: BTreeSet<&str> = keys.words.iter().map(|word| word.key).collect();
        assert_eq!(distinct.len(), keys.words.len(), "{} has words for a key twice", keys.name);
    }
    assert!(missing.is_empty(), "\n{}", missing.join("\n"));
}

/// A reader of the page finds each key that an editor shows.
#[test]
fn each_key_is_in_the_documents() {
    let pages = ["workflows.md", "limits.md", "programs.md", "scripts.md"];
    let text: String =
        pages.iter().map(|page| std::fs::read_to_string(root().join("docs").join(page)).unwrap()).collect();
    for keys in all() {
        for key in keys.known() {
            let forms = [format!("`{key}`"), format!("{key}:"), format!("`{key}:"), format!("{{ {key}")];
            assert!(forms.iter().any(|form| text.contains(form.as_str())), "`{key}` of {} is not in docs", keys.name);
        }
    }
}

struct Checker(Schemas, boon::SchemaIndex);

impl Checker {
    fn new() -> Self {
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.add_resource("workflow.json", json_schema()).unwrap();
        let index = compiler.compile("workflow.json", &mut schemas).unwrap();
        Self(schemas, index)
    }

    fn fault(&self, value: &Value) -> Option<String> {
        self.0.validate(value, self.1).err().map(|error| format!("{error:#}"))
    }
}

/// The value of a text, if it is YAML.
fn value(name: &str, text: &str) -> Option<Value> {
    let source = Source::new(name, text);
    parse(&source, &mut Diagnostics::new(source.clone())).as_ref().map(Node::to_json)?.ok()
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            found.push(path);
        }
    }
}

#[test]
fn the_schema_is_one_of_its_draft() {
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    let draft = "https://json-schema.org/draft/2020-12/schema";
    let index = compiler.compile(draft, &mut schemas).unwrap();
    schemas.validate(&json_schema(), index).map_err(|error| format!("{error:#}")).unwrap();
}

#[test]
fn examples_are_valid() {
    let checker = Checker::new();
    let mut found = Vec::new();
    files(&root().join("workflows"), &mut found);
    // Tests of a workflow are another kind of file.
    found.retain(|path| !path.to_string_lossy().ends_with(".test.yaml"));
    assert!(found.len() > 5);
    for path in found {
        let text = std::fs::read_to_string(&path).unwrap();
        let value = value("example.yaml", &text).unwrap();
        assert_eq!(checker.fault(&value), None, "{}", path.display());
    }
}

/// Blocks of the documents that are whole workflows: those that are validated there, too.
#[test]
fn workflows_of_the_documents_are_valid() {
    let checker = Checker::new();
    let mut pages: Vec<PathBuf> =
        std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.push(root().join("README.md"));
    let mut count = 0;
    for page in pages.iter().filter(|page| page.extension().is_some_and(|extension| extension == "md")) {
        let text = std::fs::read_to_string(page).unwrap();
        for block in text.split("\n```yaml\n").skip(1) {
            let block = block.split("\n```").next().unwrap();
            // The settings of a user.
            if block.starts_with("# ~/") {
                continue;
            }
            let value = value("block.yaml", block).unwrap();
            assert_eq!(checker.fault(&value), None, "{}:\n{block}", page.display());
            count += 1;
        }
    }
    assert!(count > 15, "{count}");
}

/// Why a schema cannot see a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unseen {
    /// It is in the text of an expression, a script or a pattern.
    InText,
    /// It is between parts of the file: a reference, a cycle, two equal ids.
    BetweenParts,
    /// The host knows it: components, handlers, grants.
    Host,
    /// It is in another file that a step runs.
    OtherFile,
    /// YAML hides it: an alias, a tag, a key that is given twice or is no text.
    Yaml,
    /// How deep steps are within each other.
    Depth,
}

const UNSEEN: &[(&str, Unseen)] = &[
    ("a-blob-read-wrongly", Unseen::Host),
    ("a-blob-sent-wrongly", Unseen::Host),
    ("a-blob-stored-wrongly", Unseen::Host),
    ("a-cache-auto-of-a-call", Unseen::BetweenParts),
    ("a-cache-key-that-reads-what-is-not-there", Unseen::InText),
    ("a-cache-of-the-store", Unseen::BetweenParts),
    ("a-cache-of-what-can-be-undone", Unseen::BetweenParts),
    ("a-cache-with-nothing-in-it", Unseen::BetweenParts),
    ("a-component-without-a-path", Unseen::Host),
    ("a-condition-that-sets", Unseen::InText),
    ("a-cycle-inside", Unseen::BetweenParts),
    ("a-cycle-through-a-group", Unseen::BetweenParts),
    ("a-default-before-other-cases", Unseen::BetweenParts),
    ("a-step-inside-is-read-from-outside", Unseen::BetweenParts),
    ("a-step-inside-waits-for-its-group", Unseen::BetweenParts),
    ("a-step-with-the-name-of-what-undoes-it", Unseen::BetweenParts),
    ("a-turn-where-there-is-none", Unseen::InText),
    ("an-id-of-a-step-outside", Unseen::BetweenParts),
    ("an-item-outside-its-list", Unseen::InText),
    ("arguments-of-calls", Unseen::Host),
    ("braces-of-other-tools", Unseen::InText),
    ("braces-without-quotes", Unseen::Yaml),
    ("calls-that-must-fail", Unseen::Host),
    ("control-characters-in-a-name", Unseen::InText),
    ("cycles", Unseen::BetweenParts),
    ("dependencies-that-cannot-be-told", Unseen::InText),
    ("duplicate-ids", Unseen::BetweenParts),
    ("duplicate-keys", Unseen::Yaml),
    ("expression-in-a-script", Unseen::InText),
    ("expressions-of-other-languages", Unseen::InText),
    ("expressions-that-do-not-compile", Unseen::InText),
    ("grants", Unseen::Host),
    ("handlers-that-are-not-there", Unseen::Host),
    ("handlers-without-bounds", Unseen::BetweenParts),
    ("later-keys", Unseen::InText),
    ("lines-of-an-unknown-input", Unseen::BetweenParts),
    ("needs-a-step-outside", Unseen::BetweenParts),
    ("needs-a-step-within-another", Unseen::BetweenParts),
    ("outputs-as-needs", Unseen::InText),
    ("outputs-of-several-waits", Unseen::BetweenParts),
    ("references-to-nothing", Unseen::BetweenParts),
    ("schedule-inputs", Unseen::BetweenParts),
    ("secrets-for-another-port", Unseen::BetweenParts),
    ("secrets-for-hosts-out-of-reach", Unseen::BetweenParts),
    ("secrets-in-other-places", Unseen::InText),
    ("secrets-that-a-step-does-not-list", Unseen::BetweenParts),
    ("secrets-that-are-not-declared", Unseen::BetweenParts),
    ("secrets-without-a-declaration", Unseen::BetweenParts),
    ("steps-too-deep", Unseen::Depth),
    ("tags-and-merges", Unseen::Yaml),
    ("two-ways-to-authenticate", Unseen::Host),
    ("unknown-names", Unseen::BetweenParts),
    ("what-cannot-exist-yet", Unseen::BetweenParts),
    ("when-without-needs", Unseen::BetweenParts),
    ("workflow-endless", Unseen::OtherFile),
    ("workflow-inputs", Unseen::OtherFile),
    ("workflow-missing", Unseen::OtherFile),
    ("workflow-no-workflow", Unseen::OtherFile),
    ("workflow-outputs", Unseen::OtherFile),
    ("workflow-outside", Unseen::OtherFile),
    ("workflow-problems", Unseen::OtherFile),
    ("workflow-scope", Unseen::OtherFile),
];

#[test]
fn bad_files_are_invalid_unless_a_schema_cannot_see_why() {
    let checker = Checker::new();
    let mut found = Vec::new();
    files(&root().join("tests/workflows/bad"), &mut found);
    // Files in folders are those that the others name.
    found.retain(|path| path.parent().is_some_and(|folder| folder.ends_with("bad")));
    let mut wrong = Vec::new();
    for path in &found {
        let name = path.file_stem().unwrap().to_str().unwrap();
        // What is not YAML no schema sees.
        let text = String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
        let Some(value) = value(name, &text) else { continue };
        let listed = UNSEEN.iter().find(|(file, _)| *file == name);
        match (checker.fault(&value), listed) {
            (None, None) => wrong.push(format!(
                "{name}.yaml is valid under the schema: make a shape in src/workflow/model/keys stricter, or add (\"{name}\", \
                 Unseen::…) to UNSEEN if a schema cannot see its fault"
            )),
            (Some(_), Some(_)) => wrong.push(format!("{name}.yaml is seen now: remove it from UNSEEN")),
            _ => {}
        }
    }
    let files: Vec<&str> = found.iter().map(|path| path.file_stem().unwrap().to_str().unwrap()).collect();
    wrong.extend(UNSEEN.iter().filter(|(name, _)| !files.contains(name)).map(|(name, _)| format!("{name} is gone")));
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
