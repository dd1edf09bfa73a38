//! Drawn workflows have one plan, whether they are a file or written in Rust.

use super::drawn::{CacheKey, Draw, HANDLER, Kind, Step as Drawn, texts};
use super::random::Files;
use super::*;
use crate::workflow::builder::{Cache, Case, Definition, Repeat, Retry, Signal, Step, When, expr};
use std::time::Duration;

fn planned(text: &str, child: &str) -> String {
    let files = Files(child.to_owned());
    load(&Source::new("drawn.yaml", text), &jq(), &files).unwrap_or_else(|problems| panic!("{problems}")).to_json()
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
            Step::call(step.handler()).with(expr(format!("[[{}], {item}, {turn}]", needs.join(", "))))
        }
        Kind::Set(value) => Step::set(value),
        Kind::Wait => Step::wait(Duration::from_secs(1)),
        Kind::Signal => Step::wait(Signal::named(step.id.as_str())),
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
    match step.cache {
        Some(CacheKey::Input) => built = built.cache(Cache::ttl(Duration::from_hours(9))),
        Some(CacheKey::Item) if step.items.is_some() => built = built.cache(Cache::key(expr(".item"))),
        Some(CacheKey::Item) => built = built.cache(Cache::key("always")),
        None => {}
    }
    if step.continue_on_error {
        built = built.continue_on_error();
    }
    if step.compensate {
        let item = if step.items.is_some() { ".item" } else { "null" };
        let undo = Step::call(HANDLER).with(expr(format!("[.output, {item}]"))).retry(Retry::times(1));
        built = built.compensate(undo);
    }
    built
}

#[test]
fn drawn_workflows_have_the_plan_of_their_files() {
    for seed in 0..100 {
        let flow = Draw::new(seed).flow();
        let (file, child) = texts(&flow);
        let start = Definition::new("drawn");
        let mut definition = list(&flow.steps).into_iter().fold(start, |all, (id, step)| all.step(id, step));
        for step in &flow.steps {
            definition = definition.output(&step.id, expr(format!(".steps.{} | [.status, .output]", step.id)));
        }
        for (occasion, steps) in &flow.on {
            for (id, step) in list(steps) {
                definition = match *occasion {
                    "failure" => definition.on_failure(id, step),
                    "cancel" => definition.on_cancel(id, step),
                    _ => definition.on_always(id, step),
                };
            }
        }
        assert_eq!(planned(&definition.to_string(), &child), planned(&file, &child), "seed {seed}:\n{definition}");
    }
}
