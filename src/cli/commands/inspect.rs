//! `wfhost inspect`.

use crate::cli::args::host::CacheArguments;
use crate::cli::args::workflow::NO_SLOTS;
use crate::cli::commands::fitness::{Fit, look};
use crate::cli::exit::Exit;
use crate::cli::table::counted;
use crate::cli::terminal::{Terminal, print, print_json, printable};
use crate::guest::{Component, WasiCommand};
use crate::process::{Json, Program};
use clap::{Args, ValueHint};
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost inspect guests/built/hello.wasm
  wfhost inspect component.wasm --json | jq '.mismatches'
  wfhost inspect *.wasm
  wfhost inspect order.js

--json prints one object, or a list of them for several files:
  file, fits    whether it can be a step; program: true for a program for the
                command line
  why, hint     if it cannot
  cause         file, line, column, end-line, end-column: where in a script
  mismatches    if its exports or imports do not fit: at, expected and found
                (as in WIT; null: nothing)
  digest, bytes, functions, exports, imports
  entries       its entry points as it describes them, by name: description,
                input, output; null if it describes none
  description   its whole description of itself; description-failure: why it
                has none
  pool          core-instances, memories, tables that each of its guests uses
  snapshots     fits, refused-for: whether the host can evict an instance while
                it waits, without the component's cooperation, and why not;
                saves-itself: whether it has the export `snapshot`, which helps
                if it does not fit

Exit codes: 0 all of them fit, 2 one does not.")]
pub(in crate::cli) struct Arguments {
    /// Component files, or scripts.
    #[arg(required = true, value_name = "COMPONENT", value_hint = ValueHint::FilePath)]
    pub(in crate::cli) components: Vec<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) cache: CacheArguments,
}

pub(in crate::cli) fn inspect(command: &Arguments, terminal: Terminal) -> anyhow::Result<Exit> {
    let host = command.cache.builder(NO_SLOTS).workers(1).build()?;
    let mut exit = Exit::Success;
    let mut reports = Vec::new();
    for path in &command.components {
        let path = &path.display().to_string();
        match look(&host, path, command.json) {
            Ok(fit) => {
                let report = match &fit {
                    Fit::Guest(component) => report(path, component),
                    Fit::Program(program) => report_program(path, program),
                };
                if command.json {
                    reports.push(report);
                } else {
                    print(&printable(&describe(path, &report)))?;
                }
            }
            Err(misfit) => {
                exit = Exit::Usage;
                if command.json {
                    reports.push(misfit.to_json(path));
                } else {
                    misfit.say(path, terminal);
                }
            }
        }
    }
    match &reports[..] {
        _ if !command.json => {}
        [report] => print_json(report)?,
        reports => print_json(&reports)?,
    }
    Ok(exit)
}

fn report(file: &str, component: &Component) -> Value {
    let (survey, permit, verdict) = (component.survey(), component.permit(), component.snapshots());
    let (description, failure) = match component.describe() {
        Ok(description) => (description.as_ref().map_or(Value::Null, Json::to_value), None),
        Err(problem) => (Value::Null, Some(problem.to_string())),
    };
    let refusals: Vec<String> = verdict.refusals.iter().map(ToString::to_string).collect();
    json!({
        "file": file,
        "fits": true,
        "digest": &*component.digest(),
        "bytes": survey.bytes,
        "functions": survey.functions,
        "exports": survey.exports,
        "imports": survey.imports,
        "entries": description.get("entries").cloned(),
        "description": description,
        "description-failure": failure,
        "pool": {
            "core-instances": permit.core_instances,
            "memories": permit.memories,
            "tables": permit.tables,
        },
        "snapshots": {
            "fits": verdict.snapshottable(),
            "refused-for": refusals,
            "saves-itself": component.saves_itself(),
        },
    })
}

fn report_program(file: &str, program: &WasiCommand) -> Value {
    let (survey, permit, description) = (program.survey(), program.permit(), WasiCommand::describe().to_value());
    json!({
        "file": file,
        "fits": true,
        "program": true,
        "digest": &*program.digest(),
        "bytes": survey.bytes,
        "functions": survey.functions,
        "exports": survey.exports,
        "imports": survey.imports,
        "entries": description.get("entries").cloned(),
        "description": description,
        "pool": {
            "core-instances": permit.core_instances,
            "memories": permit.memories,
            "tables": permit.tables,
        },
        "snapshots": { "fits": false, "refused-for": ["a program runs in one step"], "saves-itself": false },
    })
}

fn describe(path: &str, report: &Value) -> String {
    let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_u64).unwrap_or_default();
    let list = |pointer: &str| -> Vec<&str> {
        report
            .pointer(pointer)
            .and_then(Value::as_array)
            .map_or(Vec::new(), |all| all.iter().filter_map(Value::as_str).collect())
    };
    let is_program = report["program"] == true;
    let what = if is_program { "a program for the command line" } else { "fits" };
    let mut out = format!("{path}: {what}, it can be a step\n");
    out.push_str(&format!("  digest     {}\n", report["digest"].as_str().unwrap_or_default()));
    let functions = counted(number("/functions"), "function", "functions");
    out.push_str(&format!("  size       {} bytes, {functions}\n", number("/bytes")));
    for export in list("/exports") {
        out.push_str(&format!("  exports    {export}\n"));
    }
    for import in list("/imports") {
        out.push_str(&format!("  imports    {import}\n"));
    }
    let (cores, memories, tables) = (number("/pool/core-instances"), number("/pool/memories"), number("/pool/tables"));
    out.push_str(&format!(
        "  pool       {}, {}, {} for each live guest\n",
        counted(cores, "core instance", "core instances"),
        counted(memories, "memory", "memories"),
        counted(tables, "table", "tables")
    ));
    if is_program {
        out.push_str("  runs       in one step, with files in memory, and reaches nothing outside: docs/programs.md\n");
        out.push_str(&entries(report));
        return out;
    }
    let refusals = list("/snapshots/refused-for");
    let saves_itself = report["snapshots"]["saves-itself"] == true;
    out.push_str(match (refusals.is_empty(), saves_itself) {
        (true, false) => "  snapshots  yes: it gives up its slot while it waits\n",
        (true, true) => {
            "  snapshots  yes: it gives up its slot while it waits; its own export `snapshot` is not needed for it\n"
        }
        (false, true) => {
            "  snapshots  by its own export `snapshot`: with it, it gives up its slot while it waits; \
            without it, it would not, because it has\n"
        }
        (false, false) => "  snapshots  no: it keeps its slot while it waits, because it has\n",
    });
    for reason in refusals {
        out.push_str(&format!("             {reason}\n"));
    }
    let has_wasi = list("/imports").iter().any(|import| import.starts_with("wasi:"));
    out.push_str(&grants(has_wasi));
    out.push_str(&entries(report));
    out
}

/// The grants that it would need.
fn grants(has_wasi: bool) -> String {
    let wasi = if has_wasi {
        "             What it imports from WASI is deterministic and empty: no files, no sockets, no environment.\n"
    } else {
        ""
    };
    format!(
        "  grants     It runs without any, and then reaches nothing outside.\n{wasi}\
         \u{20}            It calls handlers by name while it runs, so these do not show here; a step that\n\
         \u{20}            uses it must grant them, and a call without its grant fails as `not-granted`. For example:\n\
         \u{20}            allow: {{ http: [ \"GET https://example.com/*\" ], kv: [ \"*\" ] }}    (`log` needs none)\n"
    )
}

/// The entry points as it describes them.
fn entries(report: &Value) -> String {
    let mut out = String::new();
    if let Some(failure) = report["description-failure"].as_str() {
        return format!("  entries    describing them failed: {failure}\n");
    }
    let text = documentation(&report["description"]);
    if !text.is_empty() {
        out.push_str(&format!("  says       {}\n", text.replace('\n', "\n             ")));
    }
    let Some(entries) = report["entries"].as_object() else {
        out.push_str("  entries    not described; a step that names none uses `run`\n");
        return out;
    };
    let width = entries.keys().map(|name| name.chars().count()).max().unwrap_or(0);
    for (index, (name, entry)) in entries.iter().enumerate() {
        let label = if index == 0 { "entries" } else { "" };
        let doc = documentation(entry).replace('\n', " ");
        out.push_str(format!("  {label:<9}  {name:width$}  {doc}").trim_end());
        out.push('\n');
        for side in ["input", "output"] {
            if let Some(schema) = entry.get(side).filter(|schema| !schema.is_null()) {
                out.push_str(&format!("  {:<9}  {:width$}  {side}: {}\n", "", "", shorten(&brief(schema))));
            }
        }
    }
    if !entries.contains_key("run") {
        out.push_str("             A step must name one with `entry`: there is no `run`.\n");
    }
    out
}

/// The text of a description.
fn documentation(described: &Value) -> &str {
    ["description", "doc"].iter().find_map(|key| described[*key].as_str()).unwrap_or_default().trim()
}

/// A schema in a line: the keys of an object with their types, `?` after those that may be absent;
/// else its type, or all of it.
fn brief(schema: &Value) -> String {
    let Some(properties) = schema["properties"].as_object().filter(|all| !all.is_empty()) else {
        return schema["type"].as_str().map_or_else(|| schema.to_string(), str::to_owned);
    };
    let is_required = |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
    let describe = |(name, schema): (&String, &Value)| {
        let mark = if is_required(name) { "" } else { "?" };
        let kind = match (schema["type"].as_str(), schema["items"]["type"].as_str()) {
            (Some("array"), Some(items)) => format!(": list of {items}"),
            (Some("array"), None) => ": list".to_owned(),
            (Some(kind), _) => format!(": {kind}"),
            (None, _) => String::new(),
        };
        format!("{name}{mark}{kind}")
    };
    format!("{{ {} }}", properties.iter().map(describe).collect::<Vec<_>>().join(", "))
}

/// Characters of a schema that are shown; the JSON has all of it.
const SCHEMA_SHOWN_MAX: usize = 160;

fn shorten(text: &str) -> String {
    if text.chars().count() <= SCHEMA_SHOWN_MAX {
        return text.to_owned();
    }
    text.chars().take(SCHEMA_SHOWN_MAX).chain(['…']).collect()
}
