//! `wfhost schedule next`.

use crate::cli::args::host::CacheArguments;
use crate::cli::args::workflow::load;
use crate::cli::exit::Exit;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::table::{Table, rfc3339};
use crate::cli::terminal::{Terminal, print, print_json};
use crate::process::Timestamp;
use crate::run::system_time;
use crate::workflow::schedule::upcoming;
use clap::{Args, ValueHint};
use serde_json::json;
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  wfhost schedule next report.yaml --from 2027-03-27T00:00:00Z -n 3")]
pub(in crate::cli) struct Arguments {
    /// The workflow file.
    #[arg(value_hint = ValueHint::FilePath)]
    pub(in crate::cli) file: PathBuf,
    /// How many due times.
    #[arg(short = 'n', long = "count", value_name = "COUNT", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(in crate::cli) count: u32,
    /// After this time of RFC 3339, instead of now.
    #[arg(long, value_name = "TIME", value_parser = super::time)]
    from: Option<super::At>,
    /// Print JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) cache: CacheArguments,
}

pub(in crate::cli) fn next(command: &Arguments, terminal: Terminal) -> Result<Exit, CommandError> {
    let Some(workflow) = load(&command.cache, &command.file, command.json, terminal)? else { return Ok(Exit::Usage) };
    let Some(mut spec) = workflow.plan().schedule.clone() else {
        let title = format!("{} has no schedule", command.file.display());
        let error = UserError::new(kind::USAGE, title);
        return Err(error.hint("schedule: { cron: \"30 9 * * 1-5\", zone: Europe/Berlin }").into());
    };
    let table = spec.check().map_err(|faults| {
        let faults: Vec<String> = faults.into_iter().map(|fault| fault.message).collect();
        UserError::new(kind::USAGE, format!("{}: {}", command.file.display(), faults.join("; ")))
    })?;
    let due = upcoming(
        &table,
        command.from.map_or_else(system_time, |from| Timestamp(from.0.as_microsecond().cast_unsigned())),
        command.count as usize,
    );
    if command.json {
        let due = due.iter().map(|due| json!({ "due": rfc3339(due.at), "local": local(&due.local), "note": due.note }));
        print_json(&json!({ "zone": table.zone(), "next": due.collect::<Vec<_>>() }))?;
        return Ok(Exit::Success);
    }
    if due.is_empty() {
        print("it is never due again\n")?;
        return Ok(Exit::Success);
    }
    let mut rows = Table::new(&[&table.zone().to_uppercase(), "UTC", "CLOCKS"]).open();
    for due in due {
        let utc = due.local.with_time_zone(jiff::tz::TimeZone::UTC);
        let utc = utc.strftime("%Y-%m-%d %H:%M:%S").to_string();
        rows.row(vec![due.local.strftime("%a %Y-%m-%d %H:%M:%S %:z").to_string(), utc, due.note.unwrap_or_default()]);
    }
    print(&rows.without_empty_columns().text())?;
    Ok(Exit::Success)
}

fn local(at: &jiff::Zoned) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}
