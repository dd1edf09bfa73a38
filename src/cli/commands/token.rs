//! `wfhost token`.

use crate::cli::args::data::DataArguments;
use crate::cli::exit::Exit;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::report::journal::ANOTHER_FOLDER;
use crate::cli::table::{Table, moment, rfc3339};
use crate::cli::terminal::{print, print_json, say};
use crate::journal::catalog::StoredToken;
use crate::journal::{self, DurabilityListener, StoreError};
use crate::process::Timestamp;
use crate::run::system_time;
use crate::serve::access::{Scope, token};
use crate::workflow::model::parse_duration;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost token create --name ann --scope admin
  wfhost token create --name ci --scope deploy --scope runs:start \\
    --workflow 'billing-*' --expires 90d
  wfhost token ls
  wfhost token revoke 1f2e3d4c5b

A token is printed once; the folder has only its hash. Whoever can write the data folder owns all of it, and needs no \
token to make one.

Scopes:
  runs:read      see runs and workflows, without payloads
  runs:payloads  see inputs, outputs, logs and records too
  runs:start     start runs
  runs:act       signal, cancel, pause, resume and remove runs
  runs:resolve   settle calls of unknown outcome
  deploy         upload, deploy and activate workflows
  schedules      change schedules and webhooks
  metrics        read metrics
  admin          everything")]
pub(in crate::cli) struct Arguments {
    #[command(subcommand)]
    pub(in crate::cli) action: Action,
    #[command(flatten)]
    pub(in crate::cli) data: DataArguments,
}

#[derive(Subcommand, Debug)]
pub(in crate::cli) enum Action {
    /// Make a token and print it.
    Create {
        /// Whose it is.
        #[arg(long, value_name = "NAME", value_parser = name)]
        name: String,
        /// What it may be used for. Repeatable.
        #[arg(long = "scope", value_name = "SCOPE", required = true, value_parser = scope)]
        scopes: Vec<Scope>,
        /// Workflows that it is for: a name, or a pattern with `*`. Repeatable [default: all].
        #[arg(long = "workflow", value_name = "NAME", value_parser = pattern)]
        workflows: Vec<String>,
        /// How long it is valid, such as `90d` [default: for ever].
        #[arg(long, value_name = "DURATION")]
        expires: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the tokens.
    Ls {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Revoke a token: it is no longer valid.
    Revoke {
        /// The id of the token.
        id: String,
    },
}

impl Arguments {
    pub(in crate::cli) fn json(&self) -> bool {
        matches!(self.action, Action::Create { json: true, .. } | Action::Ls { json: true })
    }
}

fn name(text: &str) -> Result<String, &'static str> {
    token::check_name(text).map(|()| text.to_owned())
}

fn pattern(text: &str) -> Result<String, &'static str> {
    token::check_text(text).map(|()| text.to_owned())
}

fn scope(word: &str) -> Result<Scope, String> {
    Scope::named(word).ok_or_else(|| {
        let words: Vec<&str> = Scope::ALL.iter().map(|scope| scope.word()).collect();
        format!("a scope is one of {}", words.join(", "))
    })
}

/// Nothing becomes durable here that anybody waits for.
struct Quiet;

impl DurabilityListener for Quiet {
    fn durable(&self, _: &str, _: u64) {}
    fn failed(&self, _: &StoreError) {}
}

pub(in crate::cli) fn token(command: &Arguments) -> Result<Exit, CommandError> {
    let store = journal::open(&command.data.required()?.into(), Arc::new(Quiet))?;
    match &command.action {
        Action::Create { name, scopes, workflows, expires, json } => {
            let expires = expires.as_deref().map(expiry).transpose()?;
            let made = token::make(name, scopes, workflows.clone(), expires);
            let (text, stored) = made.map_err(|error| {
                UserError::new(kind::HOST_FAULT, format!("the system gives no random bits: {error}"))
            })?;
            store.add_token(&stored)?;
            if *json {
                let mut value = as_json(&stored);
                value["token"] = Value::from(text);
                print_json(&value)?;
            } else {
                print(&format!("{text}\n"))?;
                say("this is the only time that the token is shown");
            }
        }
        Action::Ls { json } => {
            let tokens = store.tokens()?;
            if *json {
                print_json(&tokens.iter().map(as_json).collect::<Vec<_>>())?;
            } else {
                let mut table =
                    Table::new(&["ID", "NAME", "SCOPES", "WORKFLOWS", "CREATED", "EXPIRES", "USED", "STATE"]);
                for token in &tokens {
                    table.row(vec![
                        token.id.clone(),
                        token.name.clone(),
                        token.scopes.join(" "),
                        token.workflows.join(" "),
                        moment(token.created),
                        token.expires.map(moment).unwrap_or_default(),
                        token.used.map(moment).unwrap_or_default(),
                        state(token).to_owned(),
                    ]);
                }
                print(&table.without_empty_columns().text())?;
            }
        }
        Action::Revoke { id } => {
            if !store.revoke_token(id, system_time())? {
                let refused = UserError::new(kind::USAGE, format!("there is no token with the id {id}"));
                return Err(refused.hint(format!("`wfhost token ls` lists them; {ANOTHER_FOLDER}")).into());
            }
            say(&format!("{id} is revoked"));
        }
    }
    Ok(Exit::Success)
}

fn expiry(text: &str) -> Result<Timestamp, UserError> {
    let lasts = parse_duration(text).map_err(|why| UserError::new(kind::USAGE, format!("--expires {text}: {why}")))?;
    Ok(Timestamp(system_time().0.saturating_add(lasts.0).min(i64::MAX.cast_unsigned())))
}

fn state(token: &StoredToken) -> &'static str {
    if token.revoked.is_some() {
        "revoked"
    } else if token.expires.is_some_and(|expires| expires <= system_time()) {
        "expired"
    } else {
        "valid"
    }
}

fn as_json(token: &StoredToken) -> Value {
    json!({
        "id": token.id,
        "name": token.name,
        "scopes": token.scopes,
        "workflows": token.workflows,
        "created": rfc3339(token.created),
        "expires": token.expires.map(rfc3339),
        "used": token.used.map(rfc3339),
        "state": state(token),
    })
}
