//! `wfhost login` and `wfhost logout`.

use crate::cli::args::authority::Authority;
use crate::cli::args::http::{Refused, Server, named, server_url};
use crate::cli::args::logins::{Login, Logins};
use crate::cli::exit::Exit;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::terminal::say;
use clap::{Args, ValueHint};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use std::io::{BufRead as _, IsTerminal as _, Read as _};
use std::path::PathBuf;

/// Bytes of a token. Arbitrary: one has about seventy.
const TOKEN_BYTES_MAX: u64 = 4_096;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost login https://flows.example.com
  wfhost login https://flows.internal --ca company-ca.pem
  wfhost token create --name ann --scope admin |
    wfhost login http://127.0.0.1:7007
  wfhost ls --server https://flows.example.com

The token comes from WFHOST_TOKEN, or else from standard input; on a terminal it is asked for, and not shown. \
The server is asked whether it accepts it. \
It is stored in wfhost/servers.json in $XDG_CONFIG_HOME or ~/.config, which only you can read, and sent to this server \
alone.

`deploy`, `schedule`, `check` and `top` ask the server that was logged in to last. Commands about runs ask a server only \
where --server or WFHOST_SERVER names one.")]
pub(in crate::cli) struct Arguments {
    /// URL of the server: https, or http on this machine.
    url: String,
    /// PEM file of certificates by which the server is trusted too: they are stored with the token
    /// [default: `WFHOST_CA`, else those stored before].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    ca: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost logout
  wfhost logout https://flows.example.com

The token is removed here, and stays valid: `wfhost token revoke ID` on the server revokes it.")]
pub(in crate::cli) struct LogoutArguments {
    /// URL of the server [default: the one that was logged in to last].
    url: Option<String>,
}

pub(in crate::cli) fn login(command: &Arguments) -> Result<Exit, CommandError> {
    let url = server_url(&command.url)?;
    let token = match std::env::var("WFHOST_TOKEN").ok().filter(|token| !token.is_empty()) {
        Some(token) => token,
        None => read_token(&named(&url))?,
    };
    let token = token.trim().to_owned();
    if token.is_empty() {
        return Err(UserError::new(kind::USAGE, "there is no token")
            .hint("on the server, `wfhost token create --name NAME --scope SCOPE` makes one")
            .into());
    }
    let name = named(&url);
    let authority = Authority::of(command.ca.as_deref(), &name)?;
    match Server::with_token(url, &token, authority.as_ref())?.get(&["host"], &[]) {
        Ok(_) => {}
        // It is valid, and may not see this.
        Err(Refused::Problem(problem)) if problem.kind == "not-granted" => {}
        Err(refused) => return Err(refused.into()),
    }
    let mut logins = Logins::read()?;
    logins.servers.insert(name.clone(), Login { token, ca: authority.map(|authority| authority.pem) });
    logins.last = Some(name.clone());
    let path = logins.write()?;
    say(&format!("logged in to {name}; the token is in {}", path.display()));
    Ok(Exit::Success)
}

/// Reads a line of standard input. A terminal does not show it.
fn read_token(server: &str) -> Result<String, UserError> {
    let input = std::io::stdin();
    let unreadable = |error: std::io::Error| UserError::new(kind::UNREADABLE, format!("standard input: {error}"));
    let mut line = String::new();
    let before = input.is_terminal().then(|| tcgetattr(&input).ok()).flatten();
    if let Some(modes) = &before {
        say(&format!("token for {server}:"));
        let mut hidden = modes.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        let _ = tcsetattr(&input, OptionalActions::Flush, &hidden);
    }
    let read = input.lock().take(TOKEN_BYTES_MAX).read_line(&mut line);
    if let Some(modes) = &before {
        let _ = tcsetattr(&input, OptionalActions::Flush, modes);
    }
    read.map_err(unreadable)?;
    Ok(line)
}

pub(in crate::cli) fn logout(command: &LogoutArguments) -> Result<Exit, CommandError> {
    let mut logins = Logins::read()?;
    let name = match &command.url {
        Some(url) => named(&server_url(url)?),
        None => logins.last.clone().ok_or_else(|| UserError::new(kind::USAGE, "there is no login"))?,
    };
    if logins.servers.remove(&name).is_none() {
        let mut error = UserError::new(kind::USAGE, format!("there is no login to {name}"));
        if !logins.servers.is_empty() {
            let known: Vec<&str> = logins.servers.keys().map(String::as_str).collect();
            error = error.hint(format!("there are {}", known.join(", ")));
        }
        return Err(error.into());
    }
    if logins.last.as_ref() == Some(&name) {
        logins.last = logins.servers.keys().next().cloned();
    }
    logins.write()?;
    say(&format!("logged out of {name}; the token stays valid until it is revoked there"));
    Ok(Exit::Success)
}
