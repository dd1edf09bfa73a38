//! `wfhost inspect`.

use super::Exit;
use super::arguments::Inspect;
use super::terminal::{Terminal, print, printable};
use super::validate::NO_SLOTS;
use crate::guest::Component;
use crate::process::Program;

pub(super) fn inspect(command: &Inspect, terminal: Terminal) -> anyhow::Result<Exit> {
    let host = command.host.builder(NO_SLOTS)?.workers(1).build()?;
    let bytes = std::fs::read(&command.component)
        .map_err(|error| anyhow::anyhow!("{}: {error}", command.component.display()))?;
    match Component::load(host.guests(), &bytes) {
        Ok(component) => {
            print(&printable(&format!("{}\n{:#?}\n{:?}", component.digest(), component.survey(), component.permit())))?;
            Ok(Exit::Success)
        }
        Err(error) => {
            terminal.error(&error.to_string(), None);
            Ok(Exit::Usage)
        }
    }
}
