//! `wfhost graph`.

use crate::cli::args::{Graph, GraphFormat};
use crate::cli::terminal::{Terminal, print, print_json};
use crate::cli::{Exit, load};
use crate::workflow::plan::GraphStyle;

pub(in crate::cli) fn graph(command: &Graph, terminal: Terminal) -> anyhow::Result<Exit> {
    let Some(workflow) = load(&command.host, &command.file, command.json, terminal)? else { return Ok(Exit::Usage) };
    if command.json {
        print_json(&workflow.plan().graph_view())?;
        return Ok(Exit::Success);
    }
    print(&workflow.plan().graph(match command.format {
        GraphFormat::Text => GraphStyle::Text,
        GraphFormat::Mermaid => GraphStyle::Mermaid,
        GraphFormat::Dot => GraphStyle::Dot,
    }))?;
    Ok(Exit::Success)
}
