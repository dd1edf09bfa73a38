//! `wfhost lsp`: a language server, which an editor starts and talks to on standard input and
//! output.
//!
//! One thread reads messages, one checks documents ([`check`]), and this one answers and holds the
//! documents. Completion and hover work on the text alone ([`cursor`]), and on the last tree of it
//! that was YAML.

mod about;
mod cases;
mod check;
mod completion;
mod cursor;
mod document;
mod names;
mod server;
mod wire;

use crate::cli::args::host::CacheArguments;
use crate::cli::args::workflow::NO_SLOTS;
use crate::cli::exit::Exit;
use crate::cli::terminal::say;
use clap::Args;
use server::{Event, Server};
use std::io::{self, BufReader};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use wire::Incoming;

/// Messages that are read ahead of their answers. Arbitrary.
const AHEAD_MAX: usize = 64;

#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  vim.lsp.start({ name = 'wfhost', cmd = { 'wfhost', 'lsp' } })   (in Neovim)

It speaks the Language Server Protocol on standard input and output: diagnostics, as `wfhost validate` has them, with \
fixes of misspelled words; completion of keys, steps, inputs, components, handlers, arguments and functions of jq; what \
keys, steps and inputs mean; the places of declarations; an outline; and formatting, as `wfhost fmt` does. Of a file of \
tests, NAME.test.yaml, it knows the keys, and the steps, inputs, outputs and signals of the workflow beside it.

docs/cli.md shows the settings of VS Code, Neovim and Helix.

Exit codes: 0 the editor ended it, 1 the connection ended before.")]
pub(in crate::cli) struct Arguments {
    /// Ignored: many editors give it.
    #[arg(long, hide = true)]
    stdio: bool,
    #[command(flatten)]
    pub(in crate::cli) cache: CacheArguments,
}

pub(in crate::cli) fn lsp(command: &Arguments) -> anyhow::Result<Exit> {
    let host = Arc::new(command.cache.builder(NO_SLOTS).workers(1).build()?);
    let (events, next) = sync_channel(AHEAD_MAX);
    let reader = events.clone();
    std::thread::spawn(move || read_all(&reader));
    let jobs = check::start(Arc::clone(&host), move |checked| {
        let _ = events.send(Event::Checked(checked));
    });
    let mut server = Server::new(host, jobs);
    let mut out = io::stdout().lock();
    for event in next {
        let (messages, exit) = server.handle(event);
        for message in messages {
            if wire::write(&mut out, &message).is_err() {
                return Ok(Exit::Failed);
            }
        }
        if let Some(exit) = exit {
            return Ok(exit);
        }
    }
    Ok(Exit::Failed)
}

/// Reads messages until there are no more.
fn read_all(events: &SyncSender<Event>) {
    let mut from = BufReader::new(io::stdin());
    loop {
        let event = match wire::read(&mut from) {
            Ok(Incoming::Message(message)) => Event::Message(message),
            Ok(Incoming::Unusable(code, why)) => Event::Unusable(code, why),
            Ok(Incoming::Closed) => Event::Closed,
            Err(error) => {
                say(&format!("error: {error}"));
                Event::Closed
            }
        };
        let is_last = matches!(event, Event::Closed);
        if events.send(event).is_err() || is_last {
            return;
        }
    }
}
