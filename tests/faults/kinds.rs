//! The runs of a campaign: workflows, each with the outputs that it must have and the effects that
//! must happen.

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// One workflow: a name and its steps and outputs, in which `ADDRESS`, `BUILT` and `GRANT` are
/// replaced.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    /// The outputs for an input.
    pub(crate) outputs: fn(&str, u64) -> Value,
    /// Paths below `/effects/RUN/`.
    pub(crate) effects: fn(u64) -> Vec<String>,
}

pub(crate) const HEAD: &str = "
inputs: { n: integer }
defaults: { retry: { max: 9, backoff: 5ms..40ms } }
";

/// All of them whose guests are built.
pub(crate) fn kinds() -> &'static [Kind] {
    static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
        let mut kinds = vec![ORDER, FAN, GUESTS, ASKS, TROUBLE, WORDS, SIGNALS];
        for (name, kind) in [("conformance-js", JAVASCRIPT), ("conformance-py", PYTHON)] {
            if guests("built-on-demand").join(name).with_extension("wasm").exists() {
                kinds.push(kind);
            } else {
                eprintln!("SKIPPED: {name} is not built; `guests/build.sh {name}` builds it");
            }
        }
        kinds
    });
    &KINDS
}

pub(crate) fn guests(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("guests").join(folder)
}

/// One after the other: effects, a timer, a guest, the run's own store.
const ORDER: Kind = Kind {
    name: "order",
    text: r#"
steps:
  - id: count
    call: kv
    with: { op: set, key: visits, value: { count: "${ .inputs.n }" } }
    allow: { kv: [ "*" ] }
  - id: reserve
    call: http
    with:
      url: "http://ADDRESS/effects/${ .run.id }/reserve"
      method: PUT
      body: { json: { n: "${ .inputs.n }" } }
      timeout: 200ms
    GRANT
  - { id: pause, wait: "${ \"\\(.inputs.n % 7 * 20 + 10)ms\" }", needs: reserve }
  - id: greet
    uses: BUILT/hello.wasm
    with: { name: "${ .steps.reserve.output.body.done }" }
    needs: pause
  - id: swap
    call: kv
    with: { op: compare-and-set, key: visits, expected: { count: "${ .inputs.n }" }, value: { count: -1 } }
    needs: greet
    allow: { kv: [ "*" ] }
  - id: pay
    call: http
    with:
      url: "http://ADDRESS/effects/${ .run.id }/pay"
      method: POST
      repeatable: true
      body: { json: { greeting: "${ .steps.greet.output.greeting }" } }
      timeout: 200ms
    needs: swap
    GRANT
outputs: { greeting: "${ .steps.greet.output.greeting }", swapped: "${ .steps.swap.output.done }", paid: "${ .steps.pay.output.body.done }" }
"#,
    outputs: |id, _| {
        json!({
            "greeting": format!("Hello, /effects/{id}/reserve!"), "swapped": true, "paid": format!("/effects/{id}/pay"),
        })
    },
    effects: |_| vec!["reserve".to_owned(), "pay".to_owned()],
};

/// Many at a time.
const FAN: Kind = Kind {
    name: "fan",
    text: r#"
steps:
  - id: each
    for-each: "${ [range(.inputs.n % 5 + 3)] }"
    max-parallel: 3
    call: http
    with:
      url: "http://ADDRESS/effects/${ .run.id }/${ .item }"
      method: PUT
      body: { text: "item ${ .item }" }
      timeout: 200ms
    GRANT
  - { id: rest, for-each: [ 30ms, 20ms, 60ms, 10ms ], wait: "${ .item }" }
  - id: fact
    call: http
    with: { url: "http://ADDRESS/facts/${ .inputs.n }", timeout: 200ms }
    needs: [ each, rest ]
    GRANT
outputs: { done: "${ [.steps.each.output[].body.done] }", fact: "${ .steps.fact.output.body.fact }" }
"#,
    outputs: |id, n| {
        let done: Vec<_> = (0..n % 5 + 3).map(|item| format!("/effects/{id}/{item}")).collect();
        json!({ "done": done, "fact": n * n })
    },
    effects: |n| (0..n % 5 + 3).map(|item| item.to_string()).collect(),
};

/// Guests in Rust and C: spawns, messages, timers of their own, all at the same time.
const GUESTS: Kind = Kind {
    name: "guests",
    text: r#"
components: { c: BUILT/conformance-c.wasm, rust: BUILT/conformance-rust.wasm }
steps:
  - { id: fib, uses: BUILT/fib.wasm, with: { n: "${ .inputs.n % 4 + 5 }" } }
  - { id: ball, uses: BUILT/pingpong.wasm, with: { rounds: "${ .inputs.n % 9 + 1 }" } }
  - { id: family, uses: BUILT/family.wasm, with: { parents: 2, children: 3, micros: 30000 } }
  - { id: c-message, uses: c, entry: message }
  - { id: c-spawn, uses: c, entry: spawn, with: { n: 4 } }
  - { id: c-sleeps, uses: c, entry: concurrent, with: { n: 3 } }
  - { id: rust-message, uses: rust, entry: message }
  - { id: rust-sleep, uses: rust, entry: sleep, with: { micros: 50000 } }
  - { id: rust-cancel, uses: rust, entry: cancel, needs: rust-sleep }
outputs:
  fib: "${ .steps.fib.output }"
  ball: "${ .steps.ball.output }"
  family: "${ .steps.family.output }"
  c: "${ [.steps[\"c-message\"].output, .steps[\"c-spawn\"].output, .steps[\"c-sleeps\"].output] }"
  rust: "${ [.steps[\"rust-message\"].output, .steps[\"rust-sleep\"].output, .steps[\"rust-cancel\"].output] }"
"#,
    outputs: |_, n| {
        let fib = [5, 8, 13, 21][(n % 4) as usize];
        json!({
            "fib": fib, "ball": n % 9 + 1, "family": 6, "c": ["pong", [1, 2, 3, 4], [3, 2, 1]],
            "rust": ["pong", null, "cancelled"],
        })
    },
    effects: |_| Vec::new(),
};

/// Guests that have effects themselves, in C and Rust.
const ASKS: Kind = Kind {
    name: "asks",
    text: r#"
steps:
  - id: c
    uses: BUILT/conformance-c.wasm
    entry: call
    with:
      handler: http
      args: { url: "http://ADDRESS/effects/${ .run.id }/c", method: PUT, body: { json: "${ .inputs.n }" }, timeout: 200ms }
    GRANT
  - id: rust
    uses: BUILT/conformance-rust.wasm
    entry: call
    with:
      handler: http
      args: { url: "http://ADDRESS/effects/${ .run.id }/rust", method: PUT, body: { json: "${ .inputs.n }" }, timeout: 200ms }
    needs: c
    GRANT
  - id: many
    uses: BUILT/fanout.wasm
    with: { urls: "${ [range(4) | \"http://ADDRESS/facts/\\(.)\"] }", limit: 2 }
    GRANT
outputs:
  done: "${ [.steps.c.output.body.done, .steps.rust.output.body.done] }"
  statuses: "${ [.steps.many.output[].status] }"
"#,
    outputs: |id, _| {
        json!({
            "done": [format!("/effects/{id}/c"), format!("/effects/{id}/rust")], "statuses": [200, 200, 200, 200],
        })
    },
    effects: |_| vec!["c".to_owned(), "rust".to_owned()],
};

/// Guests that fail, and steps that react.
const TROUBLE: Kind = Kind {
    name: "trouble",
    text: r#"
components: { hostile: BUILT/hostile.wasm }
steps:
  - { id: hangs, uses: hostile, entry: sleep-forever, limits: { grace: 10ms }, timeout: 60ms, retry: { max: 1, backoff: 5ms..10ms }, continue-on-error: true }
  - { id: panics, uses: hostile, entry: trap-step, continue-on-error: true }
  - { id: react, uses: BUILT/hello.wasm, with: { name: "${ .error.step }" }, needs: panics, when: failed }
  - id: tell
    call: http
    with: { url: "http://ADDRESS/effects/${ .run.id }/tell", method: PUT, body: { text: "${ .steps.react.output.greeting }" }, timeout: 200ms }
    needs: hangs
    GRANT
outputs:
  hangs: "${ .steps.hangs | {status, attempts, kind: .error.kind} }"
  panics: "${ .steps.panics | {status, attempts, kind: .error.kind} }"
  react: "${ .steps.react.output.greeting }"
"#,
    outputs: |_, _| {
        json!({
            "hangs": { "status": "failed", "attempts": 2, "kind": "timed-out" },
            "panics": { "status": "failed", "attempts": 1, "kind": "trap" },
            "react": "Hello, panics!",
        })
    },
    effects: |_| vec!["tell".to_owned()],
};

/// Map and reduce, with the result sent to the server.
const WORDS: Kind = Kind {
    name: "words",
    text: r#"
components: { wordcount: BUILT/wordcount.wasm }
steps:
  - { id: map, uses: wordcount, entry: map, for-each: "${ [range(.inputs.n % 4 + 2) | \"a b a\"] }", with: { text: "${ .item }" }, max-parallel: 2 }
  - { id: reduce, uses: wordcount, entry: reduce, with: { partials: "${ .steps.map.output }" } }
  - id: tell
    call: http
    with: { url: "http://ADDRESS/effects/${ .run.id }/tell", method: PUT, body: { json: "${ .steps.reduce.output }" }, timeout: 200ms }
    GRANT
outputs: { words: "${ .steps.reduce.output }", told: "${ .steps.tell.output.body.done }" }
"#,
    outputs: |id, n| {
        let parts = n % 4 + 2;
        json!({ "words": { "a": 2 * parts, "b": parts }, "told": format!("/effects/{id}/tell") })
    },
    effects: |_| vec!["tell".to_owned()],
};

/// Steps that wait for signals, which are sent until they are acknowledged.
const SIGNALS: Kind = Kind {
    name: SIGNALLED,
    text: r#"
steps:
  - { id: first, wait: { signal: go } }
  - id: tell
    call: http
    with: { url: "http://ADDRESS/effects/${ .run.id }/tell", method: PUT, body: { json: "${ .steps.first.output }" }, timeout: 200ms }
    GRANT
  - { id: second, wait: { signal: go }, needs: tell }
  - { id: never, wait: { signal: never, timeout: 40ms }, continue-on-error: true }
outputs: { heard: "${ [.steps.first.output, .steps.second.output] }", never: "${ .steps.never.error.kind }" }
"#,
    outputs: |_, n| json!({ "heard": [n, n + 1], "never": "timed-out" }),
    effects: |_| vec!["tell".to_owned()],
};

/// The name of the workflow that receives signals: `go` with the input, and `go` with the number
/// after it.
pub(crate) const SIGNALLED: &str = "signals";

/// Guests in JavaScript.
const JAVASCRIPT: Kind = Kind {
    name: "javascript",
    text: r#"
components: { js: DEMAND/conformance-js.wasm }
steps:
  - { id: spawn, uses: js, entry: spawn, with: { n: 2 } }
  - { id: message, uses: js, entry: message, needs: spawn }
  - id: call
    uses: js
    entry: call
    with:
      handler: http
      args: { url: "http://ADDRESS/effects/${ .run.id }/js", method: PUT, body: { json: "${ .inputs.n }" }, timeout: 200ms }
    GRANT
outputs: { all: "${ [.steps.spawn.output, .steps.message.output, .steps.call.output.body.done] }" }
"#,
    outputs: |id, _| json!({ "all": [[1, 2], "pong", format!("/effects/{id}/js")] }),
    effects: |_| vec!["js".to_owned()],
};

/// Guests in Python.
const PYTHON: Kind = Kind {
    name: "python",
    text: r#"
components: { py: DEMAND/conformance-py.wasm }
steps:
  - { id: sleeps, uses: py, entry: concurrent, with: { n: 3 } }
  - { id: message, uses: py, entry: message, needs: sleeps }
  - id: call
    uses: py
    entry: call
    with:
      handler: http
      args: { url: "http://ADDRESS/effects/${ .run.id }/py", method: PUT, body: { json: "${ .inputs.n }" }, timeout: 200ms }
    GRANT
outputs: { all: "${ [.steps.sleeps.output, .steps.message.output, .steps.call.output.body.done] }" }
"#,
    outputs: |id, _| json!({ "all": [[3, 2, 1], "pong", format!("/effects/{id}/py")] }),
    effects: |_| vec!["py".to_owned()],
};
