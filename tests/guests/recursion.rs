//! Programs that recurse as deep as ordinary ones do find room on a guest's stack. Deeper ones end
//! with an error of their language or with `stack-exhausted`, and never with a fault of the host's.

use crate::support::{builder, guests, is_built, outputs};
use serde_json::{Map, Value, json};
use wfhost::host::{Host, RunOptions};

struct Language {
    host: Host,
    name: &'static str,
}

impl Language {
    /// `None` if the component is not built.
    fn of(name: &'static str) -> Option<Self> {
        is_built(name).then(|| Self { host: builder(1, 2).build().unwrap(), name })
    }

    /// The result of a step: its output, or the kind of its problem.
    fn end(&self, entry: &str, input: u32) -> (Value, Value) {
        let text = format!(
            "{{ components: {{ guest: {{ source: ./{}.wasm, limits: {{ memory: 256MiB }} }} }},
                steps: [{{ id: x, uses: guest, entry: {entry}, with: {input}, continue-on-error: true }}],
                outputs: {{ output: \"${{ .steps.x.output }}\", kind: \"${{ .steps.x.error.kind }}\" }} }}",
            self.name
        );
        let workflow = self.host.parse("recursion.yaml", &text, guests("built-on-demand"));
        let workflow = workflow.unwrap_or_else(|error| panic!("{error}"));
        let found = outputs(&self.host.start(&workflow, Map::new(), RunOptions::default()).unwrap().wait());
        (found["output"].clone(), found["kind"].clone())
    }

    fn gives(&self, entry: &str, input: u32, output: u32) {
        assert_eq!(self.end(entry, input), (json!(output), Value::Null), "{}: {entry}({input})", self.name);
    }

    /// It ends by its own doing.
    fn dies(&self, entry: &str, input: u32) {
        let (output, kind) = self.end(entry, input);
        let kind = kind.as_str().unwrap_or_else(|| panic!("{}: {entry}({input}) gives {output}", self.name));
        // An exception that is not caught is a trap.
        let kinds = ["trap", "stack-exhausted", "fuel-exhausted", "memory-exhausted"];
        assert!(kinds.contains(&kind), "{}: {entry}({input}) ends as {kind}", self.name);
    }
}

#[test]
fn javascript() {
    let Some(language) = Language::of("recursion-js") else { return };
    language.gives("fib", 15, 610);
    language.gives("nested", 100, 100);
    language.gives("tree", 500, 125_250);
    language.gives("tree", 5_000, 12_502_500);
    language.gives("regex", 100, 101);
    // Its own error can be caught, and it continues.
    let (output, kind) = language.end("limit", 0);
    assert!(output.as_u64().is_some_and(|calls| calls > 10_000), "{output} {kind}");
    language.dies("endless", 0);
    language.dies("nested", 10_000);
}

#[test]
fn python() {
    let Some(language) = Language::of("recursion-py") else { return };
    language.gives("fib", 15, 610);
    language.gives("nested", 100, 100);
    language.gives("nested", 500, 500);
    language.gives("tree", 500, 125_250);
    language.gives("regex", 100, 101);
    language.gives("shown", 100, 204);
    // Python's own limit, 1,000 by default, is reached before the stack's; so is a much higher one.
    language.gives("limit", 1_000, 997);
    language.gives("limit", 50_000, 49_997);
    language.dies("endless", 1_000_000);
    language.dies("shown", 5_000);
}
