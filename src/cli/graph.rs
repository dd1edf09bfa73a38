//! `wfhost graph`.

use super::Exit;
use super::arguments::{Graph, GraphFormat};
use super::complain;
use super::terminal::{Terminal, print};
use super::validate::NO_SLOTS;
use crate::workflow::plan::GraphStyle;

pub(super) fn graph(command: &Graph, terminal: Terminal) -> anyhow::Result<Exit> {
    let host = command.host.builder(NO_SLOTS)?.workers(1).build()?;
    let workflow = match host.load(&command.file) {
        Ok(workflow) => workflow,
        Err(error) => {
            complain(&error, terminal);
            return Ok(Exit::Usage);
        }
    };
    print(&workflow.plan().graph(match command.format {
        GraphFormat::Text => GraphStyle::Text,
        GraphFormat::Mermaid => GraphStyle::Mermaid,
        GraphFormat::Dot => GraphStyle::Dot,
    }))?;
    Ok(Exit::Success)
}
