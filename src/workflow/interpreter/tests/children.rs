//! Workflows that steps run.

use super::*;
use crate::workflow::plan::{Environment, Handlers, ResolvedComponent, Unusable};
use ProblemClass::{Definite, Retryable};

/// Workflow files, the first of which is the workflow's own.
struct Files<'a>(&'a [(&'a str, &'a str)]);

impl Environment for Files<'_> {
    fn component(&self, _: &str) -> Result<ResolvedComponent, Unusable> {
        Ok(ResolvedComponent::default())
    }

    fn workflow(&self, path: &str) -> Result<Source, Unusable> {
        let found = self.0.iter().find(|(name, _)| *name == path);
        let missing = || Unusable::from(("there is no such file".to_owned(), None));
        found.map(|(name, text)| Source::new(name, text)).ok_or_else(missing)
    }

    fn handlers(&self) -> Option<&dyn Handlers> {
        None
    }
}

fn plan_of(files: &[(&str, &str)]) -> Plan {
    let (name, text) = files[0];
    load(&Source::new(name, text), &jq(), &Files(files)).unwrap_or_else(|problems| panic!("{problems}"))
}

fn run_of(files: &[(&str, &str)], inputs: Value, reply: impl FnMut(&Ask) -> Reply) -> World {
    World::of(plan_of(files), inputs).run(reply, |_| 0)
}

const LABEL: &str = "
inputs: { to: string, copies: { type: integer, default: 1 } }
steps:
  - { id: text, set: \"${ .inputs.to + \\\" x\\\" + (.inputs.copies | tostring) }\" }
  - { id: print, uses: ./print.wasm, with: \"${ .steps.text.output }\" }
outputs: { label: \"${ .steps.print.output }\", by: \"${ .run.name }\" }";

#[test]
fn a_workflow_sees_its_own_inputs_and_steps_and_gives_its_outputs() {
    let order = "
inputs: { to: string }
steps:
  - { id: text, set: ours }
  - { id: ship, workflow: ./stock/label.yaml, with: { to: \"${ .inputs.to }\" } }
outputs: { ship: \"${ .steps.ship.output }\", text: \"${ .steps.text.output }\" }";
    let world = run_of(&[("order.yaml", order), ("stock/label.yaml", LABEL)], json!({"to": "Ann"}), |ask| {
        assert_eq!((ask.scope.as_str(), ask.what.as_str()), ("ship/0/0/print/0/0", "./stock/print.wasm"));
        assert_eq!(ask.input, json!("Ann x1"));
        ok(json!("[Ann]"))
    });
    let ship = json!({"label": "[Ann]", "by": "label"});
    assert_eq!(world.output(), json!({"ship": ship, "text": "ours"}));
    assert_eq!(world.status("ship.print"), "succeeded");
}

#[test]
fn each_item_runs_the_workflow_with_inputs_of_its_own() {
    let order = "
steps:
  - id: ship
    for-each: [Ann, Bob, Eve]
    max-parallel: 2
    workflow: label.yaml
    with: { to: \"${ .item }\", copies: \"${ .index }\" }
outputs: { labels: \"${ .steps.ship.output | map(.label) }\" }";
    let files = [("order.yaml", order), ("label.yaml", LABEL)];
    let mut world = World::of(plan_of(&files), json!({}));
    assert_eq!(world.scopes(), ["ship/0/0/print/0/0", "ship/1/0/print/0/0"], "as many as max-parallel allows");
    world.answer_scope("ship/1/0/print/0/0", ok(json!("b")));
    let world = world.run(|ask| ok(ask.input.clone()), |_| 0);
    assert_eq!(world.output(), json!({"labels": ["Ann x0", "b", "Eve x2"]}));
}

#[test]
fn nothing_of_a_retried_workflow_is_left() {
    let order = "
steps:
  - { id: ship, workflow: label.yaml, with: { to: Ann }, retry: { max: 2, backoff: 1s } }
outputs: { attempts: \"${ .steps.ship.attempts }\", label: \"${ .steps.ship.output.label }\" }";
    let mut asked = 0;
    let world = run_of(&[("order.yaml", order), ("label.yaml", LABEL)], json!({}), |_| {
        asked += 1;
        if asked < 3 { fails("busy", Retryable) } else { ok(json!(asked)) }
    });
    assert_eq!(world.output(), json!({"attempts": 3, "label": 3}));
}

#[test]
fn a_failure_within_names_the_step_and_its_file() {
    let order = "
steps:
  - { id: ship, for-each: [Ann, Bob], workflow: label.yaml, with: { to: \"${ .item }\" } }
  - { id: react, needs: ship, when: failed, set: \"${ [.error.step, .error.pointer, .error.kind] }\" }";
    let world = run_of(&[("order.yaml", order), ("label.yaml", LABEL)], json!({}), |ask| {
        if ask.scope.starts_with("ship/1/") { fails("broken", Definite) } else { ok(json!(1)) }
    });
    let problem = world.problem();
    assert_eq!(problem.title, "The step `ship[1].print` failed");
    let data = problem.data.as_ref().unwrap().to_value();
    assert_eq!((&data["pointer"], &data["failed"]), (&json!("label.yaml#/steps/1"), &json!(["ship"])));
    assert_eq!(world.status("react"), "succeeded");
}

#[test]
fn inputs_that_expressions_give_are_checked_when_it_begins() {
    let order = "
steps:
  - { id: ship, workflow: label.yaml, with: { to: \"${ 7 }\" }, retry: { max: 3 }, continue-on-error: true }
outputs: { error: \"${ .steps.ship.error }\" }";
    let world = run_of(&[("order.yaml", order), ("label.yaml", LABEL)], json!({}), |_| panic!("nothing begins"));
    let error = &world.output()["error"];
    assert_eq!((&error["kind"], &error["attempt"]), (&json!(kind::BAD_INPUT), &json!(1)));
    assert_eq!(error["data"]["pointer"], "/steps/0/with");
    assert_eq!(error["data"]["violations"][0]["pointer"], "/to");
}

#[test]
fn an_expression_that_fails_is_named_with_its_file() {
    let child = "steps: [{ id: a, set: \"${ error(\\\"no\\\") }\" }]\noutputs: { a: \"${ .steps.a.output }\" }";
    let order = "steps: [{ id: ship, workflow: label.yaml }]";
    let world = run_of(&[("order.yaml", order), ("label.yaml", child)], json!({}), |_| ok(json!(1)));
    let data = world.problem().data.as_ref().unwrap().to_value();
    assert_eq!(data["cause"]["data"]["pointer"], "label.yaml#/steps/0/set");
    let child = "steps: [{ id: a, set: 1 }]\noutputs: { a: \"${ error(\\\"no\\\") }\" }";
    let world = run_of(&[("order.yaml", order), ("label.yaml", child)], json!({}), |_| ok(json!(1)));
    let data = world.problem().data.as_ref().unwrap().to_value();
    assert_eq!(data["cause"]["data"]["pointer"], "label.yaml#/outputs/a");
}

const COUNT: &str = "
inputs: { n: integer }
steps:
  - { id: last, if: \"${ .inputs.n == 0 }\", uses: ./last.wasm }
  - { id: rest, if: \"${ .inputs.n > 0 }\", workflow: count.yaml, with: { n: \"${ .inputs.n - 1 }\" } }
outputs: { depth: \"${ 1 + (.steps.rest.output.depth // 0) }\" }";

#[test]
fn a_workflow_may_run_itself_to_a_depth() {
    let world = run_of(&[("count.yaml", COUNT)], json!({"n": WORKFLOW_DEPTH_MAX}), |_| ok(json!(1)));
    assert_eq!(world.output(), json!({"depth": WORKFLOW_DEPTH_MAX + 1}));
    let world = run_of(&[("count.yaml", COUNT)], json!({"n": WORKFLOW_DEPTH_MAX + 1}), |_| ok(json!(1)));
    let data = world.problem().data.as_ref().unwrap().to_value();
    assert_eq!(data["cause"]["kind"], kind::WORKFLOW_TOO_DEEP);
    assert!(data["step"].as_str().unwrap().ends_with("rest.rest"), "{data}");
}

#[test]
fn a_timeout_and_a_cancel_end_what_is_within() {
    let child = "
steps:
  - { id: slow, uses: ./slow.wasm }
  - { id: inner, steps: [{ id: ask, wait: { signal: go } }] }";
    let order = "
steps:
  - { id: ship, workflow: label.yaml, timeout: 10s, continue-on-error: true }
outputs: { kind: \"${ .steps.ship.error.kind }\" }";
    let files = [("order.yaml", order), ("label.yaml", child)];
    let mut world = World::of(plan_of(&files), json!({}));
    world.sleep_over();
    let world = world.run(|_| Reply::Never, |_| 0);
    assert_eq!(world.output(), json!({"kind": "timed-out"}));
    let mut world = World::of(plan_of(&files), json!({}));
    world.step(vec![Event::Cancel { reason: "enough".into(), grace: Micros(1) }]);
    let world = world.run(|_| Reply::Never, |_| 0);
    assert_eq!(world.problem().kind, crate::process::problem::kind::CANCELLED);
    assert_eq!((world.status("ship"), world.status("ship.slow")), ("cancelled".to_owned(), "cancelled".to_owned()));
}

#[test]
fn a_workflow_is_a_step_like_others() {
    let child = "inputs: { n: integer }\nsteps: [{ id: a, set: \"${ .inputs.n * 2 }\" }]\noutputs: { n: \"${ .steps.a.output }\" }";
    let order = "
steps:
  - id: group
    steps: [{ id: one, workflow: double.yaml, with: { n: 1 } }]
    outputs: { n: \"${ .steps.one.output.n }\" }
  - id: way
    switch: [{ steps: [{ id: two, workflow: double.yaml, with: { n: 2 } }], outputs: { n: \"${ .steps.two.output.n }\" } }]
  - { id: until, workflow: double.yaml, with: { n: \"${ .last.n // 1 }\" }, repeat: { until: \"${ .last.n > 20 }\", max: 9 } }
  - { id: no, workflow: double.yaml, with: { n: 3 }, if: \"${ false }\" }
outputs: { all: \"${ [.steps.group.output.n, .steps.way.output.n, .steps.until.output.n, .steps.no.output] }\" }";
    let world = run_of(&[("order.yaml", order), ("double.yaml", child)], json!({}), |_| panic!("nothing is asked"));
    assert_eq!(world.output(), json!({"all": [2, 4, 32, null]}));
}

#[test]
fn a_plan_has_each_file_once_and_reads_back() {
    let order = "
steps:
  - { id: a, workflow: ./label.yaml, with: { to: x } }
  - { id: b, workflow: other/../label.yaml, with: { to: y } }
  - { id: kv, call: kv }";
    let plan = plan_of(&[("order.yaml", order), ("label.yaml", LABEL)]);
    assert_eq!(plan.workflows.len(), 1);
    assert_eq!(Plan::from_json(&plan.to_json()).unwrap(), plan);
    let names: Vec<&str> = plan.all_nodes().map(|node| &*node.id).collect();
    assert_eq!(names, ["a", "b", "kv", "text", "print"]);
    assert!(plan.node("b.print").is_some() && plan.node("b.none").is_none());
    let missing = plan.to_json().replace("\"workflow\":0", "\"workflow\":7");
    Plan::from_json(&missing).unwrap_err();
}

#[test]
fn a_workflow_that_uses_the_store_makes_its_step_one_that_does() {
    let outer = "steps: [{ id: a, workflow: b.yaml }, { id: c, workflow: d.yaml }]";
    let b = "steps: [{ id: again, if: \"${ false }\", workflow: b.yaml }, { id: d, workflow: e.yaml }]";
    let e = "steps: [{ id: kv, call: kv }]";
    let plan = plan_of(&[("a.yaml", outer), ("b.yaml", b), ("d.yaml", "steps: [{ id: x, set: 1 }]"), ("e.yaml", e)]);
    let stores: Vec<bool> = plan.nodes.iter().map(|node| node.uses_store()).collect();
    assert_eq!(stores, [true, false]);
}

#[test]
fn what_a_workflow_did_is_undone_with_its_own_inputs_and_the_problem_of_the_run() {
    let order = "
inputs: { to: { type: string, default: ours } }
steps:
  - { id: ship, workflow: label.yaml, with: { to: Ann } }
  - { id: end, needs: ship, call: shop, with: end }";
    let label = "
inputs: { to: string }
steps:
  - id: print
    call: shop
    with: '${ .inputs.to }'
    compensate: { call: shop, with: [ '${ .inputs.to }', '${ .run.name }', '${ .run.problem.data.cause.kind }' ] }";
    let world = run_of(&[("order.yaml", order), ("label.yaml", label)], json!({}), |ask| match &*ask.scope {
        "end/0/0" => fails("broken", Definite),
        _ => ok(json!(1)),
    });
    assert_eq!(world.asked.last().unwrap().input, json!(["Ann", "label", "broken"]));
    assert_eq!(world.data()["undone"], json!(["ship.print"]));
}

#[test]
fn what_turns_have_retained_is_released_when_they_end() {
    let order = "
inputs: { text: string }
steps:
  - { id: turns, repeat: { max: 40 }, workflow: copy.yaml, with: { text: '${ .inputs.text }' } }
  - id: groups
    needs: turns
    repeat: { max: 80 }
    steps: [{ id: copy, set: '${ .inputs.text }' }]
    outputs: { copy: '${ .steps.copy.output }' }
  - { id: copies, needs: groups, repeat: { max: 80 }, set: '${ .inputs.text }' }";
    let copy = "
inputs: { text: string }
steps: [{ id: copy, set: '${ .inputs.text }' }]";
    // All of these together are more than a run may retain.
    let inputs = json!({"text": "x".repeat(900 << 10)});
    let world = run_of(&[("order.yaml", order), ("copy.yaml", copy)], inputs, |_| panic!("nothing is asked"));
    assert_eq!(world.output(), json!({}));
}
