//! Drawn workflows have one plan, whether they are a file or written in Rust.

use super::drawn::{Draw, Kind, Step as Drawn, child};
use super::*;
use crate::workflow::builder::{Case, Definition, Repeat, Retry, Step, When, expr};
use crate::workflow::plan::{Environment, Handlers, ResolvedComponent, Unusable};
use serde_json::json;
use std::time::Duration;

/// The file that the others run as a workflow.
struct Child;

impl Environment for Child {
    fn component(&self, _: &str) -> Result<ResolvedComponent, Unusable> {
        Ok(ResolvedComponent::default())
    }

    fn workflow(&self, path: &str) -> Result<Source, Unusable> {
        let steps = child();
        let steps: Value = steps.iter().map(|step| step.to_json(&steps)).collect();
        Ok(Source::new(path, &json!({ "steps": steps }).to_string()))
    }

    fn handlers(&self) -> Option<&dyn Handlers> {
        None
    }
}

fn planned(text: &str) -> String {
    load(&Source::new("drawn.yaml", text), &jq(), &Child).unwrap_or_else(|problems| panic!("{problems}")).to_json()
}

fn list(steps: &[Drawn]) -> Vec<(&str, Step)> {
    steps.iter().map(|step| (step.id.as_str(), built(step, steps))).collect()
}

fn output(id: &str) -> crate::workflow::builder::Expr {
    expr(format!(".steps.{id}.output"))
}

fn action(step: &Drawn, beside: &[Drawn]) -> Step {
    match &step.kind {
        Kind::Call => {
            let needs: Vec<String> =
                step.needs.iter().map(|need| format!(".steps.{}.output", beside[*need].id)).collect();
            let item = if step.items.is_some() { ".item" } else { "null" };
            let turn = if step.turns.is_some() { ".turn" } else { "null" };
            Step::call("kv").with(expr(format!("[[{}], {item}, {turn}]", needs.join(", "))))
        }
        Kind::Set(value) => Step::set(value),
        Kind::Wait => Step::wait(Duration::from_secs(1)),
        Kind::Group(inner) => {
            inner.iter().fold(Step::group(list(inner)), |group, step| group.output(&step.id, output(&step.id)))
        }
        Kind::Switch(cases) => Step::switch(cases.iter().enumerate().map(|(at, (applies, inner))| {
            let case = if at + 1 < cases.len() {
                Case::when(expr(applies.to_string()), list(inner))
            } else {
                Case::otherwise(list(inner))
            };
            inner.iter().fold(case, |case, step| case.output(&step.id, output(&step.id)))
        })),
        Kind::Workflow => Step::workflow("./child.yaml"),
    }
}

fn built(step: &Drawn, beside: &[Drawn]) -> Step {
    let mut built = action(step, beside);
    if !step.needs.is_empty() {
        let when = match step.when {
            "succeeded" => When::Succeeded,
            "failed" => When::Failed,
            "unreached" => When::Unreached,
            "done" => When::Done,
            "any" => When::Any,
            other => panic!("{other}"),
        };
        built = built.needs(step.needs.iter().map(|need| &beside[*need].id)).when(when);
    }
    if let Some(condition) = step.condition {
        built = built.condition(expr(condition.to_string()));
    }
    if let Some(items) = step.items {
        built = built.for_each((0..items).collect::<Vec<_>>()).max_parallel(if step.is_parallel { 64 } else { 1 });
    }
    if step.retries > 0 {
        built = built.retry(Retry::times(step.retries).delay(Duration::from_secs(1)));
    }
    if let Some(turns) = step.turns {
        built = built.repeat(Repeat::times(turns));
    }
    if step.continue_on_error {
        built = built.continue_on_error();
    }
    if step.compensate {
        let item = if step.items.is_some() { ".item" } else { "null" };
        let undo = Step::call("kv").with(expr(format!("[.output, {item}]"))).retry(Retry::times(1));
        built = built.compensate(undo);
    }
    built
}

#[test]
fn drawn_workflows_have_the_plan_of_their_files() {
    for seed in 0..100 {
        let steps = Draw::new(seed).list(0);
        let file = json!({
            "name": "drawn",
            "steps": steps.iter().map(|step| step.to_json(&steps)).collect::<Value>(),
            "outputs": { "first": format!("${{ .steps.{}.output }}", steps[0].id) },
        });
        let start = Definition::new("drawn");
        let definition = list(&steps).into_iter().fold(start, |all, (id, step)| all.step(id, step));
        let definition = definition.output("first", output(&steps[0].id));
        assert_eq!(planned(&definition.to_string()), planned(&file.to_string()), "seed {seed}:\n{definition}");
    }
}
