//! `wfhost man`: the manual, made of the help of all commands.

use crate::cli::exit::Exit;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::table::counted;
use crate::cli::terminal::{print, say};
use clap::{Args, ValueHint};
use clap_mangen::Man;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost man | man -l -
  wfhost man /usr/local/share/man/man1")]
pub(in crate::cli) struct Arguments {
    /// Folder to write a page for each command to, such as wfhost-run.1; without it the first page
    /// is printed.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(in crate::cli) to: Option<PathBuf>,
}

/// Writes the pages of this definition of the command line.
pub(in crate::cli) fn man(command: &Arguments, mut definition: clap::Command) -> Result<Exit, CommandError> {
    // The pages name commands as they are typed: `wfhost run`.
    definition.build();
    let Some(folder) = &command.to else {
        let mut page = Vec::new();
        Man::new(definition).render(&mut page).map_err(anyhow::Error::from)?;
        print(&String::from_utf8_lossy(&page)).map_err(anyhow::Error::from)?;
        return Ok(Exit::Success);
    };
    let written = std::fs::create_dir_all(folder).and_then(|()| write(&definition, folder));
    let count = written
        .map_err(|error| UserError::new(kind::UNREADABLE, format!("cannot write to {}: {error}", folder.display())))?;
    say(&format!("wrote {} to {}", counted(count, "page", "pages"), folder.display()));
    Ok(Exit::Success)
}

/// Writes the page of a command and those of the commands below it. Returns how many.
fn write(command: &clap::Command, folder: &Path) -> io::Result<u64> {
    let page = Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    std::fs::write(folder.join(page.get_filename()), text)?;
    let below = command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help");
    below.map(|below| write(below, folder)).sum::<io::Result<u64>>().map(|count| count + 1)
}
