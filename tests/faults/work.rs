//! The runs whose hosts are killed: what each does, what comes out of it, and which effects it must have.
//!
//! A run is named by its number alone, `run-7`: its workflow, its input and its outputs follow from it. So whoever takes up a folder
//! knows what every run in it was to be.

use serde_json::{Map, Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// A run of a campaign.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Job(pub(crate) u64);

/// One workflow: a name and its steps and outputs, in which `ADDRESS`, `BUILT` and `GRANT` are replaced.
struct Kind {
    name: &'static str,
    text: &'static str,
    /// What the input gives.
    outputs: fn(&str, u64) -> Value,
    /// Paths below `/effects/RUN/`.
    effects: fn(u64) -> Vec<String>,
}

const HEAD: &str = "
inputs: { n: integer }
defaults: { retry: { max: 9, backoff: 5ms..40ms } }
";

const KINDS: &[Kind] = &[ORDER, FAN, GUESTS, ASKS, TROUBLE, WORDS];

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

/// Guests in Rust and C: spawns, messages, timers of their own, all at a time.
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

/// Map and reduce, with the reduction told to somebody.
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

impl Job {
    /// The run of an id that [`id`](Self::id) gave.
    pub(crate) fn of(id: &str) -> Self {
        Self(id.strip_prefix("run-").and_then(|number| number.parse().ok()).expect("an id of a campaign"))
    }

    pub(crate) fn id(self) -> String {
        format!("run-{}", self.0)
    }

    fn kind(self) -> &'static Kind {
        &KINDS[(self.0 % KINDS.len() as u64) as usize]
    }

    /// What distinguishes runs of one workflow.
    fn input(self) -> u64 {
        self.0 / KINDS.len() as u64
    }

    pub(crate) fn file(self) -> String {
        format!("{}.yaml", self.kind().name)
    }

    /// The text of its workflow, for a server at that address.
    pub(crate) fn workflow(self, server: SocketAddr) -> String {
        let kind = self.kind();
        let grant = format!("allow: {{ http: [ \"GET,PUT,POST http://{server}\" ] }}");
        let steps = kind.text.replace("ADDRESS", &server.to_string()).replace("GRANT", &grant);
        let steps = steps.replace("BUILT", built().to_str().expect("a path in UTF-8"));
        format!("name: {}\n{HEAD}{steps}", kind.name)
    }

    pub(crate) fn inputs(self) -> Map<String, Value> {
        Map::from_iter([("n".to_owned(), self.input().into())])
    }

    pub(crate) fn outputs(self) -> Value {
        (self.kind().outputs)(&self.id(), self.input())
    }

    /// The paths of its effects.
    pub(crate) fn effects(self) -> Vec<String> {
        (self.kind().effects)(self.input()).into_iter().map(|name| format!("/effects/{}/{name}", self.id())).collect()
    }
}

fn built() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("guests/built")
}
