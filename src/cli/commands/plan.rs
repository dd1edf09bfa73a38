//! `wfhost plan`.

use crate::cli::args::host::CacheArguments;
use crate::cli::args::workflow::{NO_SLOTS, load, load_file};
use crate::cli::exit::Exit;
use crate::cli::report::findings::{Findings, Format, print_findings};
use crate::cli::terminal::{Terminal, print, print_json, printable};
use crate::workflow::model::{Input, LIMITS, When, write_duration};
use crate::workflow::plan::{Action, Block, Cache, Node, Plan, Secret, Template};
use clap::{Args, ValueHint};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Args, Debug)]
#[command(
    after_help = "\
Examples:
  wfhost plan workflows/weather/workflow.yaml
  wfhost plan flow.yaml --json | jq '.steps[] | select(.[\"timeout-ms\"] == null) | .id'

`wfhost plan --help` lists what --json prints.",
    after_long_help = "\
Examples:
  wfhost plan workflows/weather/workflow.yaml
  wfhost plan flow.yaml --json | jq '.steps[] | select(.[\"timeout-ms\"] == null) | .id'

If the file cannot be used, --json prints status (refused), problem, and problems as `wfhost run --json` does. \
Otherwise it prints one object. Durations are milliseconds, sizes are bytes; null means none, or no bound.
  name, digest   the workflow's name, and the digest that its runs are pinned to
  inputs         name, required, schema (JSON Schema, with the default)
  components     name, source, digest
  steps          in an order in which each comes after what it needs:
    id, pointer, stage          pointer leads to it in the file; those of one
                                stage can run together
    action                      the key that selects it: uses, call, wait, set,
                                steps, switch, script or workflow
    component, entry, with      of uses
    handler, with               of call
    workflow, with              of workflow: a file of workflows
    wait, set                   their values, as in the file
    needs, when, if             ids; an ending or [failed, unreached]; an
                                expression
    for-each, max-parallel      the list; how many items run at once
    timeout-ms                  of one attempt
    retry                       max, backoff-min-ms, backoff-max-ms
    continue-on-error
    limits                      of uses: memory-bytes, fuel-per-step, fuel,
                                table-elements, commands-per-step, outstanding,
                                mailbox, payload-bytes, output-bytes,
                                spawn-depth, processes, links,
                                log-per-step-bytes, grace-ms
    allow                       for each capability its patterns
    secrets                     those that the step may use, if any
    compensate                  what undoes it, if anything: a step
  secrets        if any: name, from, hosts and headers (who may receive it, in
                 which header fields), steps (those that may send it)
  outputs        names with values, as in the file
  on             steps that run after the others, by occasion, if any
  grace-ms       how long a cancelled run has to end, if the file decides it
  durability     journal or none
  workflows      those that steps run, each once: file, name, inputs, steps,
                 outputs; a pointer to one of their steps is after FILE#"
)]
pub(in crate::cli) struct Arguments {
    /// The workflow file.
    #[arg(value_hint = ValueHint::FilePath)]
    pub(in crate::cli) file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    /// How problems are reported: `json` is --json; with `github` and `sarif`, as `validate` has
    /// them, problems and warnings alone are printed.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Text, conflicts_with = "json")]
    pub(in crate::cli) format: Format,
    #[command(flatten)]
    pub(in crate::cli) cache: CacheArguments,
}

/// Characters of a value that are shown; the JSON has all of them.
const VALUE_SHOWN_MAX: usize = 100;

pub(in crate::cli) fn plan(command: &Arguments, terminal: Terminal) -> anyhow::Result<Exit> {
    if matches!(command.format, Format::Github | Format::Sarif) {
        return problems(command);
    }
    let json = command.json || command.format == Format::Json;
    let Some(workflow) = load(&command.cache, &command.file, json, terminal)? else { return Ok(Exit::Usage) };
    let plan = workflow.plan();
    if json {
        print_json(&plan.view())?;
    } else {
        print(&printable(&describe(plan)))?;
    }
    Ok(Exit::Success)
}

/// Prints problems and warnings for other programs.
fn problems(command: &Arguments) -> anyhow::Result<Exit> {
    let host = command.cache.builder(NO_SLOTS).workers(1).build()?;
    let (findings, exit) = match load_file(&host, &command.file) {
        Ok(workflow) => (Findings::of_workflow(&workflow), Exit::Success),
        Err(error) => (Findings::of_error(&command.file.to_string_lossy(), &error), Exit::Usage),
    };
    print_findings(command.format, &[findings])?;
    Ok(exit)
}

fn describe(plan: &Plan) -> String {
    let names = plan.inputs.0.iter().map(|input| input.name.as_str());
    let names = names.chain(plan.components.iter().map(|component| &*component.name));
    let names = names
        .chain(plan.secrets.iter().map(|secret| &*secret.name))
        .chain(plan.nodes.iter().map(|node| &*node.id))
        .chain(plan.outputs.iter().map(|(name, _)| name.as_str()));
    let width = names.map(|name| name.chars().count()).max().unwrap_or(0).min(24);
    let mut out = format!("{}  {}\n", plan.name, plan.digest());
    if !plan.inputs.0.is_empty() {
        out.push_str("\ninputs\n");
        for input in &plan.inputs.0 {
            let _ = writeln!(out, "  {:width$}  {}", input.name, describe_input(input));
        }
    }
    if !plan.components.is_empty() {
        out.push_str("\ncomponents\n");
        for component in &plan.components {
            let digest = component.digest.as_deref().unwrap_or("not loaded");
            let _ = writeln!(out, "  {:width$}  {}  {digest}", component.name, component.source);
        }
    }
    for (name, bounds) in &plan.handlers {
        let _ = writeln!(out, "\ncalls of {name}: {bounds}");
    }
    out.push_str("\nsteps, each after what it needs\n");
    list(&mut out, plan, &plan.nodes, &plan.order, "  ", width);
    for (occasion, block) in &plan.on {
        let _ = writeln!(out, "\non {}", occasion.key());
        block_lines(&mut out, plan, block, "  ");
    }
    if let Some(grace) = plan.grace() {
        let _ = writeln!(out, "\na cancelled run has {} to end", write_duration(grace));
    }
    let secrets = plan.secret_uses();
    if !secrets.is_empty() {
        out.push_str("\nsecrets, and who may send them where\n");
        for (secret, users) in &secrets {
            describe_secret(&mut out, secret, users, width);
        }
    }
    if !plan.outputs.is_empty() {
        out.push_str("\noutputs\n");
        for (name, value) in &plan.outputs {
            let _ = writeln!(out, "  {name:width$}  {}", shown(value));
        }
    }
    for child in &plan.workflows {
        let _ = writeln!(out, "\nworkflow {}, steps each after what it needs", child.file);
        let width = child.inputs.0.iter().map(|input| input.name.len()).max().unwrap_or(0);
        for input in &child.inputs.0 {
            let _ = writeln!(out, "  input {:width$}  {}", input.name, describe_input(input));
        }
        block_lines(&mut out, plan, &child.block, "  ");
    }
    out
}

/// Writes steps, each after what it needs, and below each the steps within it.
fn list(out: &mut String, plan: &Plan, nodes: &[Arc<Node>], order: &[usize], margin: &str, width: usize) {
    for &index in order {
        let node = &nodes[index];
        let mut lines = step(plan, nodes, node).into_iter();
        let _ = writeln!(out, "{margin}{:width$}  {}", node.id, lines.next().unwrap_or_default());
        for line in lines {
            let _ = writeln!(out, "{margin}{:width$}    {line}", "");
        }
        if let Some(undo) = &node.compensate {
            let _ = writeln!(out, "{margin}{:width$}    undone, if the run does not complete, by", "");
            block_lines(out, plan, &undo.block, &format!("{margin}{:width$}      ", ""));
        }
        let within = format!("{margin}  ");
        match &node.action {
            Action::Steps(block) | Action::All(block) => block_lines(out, plan, block, &within),
            Action::Switch(cases) => {
                for case in cases {
                    let condition =
                        case.condition.as_ref().map_or("otherwise".to_owned(), |one| format!("if {}", shown(one)));
                    let _ = writeln!(out, "{within}{condition}");
                    block_lines(out, plan, &case.block, &format!("{within}  "));
                }
            }
            _ => {}
        }
    }
}

/// Writes the steps within a step, and their outputs.
fn block_lines(out: &mut String, plan: &Plan, block: &Block, margin: &str) {
    let names = block.nodes.iter().map(|node| node.id.len()).chain(block.outputs.iter().map(|(name, _)| name.len()));
    let width = names.max().unwrap_or(0);
    list(out, plan, &block.nodes, &block.order, margin, width);
    for (name, value) in &block.outputs {
        let _ = writeln!(out, "{margin}{name:width$}  output {}", shown(value));
    }
}

fn describe_secret(out: &mut String, secret: &Secret, users: &[String], width: usize) {
    let users = if users.is_empty() { "no step".to_owned() } else { users.join(", ") };
    let (hosts, headers) = (secret.hosts.join(", "), secret.headers.join(", "));
    let _ = writeln!(out, "  {:width$}  sent by {users}", secret.name);
    let _ = writeln!(out, "  {:width$}    to {hosts}, over TLS", "");
    let _ = writeln!(out, "  {:width$}    in {headers}", "");
    let _ = writeln!(out, "  {:width$}    given by whoever runs it: {}", "", secret.flag());
}

fn describe_input(input: &Input) -> String {
    let what = input.schema.summary();
    let mut text = match (&input.schema.default, input.required) {
        (Some(default), _) => format!("{what}; default {}", cut(&default.to_string())),
        (None, true) => format!("{what}; required"),
        (None, false) => format!("{what}; null if absent"),
    };
    if let Some(description) = &input.schema.description {
        let _ = write!(text, "; {description}");
    }
    text
}

/// Which outcomes of its dependencies let a step start, unless all must have succeeded.
fn when(when: When) -> Option<&'static str> {
    match when {
        When::Succeeded => None,
        When::Failed => Some("when one of them failed"),
        When::Unreached => Some("when one of them was not reached"),
        When::FailedOrUnreached => Some("when one of them failed or was not reached"),
        When::Done => Some("when they have ended, whatever their status"),
        When::Any => Some("when one of them succeeded"),
    }
}

/// The action of a step, then all that affects it, a line each.
fn step(plan: &Plan, nodes: &[Arc<Node>], node: &Node) -> Vec<String> {
    let mut lines = vec![action(plan, node)];
    if !node.needs.is_empty() {
        let needs: Vec<&str> = node.needs.iter().map(|&need| &*nodes[need].id).collect();
        lines.push(format!("needs {}", needs.join(", ")));
    }
    lines.extend(when(node.when).map(str::to_owned));
    if let Some(condition) = &node.condition {
        lines.push(format!("if {}", shown(condition)));
    }
    if let Some(list) = &node.for_each {
        lines.push(format!("for each of {}, at most {} at once", shown(list), node.max_parallel));
    }
    if let Action::Uses { with, .. } | Action::Call { with, .. } | Action::Workflow { with, .. } = &node.action
        && *with != Template::Literal(Value::Null)
    {
        lines.push(format!("with {}", shown(with)));
    }
    attempts(node, &mut lines);
    if let Some(repeat) = &node.repeat {
        let delay =
            if repeat.delay.0 == 0 { String::new() } else { format!(", {} apart", write_duration(repeat.delay)) };
        let until = repeat.until.as_ref().map(|one| format!(" until {}", shown(one)));
        let until = until.or_else(|| repeat.while_true.as_ref().map(|one| format!(" while {}", shown(one))));
        lines.push(format!("repeated{}, at most {} turns{delay}", until.unwrap_or_default(), repeat.max));
    }
    lines.extend(node.cache.as_ref().map(cached));
    if node.continue_on_error {
        lines.push("continues on error: its failure counts as success".to_owned());
    }
    add_bounds(node, &mut lines);
    lines
}

/// What a step may use and ask for.
fn add_bounds(node: &Node, lines: &mut Vec<String>) {
    if let Action::Uses { .. } = node.action {
        let set = LIMITS.iter().filter(|limit| limit.is_set(&node.limits));
        let set: Vec<String> = set
            .map(|limit| format!("{} {}", limit.key, limit.text(&node.limits).as_deref().unwrap_or("none")))
            .collect();
        if !set.is_empty() {
            lines.push(format!("limits {}", set.join(", ")));
        }
    }
    for (capability, patterns) in node.grants.0.iter() {
        lines.push(format!("may {capability}: {}", patterns.join(", ")));
    }
    if !node.secrets.is_empty() {
        let secrets: Vec<&str> = node.secrets.iter().map(|secret| &*secret.name).collect();
        lines.push(format!("may send the secrets {}", secrets.join(", ")));
    }
}

/// The action of a step in a line.
fn action(plan: &Plan, node: &Node) -> String {
    match &node.action {
        Action::Uses { .. } if node.action.key() == "script" => "script".to_owned(),
        Action::Uses { component, entry, .. } => format!("uses {component}, entry {entry}"),
        Action::Call { handler, .. } => format!("call {handler}"),
        Action::Wait(value) => format!("wait {}", shown(value)),
        Action::Until(value) => format!("wait until {}", shown(value)),
        Action::Signal { name, timeout: None, .. } => format!("wait for signal {}", shown(name)),
        Action::Signal { name, timeout: Some(timeout), .. } => {
            format!("wait for signal {}, at most {}", shown(name), shown(timeout))
        }
        Action::Any { parts, timeout } => {
            let names: Vec<&str> = parts.iter().map(|(name, _)| &**name).collect();
            let most = timeout.as_ref().map_or_else(String::new, |timeout| format!(", at most {}", shown(timeout)));
            format!("wait for the first of {}{most}", names.join(", "))
        }
        Action::All(block) => format!("wait for all of {}", names_of(block)),
        Action::Set(value) => format!("set {}", shown(value)),
        Action::Steps(block) if block.nodes.len() == 1 => "1 step".to_owned(),
        Action::Steps(block) => format!("{} steps", block.nodes.len()),
        Action::Switch(_) => "switch to the first case that applies".to_owned(),
        Action::Workflow { .. } => {
            format!("workflow {}", plan.workflow_of(&node.action).map_or("", |child| &child.file))
        }
    }
}

fn names_of(block: &Block) -> String {
    block.nodes.iter().map(|node| &*node.id).collect::<Vec<_>>().join(", ")
}

/// How the attempts of a step are bounded and repeated.
fn attempts(node: &Node, lines: &mut Vec<String>) {
    if let Some(timeout) = node.timeout {
        lines.push(format!("timeout {} for each attempt", write_duration(timeout)));
    }
    if let Some(retry) = &node.retry {
        let times = if retry.max == 1 { "once" } else { &format!("{} times", retry.max) };
        let (least, most) = (write_duration(retry.backoff_min), write_duration(retry.backoff_max));
        let wait = if least == most { least } else { format!("{least} to {most}") };
        lines.push(format!("retried at most {times}, after {wait}"));
    }
}

fn cached(cache: &Cache) -> String {
    match cache {
        Cache::Auto => "cached if the guest depends on its input alone".to_owned(),
        Cache::Kept { ttl, key } => {
            let by = key.as_ref().map_or("its input".to_owned(), shown);
            let ttl = ttl.map_or(String::new(), |ttl| format!(", for {}", write_duration(ttl)));
            format!("cached by {by}{ttl}")
        }
    }
}

/// A value as written in the file, on one line.
fn shown(value: &Template) -> String {
    match value.to_value() {
        Value::String(text) => cut(&text.split_whitespace().collect::<Vec<_>>().join(" ")),
        other => cut(&other.to_string()),
    }
}

fn cut(text: &str) -> String {
    if text.chars().count() <= VALUE_SHOWN_MAX {
        return text.to_owned();
    }
    text.chars().take(VALUE_SHOWN_MAX).chain(['…']).collect()
}
