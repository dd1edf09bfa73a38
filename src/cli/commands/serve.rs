//! `wfhost serve`.

use crate::base::processors;
use crate::cli::args::data::DataArguments;
use crate::cli::args::host::HostArguments;
use crate::cli::exit::Exit;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::report::host_log;
use crate::cli::report::journal::recovery_error;
use crate::cli::report::warnings::Warnings;
use crate::cli::terminal::{Terminal, say};
use crate::dispatch::http::HttpConfig;
use crate::host::RecoverError;
use crate::serve::access::guard::Addresses;
use crate::serve::hook::spec::WebhookSpec;
#[cfg(feature = "otlp")]
use crate::serve::otlp::OtlpOptions;
use crate::serve::server::{ServerError, ServerNotice, ServerOptions, TlsFiles, check, run};
use crate::serve::{OnDeploy, Service, ServiceOptions};
use clap::{Args, ValueEnum, ValueHint};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

/// Where the service listens unless it is told otherwise.
const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7007);

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost token create --name ann --scope admin
  wfhost serve --workflows workflows
  curl -H \"Authorization: Bearer $TOKEN\" localhost:7007/v1/runs
  wfhost serve --listen 0.0.0.0:7007 --tls-cert cert.pem --tls-key key.pem
  wfhost --config service.yaml serve --workflows workflows --check

The service recovers every run of the data folder that no other process has, and runs what is started through its API \
(GET /v1/openapi.json describes it). Each workflow file of --workflows is deployed when it starts. It ends on SIGTERM: \
requests are answered, runs are let go, and the next service continues them. Beyond loopback it needs a token, and a \
certificate or a proxy that has one.")]
pub(in crate::cli) struct Arguments {
    /// Address and port to listen on. Repeatable [default: 127.0.0.1:7007].
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(in crate::cli) listen: Vec<SocketAddr>,
    /// Folder of workflow files to deploy: each `.yaml` or `.yml` in it.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(in crate::cli) workflows: Option<PathBuf>,
    /// The URL by which others reach the service, such as `https://flows.example.com` [default: the
    /// first address that it listens on].
    #[arg(long, value_name = "URL")]
    pub(in crate::cli) public_url: Option<String>,
    /// Origin of a page that may ask from elsewhere. Repeatable.
    #[arg(long = "allow-origin", value_name = "ORIGIN")]
    pub(in crate::cli) origins: Vec<String>,
    /// Certificate of the service, with those that sign it: a PEM file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_key")]
    pub(in crate::cli) tls_cert: Option<PathBuf>,
    /// Key of the certificate: a PEM file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "tls_cert")]
    pub(in crate::cli) tls_key: Option<PathBuf>,
    /// A proxy in front of the service has the certificate.
    #[arg(long)]
    pub(in crate::cli) behind_proxy: bool,
    /// Folder of the secrets that webhooks of the API may name: a file for each.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(in crate::cli) secrets: Option<PathBuf>,
    /// What follows when a version is activated by the API: `check` replays the newest 100 runs of
    /// the workflow on it, as a job.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = Activation::None)]
    pub(in crate::cli) on_deploy: Activation,
    /// Check the configuration, the certificate and the workflows, and serve nothing.
    #[arg(long)]
    pub(in crate::cli) check: bool,
    /// The webhooks of the configuration file.
    #[arg(skip)]
    pub(in crate::cli) webhooks: BTreeMap<String, WebhookSpec>,
    /// Collector of traces, such as `http://localhost:4318` [default: OTEL_EXPORTER_OTLP_ENDPOINT].
    #[cfg(feature = "otlp")]
    #[arg(long, value_name = "URL")]
    pub(in crate::cli) otlp: Option<String>,
    #[command(flatten)]
    pub(in crate::cli) data: DataArguments,
    #[command(flatten)]
    pub(in crate::cli) host: HostArguments,
}

/// An address with its port.
fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "write an IP address and a port, such as 127.0.0.1:7007 or [::1]:7007".to_owned())
}

/// What follows when a version is activated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(in crate::cli) enum Activation {
    None,
    Check,
}

pub(in crate::cli) fn serve(command: &Arguments, terminal: Terminal) -> Result<Exit, CommandError> {
    host_log::begin();
    let fault = |error: std::io::Error| UserError::new(kind::HOST_FAULT, format!("no threads can be started: {error}"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(fault)?;
    // A workflow that comes by the API reaches with its registries what its steps may reach.
    let mut registries = HttpConfig::default();
    registries.permissions.clone_from(&command.host.allow_addresses);
    let builder = command
        .host
        .host(processors())
        .registries(registries)
        .data(command.data.required()?)
        .runtime(runtime.handle().clone());
    let host = builder.build().map_err(UserError::from)?;
    let mut warnings = Warnings::new();
    command.host.check(&host, &mut warnings);
    command.host.check_cache(&host, &mut warnings);
    HostArguments::check_data(&host, &mut warnings);
    let unbound: Vec<&str> = command.host.unbound_secrets().collect();
    if !unbound.is_empty() {
        let title = format!("whoever may deploy a workflow can send {} to any host", unbound.join(", "));
        let hint = "`hosts` of a secret in the configuration file says who may receive it";
        warnings.push((title, hint.to_owned()));
    }
    for (title, hint) in warnings {
        say(&terminal.warning_text(&title, Some(&hint)));
    }
    let addresses = Addresses { public_url: public_url(command), origins: command.origins.clone() };
    let on_deploy = match command.on_deploy {
        Activation::None => OnDeploy::None,
        Activation::Check => OnDeploy::Check,
    };
    let asked = ServiceOptions { addresses, secrets: command.secrets.clone(), on_deploy };
    let service = Service::new(host.clone(), asked).map_err(|error| match error {
        RecoverError::Journal(error) => UserError::from(error),
        error => recovery_error("", error),
    })?;
    let files = command.tls_cert.clone().zip(command.tls_key.clone());
    let options = ServerOptions {
        listen: listened(command),
        tls: files.map(|(certificate, key)| TlsFiles { certificate, key }),
        behind_proxy: command.behind_proxy,
        workflows: command.workflows.clone(),
        webhooks: command.webhooks.clone(),
        #[cfg(feature = "otlp")]
        traces: traces(command),
    };
    let tell = Arc::new(move |notice: ServerNotice<'_>| show(terminal, notice));
    if command.check {
        let is_sound = check(&service, &options, &(tell as _)).map_err(refused)?;
        runtime.shutdown_background();
        if is_sound {
            say("it would start");
        }
        return Ok(if is_sound { Exit::Success } else { Exit::Failed });
    }
    let swept = host.clone();
    // What processes have left that were killed as they stored a blob.
    runtime.spawn_blocking(move || {
        if let Err(error) = swept.sweep_blobs() {
            tracing::warn!(%error, "the folder of blobs cannot be swept");
        }
    });
    let served = runtime.block_on(run(service, options, tell));
    // The process ends.
    std::mem::forget(host);
    runtime.shutdown_background();
    served.map_err(refused)?;
    Ok(Exit::Success)
}

/// The addresses to listen on.
fn listened(command: &Arguments) -> Vec<SocketAddr> {
    if command.listen.is_empty() { vec![ADDRESS] } else { command.listen.clone() }
}

/// By which others reach the service: what was said, else an address that it listens on, if that
/// can be the address of a link.
fn public_url(command: &Arguments) -> Option<String> {
    let scheme = if command.tls_cert.is_some() { "https" } else { "http" };
    let is_address = |address: &&SocketAddr| !address.ip().is_unspecified() && address.port() != 0;
    let listened = || listened(command).iter().find(is_address).map(|address| format!("{scheme}://{address}"));
    command.public_url.clone().or_else(listened)
}

/// Where traces go, by the flag or the variables of OpenTelemetry. Keys are in a variable alone:
/// everybody on the machine can read flags.
#[cfg(feature = "otlp")]
fn traces(command: &Arguments) -> Option<OtlpOptions> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let endpoint = command.otlp.clone().or_else(|| variable("OTEL_EXPORTER_OTLP_ENDPOINT"))?;
    let headers = variable("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default();
    let pairs = headers.split(',').filter_map(|pair| pair.split_once('='));
    Some(OtlpOptions {
        endpoint,
        headers: pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect(),
        service: variable("OTEL_SERVICE_NAME").unwrap_or_else(|| "wfhost".to_owned()),
    })
}

/// Prints what the server tells.
fn show(terminal: Terminal, notice: ServerNotice<'_>) {
    match notice {
        ServerNotice::Listens(url) => say(&format!("listening on {url}")),
        ServerNotice::NoToken => {
            terminal.hint("there is no token yet: wfhost token create --name NAME --scope admin");
        }
        ServerNotice::Deployed { file, name, version, is_new } => {
            let word = if is_new { "deployed" } else { "serves" };
            say(&format!("{word} {name} version {version} ({})", file.display()));
        }
        ServerNotice::Inactive { file, name, version, active: (active, author) } => {
            say(&format!("keeps {name} version {active}, which {author} activated ({})", file.display()));
            terminal.hint(&format!("the file is version {version}: `wfhost deploy` activates it"));
        }
        ServerNotice::Checked { file, name } => say(&format!("{name} can be deployed ({})", file.display())),
        ServerNotice::Faulty { file, error } => {
            let error = UserError::from(error);
            say(&terminal.warning_text(&format!("{} cannot be deployed", file.display()), None));
            let _ = CommandError::from(error).report(false, terminal);
        }
        ServerNotice::FaultyWebhook { name, why } => {
            say(&terminal.warning_text(&format!("the webhook {name} is not used: {why}"), None));
        }
        ServerNotice::NotResumed { run, error } => {
            let error = recovery_error(run, error);
            say(&terminal.warning_text(&format!("{run} is not resumed: {}", error.title), error.hint.as_deref()));
        }
        ServerNotice::Ready { runs, parked, took } => {
            let runs = if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") };
            let rest = match parked {
                0 => String::new(),
                1 => "; 1 that waits is resumed when it is due".to_owned(),
                parked => format!("; {parked} that wait are resumed when they are due"),
            };
            say(&format!("ready: {runs} resumed in {:.1} s{rest}", took.as_secs_f64()));
        }
        ServerNotice::Reloading => say("SIGHUP: the certificate and the workflows are read again"),
        ServerNotice::NotReloaded { why } => {
            say(&terminal.warning_text(&format!("what was read before stays: {why}"), None));
        }
        ServerNotice::Draining => say("stopping: runs are let go, and continue in the next service"),
    }
}

/// The error of a server, with what helps.
fn refused(error: ServerError) -> UserError {
    let title = error.to_string();
    match error {
        ServerError::Locked(_) => UserError::new(kind::CONFLICT, title)
            .hint("a folder has one service; `wfhost ps` shows the processes that use it"),
        ServerError::Listen { .. } => {
            UserError::new(kind::HOST_FAULT, title).hint("--listen 127.0.0.1:0 takes any free port")
        }
        ServerError::Open(_) => {
            UserError::new(kind::USAGE, title).hint("make one first: wfhost token create --name NAME --scope admin")
        }
        ServerError::Plain(_) => UserError::new(kind::USAGE, title)
            .hint("--tls-cert and --tls-key name one; --behind-proxy says that a proxy has it"),
        ServerError::Tls(_) => UserError::new(kind::USAGE, title)
            .hint("--tls-cert and --tls-key name PEM files: a certificate, and the private key of it"),
        ServerError::Journal(error) => UserError::from(error),
        ServerError::Workflows { .. } => {
            UserError::new(kind::UNREADABLE, title).hint("--workflows names a folder of `.yaml` files")
        }
        _ => UserError::new(kind::HOST_FAULT, title),
    }
}
