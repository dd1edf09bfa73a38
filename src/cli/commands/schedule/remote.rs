//! The schedules of a service.

use super::{At, Named};
use crate::cli::args::server::ServerArguments;
use crate::cli::exit::Exit;
use crate::cli::report::error::CommandError;
use crate::cli::table::Table;
use crate::cli::terminal::{print, print_json, say};
use http::Method;
use serde_json::{Value, json};

type Done = Result<Exit, CommandError>;

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// What makes times due, in a few words.
fn times(spec: &Value) -> String {
    match (&spec["cron"], &spec["every"]) {
        (Value::String(cron), _) => cron.clone(),
        (_, Value::String(every)) => format!("every {every}"),
        _ => String::new(),
    }
}

pub(super) fn ls(server: &ServerArguments, json: bool) -> Done {
    let all = server.ask(Method::GET, &["schedules"], &[], None)?;
    if json {
        print_json(&all)?;
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&["NAME", "WORKFLOW", "TIMES", "ZONE", "NEXT", "STATE"]).open();
    for schedule in all.as_array().into_iter().flatten() {
        let state = if schedule["paused"].is_string() { "paused" } else { "" };
        let (name, workflow, zone) = (&schedule["name"], &schedule["workflow"], &schedule["zone"]);
        let cells = [text(name), text(workflow), times(&schedule["spec"]), text(zone), text(&schedule["next"])];
        table.row(cells.into_iter().chain([state.to_owned()]).collect());
    }
    print(&table.without_empty_columns().text())?;
    Ok(Exit::Success)
}

/// Shows a schedule, with what happened last.
pub(super) fn show(named: &Named) -> Done {
    let server = &named.server;
    let schedule = server.ask(Method::GET, &["schedules", &named.name], &[], None)?;
    let limit = [("limit", "20".to_owned())];
    let history = server.ask(Method::GET, &["schedules", &named.name, "history"], &limit, None)?;
    if named.json {
        print_json(&json!({ "schedule": schedule, "history": history }))?;
        return Ok(Exit::Success);
    }
    let mut shown = String::new();
    let mut line = |what: &str, value: String| {
        if !value.is_empty() {
            shown.push_str(&format!("{what:<10}{value}\n"));
        }
    };
    line("workflow", text(&schedule["workflow"]));
    line("times", times(&schedule["spec"]));
    line("zone", text(&schedule["zone"]));
    line("next", text(&schedule["next"]));
    line("paused", text(&schedule["paused"]));
    line("from", format!("{}, by {}", text(&schedule["origin"]), text(&schedule["author"])));
    let mut table = Table::new(&["DUE", "OUTCOME", "RUN", "REASON"]).open();
    for firing in history.as_array().into_iter().flatten() {
        table.row(["due", "outcome", "run", "reason"].map(|key| text(&firing[key])).into());
    }
    print(&format!("{shown}\n{}", table.without_empty_columns().text()))?;
    Ok(Exit::Success)
}

/// Does something with a schedule, and says what.
pub(super) fn act(named: &Named, act: &str) -> Done {
    let done = named.server.ask(Method::POST, &["schedules", &named.name, act], &[], None)?;
    if named.json {
        print_json(&done)?;
        return Ok(Exit::Success);
    }
    match act {
        "pause" => say(&format!("{} is paused; `wfhost schedule resume {}` resumes it", named.name, named.name)),
        "resume" => say(&format!("{} is due next at {}", named.name, text(&done["next"]))),
        _ => print(&format!("{}\n", text(&done["run"])))?,
    }
    Ok(Exit::Success)
}

pub(super) fn backfill(named: &Named, from: &At, until: &At, dry_run: bool) -> Done {
    let body = json!({ "from": from.0.to_string(), "until": until.0.to_string(), "dry-run": dry_run });
    let items = named.server.ask(Method::POST, &["schedules", &named.name, "backfill"], &[], Some(&body))?;
    if named.json {
        print_json(&items)?;
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&["DUE", "RUN", "STATE"]);
    for item in items.as_array().into_iter().flatten() {
        let state = match (item["missing"] == true, dry_run) {
            (true, true) => "would start",
            (true, false) => "queued",
            (false, _) => "exists",
        };
        table.row(vec![text(&item["due"]), text(&item["run"]), state.to_owned()]);
    }
    print(&table.text())?;
    Ok(Exit::Success)
}
