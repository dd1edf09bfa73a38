//! Each construct of the language, in Rust and as a file.

use super::*;
use serde_json::json;

const SCHEDULE: &str = r#"
name: report
description: "For people: all of them.\nTwice.\n"
durability: journal
schedule:
  cron: 30 2 * * *
  zone: Europe/Berlin
  dst: { gap: skip, fold: both }
  start: 2027-01-01T00:00:00Z
  end: 2028-01-01T00:00:00Z
  jitter: 1m30s
  catch-up: all
  overlap: queue-all
  inputs: { day: "${ .local[:10] }", price: "5 $${ }" }
concurrency: { group: "report ${ .inputs.day }", limit: 2, on-limit: queue, queue-max: 10 }
inputs:
  day: { type: string, format: date }
  price: string
steps: [{ id: rows, set: "rows of ${ .inputs.day }" }]
"#;

fn schedule() -> (Definition, &'static str) {
    let definition = Definition::new("report")
        .description("For people: all of them.\nTwice.\n")
        .durability(Durability::Journal)
        .schedule(
            Schedule::cron("30 2 * * *")
                .zone("Europe/Berlin")
                .dst(GapRule::Skip, FoldRule::Both)
                .start("2027-01-01T00:00:00Z")
                .end("2028-01-01T00:00:00Z")
                .jitter(seconds(90))
                .catch_up(CatchUp::All)
                .overlap(Overlap::QueueAll)
                .input("day", expr(".local[:10]"))
                .input("price", "5 ${ }"),
        )
        .concurrency(
            Concurrency::group(template("report ${ .inputs.day }")).limit(2).on_limit(OnLimit::Queue).queue_max(10),
        )
        .input("day", Input::string().format(Format::Date))
        .input("price", Input::string())
        .step("rows", Step::set(template("rows of ${ .inputs.day }")));
    (definition, SCHEDULE)
}

const EVERY: &str = r#"
name: hourly
schedule: { every: 1h, anchor: "2027-01-01T00:30:00Z" }
concurrency: { group: one at a time, on-limit: replace-queued }
steps: [{ id: now, set: "${ .run.started }" }]
"#;

fn every() -> (Definition, &'static str) {
    let definition = Definition::new("hourly")
        .schedule(Schedule::every(seconds(3600)).anchor("2027-01-01T00:30:00Z"))
        .concurrency(Concurrency::group("one at a time").on_limit(OnLimit::ReplaceQueued))
        .step("now", Step::set(expr(".run.started")));
    (definition, EVERY)
}

const INPUTS: &str = r#"
name: inputs
inputs:
  people:
    type: array
    items:
      type: object
      properties:
        name: { type: string, title: Name, description: In full., minLength: 1, maxLength: 80 }
        age: { type: integer, minimum: 0, maximum: 150 }
      required: [name]
      additionalProperties: false
    minItems: 1
    maxItems: 10
    uniqueItems: true
  share: { type: number, exclusiveMinimum: 0, exclusiveMaximum: 0.5, default: 0.25 }
  mode: { type: string, enum: [fast, "${ }"], default: "${ }" }
  version: { const: { major: 1 } }
  note: { type: [string, "null"], required: false }
  is-new: boolean
  data: { type: blob, maxBytes: 8MiB }
steps: [{ id: done, set: true }]
"#;

fn inputs() -> (Definition, &'static str) {
    let person = Input::object()
        .property("name", Input::string().title("Name").description("In full.").min_length(1).max_length(80))
        .property("age", Input::integer().minimum(0.0).maximum(150.0))
        .required_properties(["name"])
        .no_additional_properties();
    let definition = Definition::new("inputs")
        .input("people", Input::array().items(person).min_items(1).max_items(10).unique_items())
        .input("share", Input::number().exclusive_minimum(0.0).exclusive_maximum(0.5).default_value(0.25))
        .input("mode", Input::string().one_of(["fast", "${ }"]).default_value("${ }"))
        .input("version", Input::any().constant(json!({ "major": 1 })))
        .input("note", Input::of([Type::String, Type::Null]).optional())
        .input("is-new", Input::boolean())
        .input("data", Input::blob().max_bytes(8 << 20))
        .step("done", Step::set(true));
    (definition, INPUTS)
}

const GUESTS: &str = r#"
name: guests
inputs: { day: string }
components:
  resize:
    source: ./resize.wasm
    limits:
      memory: 64MiB
      fuel-per-step: 500M
      fuel: 2000000001
      table-elements: 1k
      commands-per-step: 5k
      outstanding: 100
      mailbox: 10
      payload: 1MiB
      output: 1KiB
      spawn-depth: 3
      processes: 7
      links: 9
      log-per-step: 1kB
      grace: 1.5s
    folders: { /data: ./data }
  fib: oci://registry.example.com/team/fib:1.0
defaults: { timeout: 2m, retry: { max: 2 }, limits: { memory: 1MiB } }
secrets:
  API_KEY: { from: { env: KEY }, hosts: api.example.com, headers: x-key }
  TOKEN: { from: { file: /run/token }, hosts: "*.example.com" }
  OTHER: { from: { command: [pass, show it] }, hosts: "*.example.com" }
steps:
  - id: resize
    name: Makes it small
    uses: resize
    entry: main
    with: { key: "${ .secrets.API_KEY }", cost: "5 $${ .inputs.day }" }
    allow: { http: [ "GET https://api.example.com", "POST https://api.example.com/v1" ], kv: "*" }
    secrets: API_KEY
    limits: { memory: 2MiB }
    cache: auto
  - id: count
    needs: resize
    script: { py: "if input:\n  return 1\nreturn 2" }
    cache: { ttl: 1h, key: "on ${ .inputs.day }" }
  - { id: typed, script: { ts: return 1 as number }, cache: { key: one } }
  - { id: plain, script: "return 1\n", retry: { max: 0 } }
"#;

fn guests() -> (Definition, &'static str) {
    let limits = Limits::new().memory(64 << 20).fuel_per_step(500_000_000).fuel(2_000_000_001).table_elements(1_000);
    let limits = limits.commands_per_step(5_000).outstanding(100).mailbox(10).payload(1 << 20).output(1 << 10);
    let limits = limits.spawn_depth(3).processes(7).links(9).log_per_step(1_000).grace(Duration::from_millis(1_500));
    let definition = Definition::new("guests")
        .input("day", Input::string())
        .component("resize", Component::new("./resize.wasm").limits(limits).folder("/data", "./data"))
        .component("fib", "oci://registry.example.com/team/fib:1.0")
        .default_timeout(seconds(120))
        .default_retry(Retry::times(2))
        .default_limits(Limits::new().memory(1 << 20))
        .secret("API_KEY", Secret::for_hosts(["api.example.com"]).headers(["x-key"]).from_env("KEY"))
        .secret("TOKEN", Secret::for_hosts(["*.example.com"]).from_file("/run/token"))
        .secret("OTHER", Secret::for_hosts(["*.example.com"]).from_command(["pass", "show it"]))
        .step(
            "resize",
            Step::uses("resize")
                .name("Makes it small")
                .entry("main")
                .with(json!({ "key": expr(".secrets.API_KEY"), "cost": "5 ${ .inputs.day }" }))
                .allow("http", ["GET https://api.example.com", "POST https://api.example.com/v1"])
                .allow("kv", ["*"])
                .secrets(["API_KEY"])
                .limits(Limits::new().memory(2 << 20))
                .cache_auto(),
        )
        .step(
            "count",
            Step::script(ScriptLanguage::Python, "if input:\n  return 1\nreturn 2")
                .needs(["resize"])
                .cache(Cache::ttl(seconds(3600)).with_key(template("on ${ .inputs.day }"))),
        )
        .step("typed", Step::script(ScriptLanguage::TypeScript, "return 1 as number").cache(Cache::key("one")))
        .step("plain", Step::script(ScriptLanguage::JavaScript, "return 1\n").retry(Retry::times(0)));
    (definition, GUESTS)
}

const STEPS: &str = r#"
name: steps
inputs: { urls: array, data: blob }
handlers: { http: { concurrency: 4, rate: 10/s, burst: 20, per: host } }
steps:
  - id: page
    call: http
    for-each: ${ .inputs.urls }
    max-parallel: 8
    with: { url: "${ .item }" }
    retry: { max: 3, backoff: 500ms..10s }
    timeout: 30s
    continue-on-error: true
    allow: { http: GET https://example.com }
  - { id: poll, set: "${ .turn }", repeat: { until: "${ .last > 2 }", max: 10, delay: 5s } }
  - { id: count, set: "${ .turn }", repeat: { while: "${ .last < 2 }", max: 10 } }
  - { id: twice, set: "${ .turn }", repeat: { max: 2 } }
  - { id: line, set: "${ .item }", for-each: { lines: "${ .inputs.data }", batch: 10, window: 100 } }
  - { id: late, set: 1, needs: page, when: [failed, unreached], if: "${ .error != null # yes\n}" }
  - id: ship
    for-each: [40, 75]
    steps:
      - { id: weight, set: "${ .item / 10 }" }
      - id: way
        switch:
          - if: ${ .steps.weight.output > 5 }
            steps: [{ id: courier, set: courier }]
            outputs: { by: "${ .steps.courier.output }" }
          - steps: [{ id: letter, set: post }]
            outputs: { by: "$${ post }" }
    outputs: { way: "${ .steps.way.output.by }" }
  - { id: label, workflow: ./label.yaml, with: { to: Ann } }
outputs: { pages: "${ .steps.page.output\n| length }", line: "${ .steps.twice.output }\n", none: null }
"#;

fn steps() -> (Definition, &'static str) {
    let page = Step::call("http").with(json!({ "url": expr(".item") })).allow("http", ["GET https://example.com"]);
    let page = page.retry(Retry::times(3).backoff(Duration::from_millis(500), seconds(10))).timeout(seconds(30));
    let definition = Definition::new("steps")
        .input("urls", Input::array())
        .input("data", Input::blob())
        .handler("http", CallBounds::new().concurrency(4).rate(10, seconds(1)).burst(20).per_host())
        .step("page", page.for_each(expr(".inputs.urls")).max_parallel(8).continue_on_error())
        .step("poll", Step::set(expr(".turn")).repeat(Repeat::until(expr(".last > 2"), 10).delay(seconds(5))))
        .step("count", Step::set(expr(".turn")).repeat(Repeat::while_true(expr(".last < 2"), 10)))
        .step("twice", Step::set(expr(".turn")).repeat(Repeat::times(2)))
        .step("line", Step::set(expr(".item")).for_each_line(Lines::of(expr(".inputs.data")).batch(10).window(100)))
        .step(
            "late",
            Step::set(1).needs(["page"]).when(When::FailedOrUnreached).condition(expr(".error != null # yes")),
        )
        .step(
            "ship",
            Step::group([
                ("weight", Step::set(expr(".item / 10"))),
                (
                    "way",
                    Step::switch([
                        Case::when(expr(".steps.weight.output > 5"), [("courier", Step::set("courier"))])
                            .output("by", expr(".steps.courier.output")),
                        Case::otherwise([("letter", Step::set("post"))]).output("by", "${ post }"),
                    ]),
                ),
            ])
            .for_each([40, 75])
            .output("way", expr(".steps.way.output.by")),
        )
        .step("label", Step::workflow("./label.yaml").with(json!({ "to": "Ann" })))
        .output("pages", expr(".steps.page.output\n| length"))
        .output("line", template("${ .steps.twice.output }\n"))
        .output("none", json!(null));
    (definition, STEPS)
}

const WAITS: &str = r#"
name: waits
durability: none
steps:
  - { id: pause, wait: 1s500ms1us }
  - { id: time, wait: { until: "2027-01-31T09:00:00Z" } }
  - { id: delay, wait: '${ "\(1 + 1)s" }' }
  - id: review
    wait:
      signal: approve-${ .run.id }
      timeout: 1d
      title: Publish $${ it }?
      text: It has words.
      schema: { type: object, title: "${ }" }
  - { id: either, wait: { any: { yes: { signal: approve }, no: { signal: reject }, late: 1s } } }
  - { id: both, wait: { all: { a: { signal: a } }, timeout: '${ "1h" }' } }
"#;

fn waits() -> (Definition, &'static str) {
    let definition = Definition::new("waits")
        .durability(Durability::None)
        .step("pause", Step::wait(Duration::from_nanos(1_500_000_001)))
        .step("time", Step::wait(Wait::until("2027-01-31T09:00:00Z")))
        .step("delay", Step::wait(expr("\"\\(1 + 1)s\"")))
        .step(
            "review",
            Step::wait(
                Signal::named(template("approve-${ .run.id }"))
                    .timeout(seconds(86_400))
                    .title("Publish ${ it }?")
                    .text("It has words.")
                    .schema(json!({ "type": "object", "title": "${ }" })),
            ),
        )
        .step(
            "either",
            Step::wait(
                Several::any()
                    .part("yes", Signal::named("approve"))
                    .part("no", Signal::named("reject"))
                    .part("late", seconds(1)),
            ),
        )
        .step("both", Step::wait(Several::all().part("a", Signal::named("a")).timeout(expr("\"1h\""))));
    (definition, WAITS)
}

const ENDINGS: &str = r#"
name: endings
secrets: { KEY: { hosts: example.com } }
steps:
  - id: a
    call: log
    with: { message: a }
    compensate:
      name: Undoes it
      uses: ./undo.wasm
      entry: undo
      with: ${ .output }
      for-each: ${ .output }
      max-parallel: 2
      repeat: { max: 2 }
      if: ${ true }
      limits: { memory: 1MiB }
      timeout: 5s
      retry: { max: 1, backoff: 1s }
      allow: { kv: "*" }
      secrets: KEY
  - { id: b, call: log, with: { message: b }, compensate: { call: log, with: { message: no b } } }
  - { id: c, call: log, with: { message: c }, compensate: { workflow: ./c.yaml, with: { to: "" } } }
  - id: d
    call: log
    with: { message: d }
    compensate: { steps: [{ id: one, set: "${ .output }" }], outputs: { one: 1 } }
  - id: e
    call: log
    with: { message: e }
    compensate: { switch: [{ steps: [{ id: one, set: "${ .output }" }] }] }
  - { id: f, call: log, with: { message: f }, compensate: { script: return input, with: "${ .output }" } }
on:
  failure:
    - { id: tell, call: log, with: { message: "${ .run.problem.title }" } }
    - { id: tell-more, set: 1 }
  cancel: [{ id: tell, set: 2 }]
  always: [{ id: tidy, set: 3 }]
grace: 90s
"#;

fn endings() -> (Definition, &'static str) {
    let message = |text: &str| json!({ "message": text });
    let undo = Step::uses("./undo.wasm").name("Undoes it").entry("undo").with(expr(".output"));
    let undo = undo.for_each(expr(".output")).max_parallel(2).repeat(Repeat::times(2)).condition(expr("true"));
    let undo = undo.limits(Limits::new().memory(1 << 20)).timeout(seconds(5)).retry(Retry::times(1).delay(seconds(1)));
    let definition = Definition::new("endings")
        .secret("KEY", Secret::for_hosts(["example.com"]))
        .step("a", Step::call("log").with(message("a")).compensate(undo.allow("kv", ["*"]).secrets(["KEY"])))
        .step("b", Step::call("log").with(message("b")).compensate(Step::call("log").with(message("no b"))))
        .step(
            "c",
            Step::call("log").with(message("c")).compensate(Step::workflow("./c.yaml").with(json!({ "to": "" }))),
        )
        .step(
            "d",
            Step::call("log")
                .with(message("d"))
                .compensate(Step::group([("one", Step::set(expr(".output")))]).output("one", 1)),
        )
        .step(
            "e",
            Step::call("log")
                .with(message("e"))
                .compensate(Step::switch([Case::otherwise([("one", Step::set(expr(".output")))])])),
        )
        .step(
            "f",
            Step::call("log")
                .with(message("f"))
                .compensate(Step::script(ScriptLanguage::JavaScript, "return input").with(expr(".output"))),
        )
        .on_failure("tell", Step::call("log").with(json!({ "message": expr(".run.problem.title") })))
        .on_failure("tell-more", Step::set(1))
        .on_cancel("tell", Step::set(2))
        .on_always("tidy", Step::set(3))
        .grace(seconds(90));
    (definition, ENDINGS)
}

fn all() -> [(Definition, &'static str); 7] {
    [schedule(), every(), inputs(), guests(), steps(), waits(), endings()]
}

#[test]
fn each_construct_has_the_plan_of_its_file() {
    for (definition, file) in all() {
        assert_same(&definition, file);
    }
}

/// A new key of the language fails here until the builder has it.
#[test]
#[cfg(feature = "cli")]
fn every_key_of_the_language_can_be_written() {
    use crate::workflow::model::keys::{Part, Shape, WORKFLOW, all as all_keys};
    use serde_json::Value;
    use std::collections::BTreeSet;

    fn walk(value: &Value, shape: &'static Shape, used: &mut BTreeSet<(&'static str, String)>) {
        match value {
            Value::Object(entries) => {
                for (key, value) in entries {
                    used.extend(shape.mappings().iter().map(|keys| (keys.name, key.clone())));
                    shape.within(Part::Key(key)).iter().for_each(|shape| walk(value, shape, used));
                }
            }
            Value::Array(items) => {
                for item in items {
                    shape.within(Part::Item).iter().for_each(|shape| walk(item, shape, used));
                }
            }
            _ => {}
        }
    }

    static FILE: Shape = Shape::Keys(|| &WORKFLOW);
    let mut used = BTreeSet::new();
    for (definition, _) in all() {
        let value = crate::workflow::syntax::read_value(&definition.to_string()).unwrap();
        walk(&value, &FILE, &mut used);
    }
    let keys = all_keys().into_iter().flat_map(|keys| keys.known().iter().map(|key| (keys.name, *key)));
    let missing: Vec<_> = keys.filter(|(name, key)| !used.contains(&(*name, (*key).to_owned()))).collect();
    assert!(
        missing.is_empty(),
        "the builder does not write {missing:?}: give src/workflow/builder a method for each, and use it above"
    );
}
