//! The same guest in four languages: for each case, all give the same result.

use crate::support::{builder, guests, is_built, outputs};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::sync::Arc;
use wfhost::host::{Host, RunOptions};
use wfhost::process::{Level, LogLine};
use wfhost::run::{LogOrigin, LogSink};

/// More than there are cases: each slot takes a guest of any language, even one with 38 tables.
const SLOTS: u32 = 64;

#[derive(Deserialize)]
struct Case {
    entry: String,
    /// JSON text, which is YAML too.
    input: String,
    output: Option<String>,
    problem: Option<String>,
}

fn cases() -> Vec<Case> {
    let text = std::fs::read_to_string(guests("conformance").join("cases.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[derive(Default)]
struct Sink(Mutex<Vec<(String, LogLine)>>);

impl LogSink for Sink {
    fn lines(&self, origin: &LogOrigin, lines: &[LogLine], _: u64) {
        let component = origin.component.as_deref().unwrap_or_default();
        self.0.lock().extend(lines.iter().map(|line| (component.to_owned(), line.clone())));
    }
}

struct Language {
    host: Host,
    folder: &'static str,
    name: String,
    sink: Arc<Sink>,
}

impl Language {
    fn new(folder: &'static str, name: &str) -> Self {
        Self { host: builder(2, SLOTS).build().unwrap(), folder, name: name.to_owned(), sink: Arc::default() }
    }

    /// The outputs of a workflow with these steps, which know the component as `guest`.
    fn outputs(&self, steps: &str, outputs_text: &str) -> Value {
        let text = format!(
            "components: {{ guest: {{ source: ./{}.wasm, limits: {{ memory: 256MiB }} }} }}\n\
             defaults: {{ retry: {{ max: 1, backoff: 1ms..1ms }} }}\n\
             steps:\n{steps}outputs: {outputs_text}\n",
            self.name
        );
        let workflow = self.host.parse("conformance.yaml", &text, guests(self.folder));
        let workflow = workflow.unwrap_or_else(|error| panic!("{error}"));
        let options = RunOptions { sink: Some(Arc::clone(&self.sink) as _), ..RunOptions::default() };
        outputs(&self.host.start(&workflow, Map::new(), options).unwrap().wait())
    }

    /// All cases as steps of one workflow, at once.
    fn cases(&self) {
        let cases = cases();
        assert!(cases.len() >= 27);
        let mut steps = String::new();
        let mut ends = Vec::new();
        for (n, Case { entry, input, .. }) in cases.iter().enumerate() {
            let _ = writeln!(
                steps,
                "  - {{ id: c{n}, uses: guest, entry: {entry}, with: {input}, continue-on-error: true }}"
            );
            ends.push(format!("\"${{ .steps.c{n} | [.status, .output, .error.kind] }}\""));
        }
        let found = self.outputs(&steps, &format!("{{ ends: [{}] }}", ends.join(", ")));
        for (case, found) in cases.iter().zip(found["ends"].as_array().unwrap()) {
            let wanted = match (&case.output, &case.problem) {
                (Some(output), None) => json!(["succeeded", serde_json::from_str::<Value>(output).unwrap(), null]),
                (None, Some(problem)) => json!(["failed", null, problem]),
                _ => panic!("a case has either an output or a problem"),
            };
            assert_eq!(*found, wanted, "{}: {} with {}", self.name, case.entry, case.input);
        }
    }

    /// What the table of entries states beyond the cases.
    fn failure_and_imports(&self) {
        let steps = "  - { id: failure, uses: guest, entry: failure, continue-on-error: true }\n  \
                     - { id: imports, uses: guest, entry: imports }\n";
        let found = self.outputs(
            steps,
            "{ failure: \"${ .steps.failure | [.attempts, .error] }\", imports: \"${ .steps.imports.output }\" }",
        );
        let (attempts, error) = (&found["failure"][0], &found["failure"][1]);
        assert_eq!(*attempts, 2, "{}: it is retryable", self.name);
        assert_eq!(error["title"], "The guest was asked to fail");
        assert_eq!(error["detail"], "as asked");
        assert_eq!(error["class"], "retryable");
        assert_eq!(error["data"], json!({ "asked": true }));
        let imports = &found["imports"];
        assert_eq!(imports["next-tag"], 1, "{}", self.name);
        assert_eq!(imports["clock"], true);
        assert!(imports["pid"].as_u64().is_some_and(|pid| pid > 1), "{imports}");
        assert_eq!(imports["random"].as_str().map(str::len), Some(16), "{imports}");
        let lines = self.sink.0.lock();
        let line = lines.iter().find(|(component, _)| component == "guest").map(|(_, line)| line);
        let line = line.unwrap_or_else(|| panic!("{}: no line in {lines:?}", self.name));
        assert_eq!((line.level, line.text.as_str()), (Level::Info, "conformance"));
        assert_eq!(line.fields.as_ref().unwrap().to_value(), json!({ "answer": 42 }));
    }

    fn conforms(&self) {
        self.cases();
        self.failure_and_imports();
    }
}

/// The components of these languages are too large to be stored with the sources.
fn conforms_where_built(name: &str) {
    if is_built(name) {
        Language::new("built-on-demand", name).conforms();
    }
}

#[test]
fn rust() {
    Language::new("built", "conformance-rust").conforms();
}

#[test]
fn c() {
    Language::new("built", "conformance-c").conforms();
}

#[test]
fn javascript() {
    conforms_where_built("conformance-js");
}

#[test]
fn python() {
    conforms_where_built("conformance-py");
}
