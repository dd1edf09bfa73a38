//! The server that a command asks.

use super::http::{Ask, Body, Server, ServerAddress, server_url};
use super::logins::Logins;
use crate::cli::report::error::UserError;
use clap::{Args, ValueHint};
use http::Method;
use serde_json::Value;
use std::path::PathBuf;
use url::Url;

/// Where a server listens unless it is told otherwise.
const SERVER: &str = "http://127.0.0.1:7007";

/// The variable that names a server.
pub(in crate::cli) const VARIABLE: &str = "WFHOST_SERVER";

/// For a command that needs a server.
#[derive(Args, Debug)]
pub(in crate::cli) struct ServerArguments {
    /// URL of the server [default: `WFHOST_SERVER`, else that of the last `wfhost login`, else
    /// http://127.0.0.1:7007]. The token is in `WFHOST_TOKEN`, or that of the login.
    #[arg(long, value_name = "URL")]
    pub(in crate::cli) server: Option<String>,
    /// PEM file of certificates by which the server is trusted too [default: `WFHOST_CA`, else
    /// those of the login].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(in crate::cli) ca: Option<PathBuf>,
}

/// The server that the environment names.
pub(in crate::cli) fn of_environment() -> Option<String> {
    std::env::var(VARIABLE).ok().filter(|url| !url.is_empty())
}

impl ServerArguments {
    /// The URL of the server.
    pub(in crate::cli) fn url(&self) -> Result<Url, UserError> {
        let last = || Ok::<_, UserError>(Logins::read()?.last.unwrap_or_else(|| SERVER.to_owned()));
        server_url(&self.server.clone().or_else(of_environment).map_or_else(last, Ok)?)
    }

    /// The server.
    pub(in crate::cli) fn open(&self) -> Result<Server, UserError> {
        Server::at(&ServerAddress { url: self.url()?.into(), ca: self.ca.clone() })
    }

    /// Asks the server: the path begins behind `/v1/`. Returns the answer's JSON.
    pub(in crate::cli) fn ask(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, String)],
        body: Option<&Value>,
    ) -> Result<Value, UserError> {
        let body = body.map_or(Body::None, Body::Json);
        Ok(self.open()?.ask(Ask { method, path, query, body, key: None }).map_err(UserError::from)?.1)
    }
}
