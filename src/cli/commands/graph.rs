//! `wfhost graph`.

use crate::cli::args::host::CacheArguments;
use crate::cli::args::workflow::load;
use crate::cli::exit::Exit;
use crate::cli::terminal::{Terminal, print, print_json, printable};
use crate::workflow::plan::GraphStyle;
use clap::{Args, ValueEnum, ValueHint};
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost graph flow.yaml --format dot | dot -Tsvg > flow.svg
  wfhost graph flow.yaml --json | jq -r '.edges[] | \"\\(.from) \\(.to)\"' | tsort

If the file cannot be used, --json prints status (refused), problem, and problems as `wfhost run --json` does. \
Otherwise it prints one object:
  name
  nodes   id, action (uses, call, wait, set), label, stage (from 1),
          conditional, for-each (true or false)
  edges   from, to (ids), when (an ending, or [failed, unreached])")]
pub(in crate::cli) struct Arguments {
    /// The workflow file.
    #[arg(value_hint = ValueHint::FilePath)]
    pub(in crate::cli) file: PathBuf,
    /// How to draw it.
    #[arg(short, long, value_enum, default_value_t = GraphFormat::Text)]
    pub(in crate::cli) format: GraphFormat,
    /// Print nodes and edges as JSON.
    #[arg(long, conflicts_with = "format")]
    pub(in crate::cli) json: bool,
    #[command(flatten)]
    pub(in crate::cli) cache: CacheArguments,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum GraphFormat {
    /// Lines of text.
    Text,
    /// Mermaid, as Markdown renders it.
    Mermaid,
    /// Graphviz.
    Dot,
}

pub(in crate::cli) fn graph(command: &Arguments, terminal: Terminal) -> anyhow::Result<Exit> {
    let Some(workflow) = load(&command.cache, &command.file, command.json, terminal)? else { return Ok(Exit::Usage) };
    if command.json {
        print_json(&workflow.plan().graph_view())?;
        return Ok(Exit::Success);
    }
    let graph = workflow.plan().graph(match command.format {
        GraphFormat::Text => GraphStyle::Text,
        GraphFormat::Mermaid => GraphStyle::Mermaid,
        GraphFormat::Dot => GraphStyle::Dot,
    });
    print(&printable(&graph))?;
    Ok(Exit::Success)
}
