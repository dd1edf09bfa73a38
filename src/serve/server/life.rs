//! The life of a server: lock the folder, listen, deploy, resume runs, serve, drain, let runs go.

use super::END_TIME_MAX;
use super::files::workflow_files;
use super::notify::{State, notify};
use super::reload::Reload;
use super::tls::{Certificate, TlsError, TlsFiles};
use crate::host::{LoadError, RecoverError, Resumed, TakeOver};
use crate::journal::StoreError;
use crate::journal::catalog::Activated;
use crate::run::system_time;
use crate::serve::access::token::SERVICE;
use crate::serve::hook::spec::WebhookSpec;
#[cfg(feature = "otlp")]
use crate::serve::otlp::{OtlpError, OtlpOptions};
use crate::serve::service::Service;
use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The file that the one service of a folder has locked.
const LOCK: &str = "serve.lock";

/// How long calls in flight may take to be answered when the server ends. Unanswered ones are
/// repeated under their keys.
const CALL_TIME_MAX: Duration = Duration::from_secs(30);

/// How long a stop may take beyond the bounds of its parts.
const MORE_TIME: Duration = Duration::from_secs(10);

/// Time that a start asks the service manager for, again and again while it lasts.
const START_TIME: Duration = Duration::from_mins(1);
/// How long spans that wait may take to be sent when the server ends. The next server sends the
/// rest again.
#[cfg(feature = "otlp")]
const TRACE_TIME_MAX: Duration = Duration::from_secs(2);

/// What the kernel keeps for a client that takes nothing; it would take megabytes for each.
const SEND_BUFFER_BYTES: u32 = 256 << 10;

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1_024;

/// Who deploys the files of the server's folder.
const AUTHOR: &str = SERVICE;

/// Where and how a server listens.
#[derive(Clone, Default, Debug)]
pub struct ServerOptions {
    /// Its addresses.
    pub listen: Vec<SocketAddr>,
    /// Its certificate; without one it speaks plain HTTP.
    pub tls: Option<TlsFiles>,
    /// A proxy in front of it has the certificate.
    pub behind_proxy: bool,
    /// The folder of workflow files that it deploys.
    pub workflows: Option<PathBuf>,
    /// The webhooks of its configuration, by their names.
    pub webhooks: BTreeMap<String, WebhookSpec>,
    /// Where it sends the traces of its runs.
    #[cfg(feature = "otlp")]
    pub traces: Option<OtlpOptions>,
}

/// What a server tells whoever has started it.
#[non_exhaustive]
pub enum ServerNotice<'a> {
    /// It listens on this URL.
    Listens(&'a str),
    /// No token is valid: nobody can use it yet.
    NoToken,
    /// A workflow of its folder is deployed.
    Deployed {
        /// The file.
        file: &'a Path,
        /// The name of the workflow.
        name: &'a str,
        /// The number of the version.
        version: u64,
        /// Whether it was not deployed before.
        is_new: bool,
    },
    /// A workflow of its folder is deployed, and somebody has activated another version of it
    /// since.
    Inactive {
        /// The file.
        file: &'a Path,
        /// The name of the workflow.
        name: &'a str,
        /// The number of the file's version.
        version: u64,
        /// The version that is active, and the name of the token that activated it.
        active: (u64, &'a str),
    },
    /// A workflow of its folder has no fault: it was only checked.
    Checked {
        /// The file.
        file: &'a Path,
        /// The name of the workflow.
        name: &'a str,
    },
    /// A workflow file of its folder cannot be used; the others are.
    Faulty {
        /// The file.
        file: &'a Path,
        /// What is wrong with it.
        error: LoadError,
    },
    /// A webhook of its configuration cannot be used; what was stored under its name stays.
    FaultyWebhook {
        /// Its name.
        name: &'a str,
        /// What is wrong with it.
        why: &'a str,
    },
    /// A run that nobody had cannot be resumed.
    NotResumed {
        /// The id of the run.
        run: &'a str,
        /// The cause.
        error: RecoverError,
    },
    /// It has resumed these many runs, and takes requests of all kinds.
    Ready {
        /// How many runs.
        runs: u64,
        /// How many more wait in the journal, and are resumed when they are due or signalled.
        parked: u64,
        /// How long that took.
        took: Duration,
    },
    /// It was asked to read its certificate and its workflows again.
    Reloading,
    /// Something of it cannot be read, and stays as it was.
    NotReloaded {
        /// What is wrong with it.
        why: &'a str,
    },
    /// It was asked to end.
    Draining,
}

/// Why a server cannot start or go on.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Another service has the folder.
    #[error("another service runs on {}", .0.display())]
    Locked(PathBuf),
    /// The file of the lock cannot be used.
    #[error("{}: {error}", path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// Everybody could reach it, and there is no token.
    #[error("{0} can be reached from other machines, and there is no token")]
    Open(IpAddr),
    /// Tokens would cross the network as plain text.
    #[error("{0} can be reached from other machines, and there is no certificate")]
    Plain(IpAddr),
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] StoreError),
    /// The folder of workflows cannot be read.
    #[error("the folder of workflows {} cannot be read: {error}", path.display())]
    Workflows {
        /// The folder.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// Traces cannot be sent.
    #[cfg(feature = "otlp")]
    #[error("traces cannot be sent: {0}")]
    Otlp(#[from] OtlpError),
    /// The operating system gives no signals.
    #[error("signals cannot be waited for: {0}")]
    Signals(io::Error),
}

crate::base::report_debug::report_debug!(ServerError);

/// Runs a server until it is asked to end (SIGTERM, SIGINT, or the API), and lets its runs go. A
/// second signal ends the process at once.
///
/// # Errors
/// Says why it cannot start, or go on.
pub async fn run(
    service: Arc<Service>,
    options: ServerOptions,
    tell: Arc<dyn Fn(ServerNotice<'_>) + Send + Sync>,
) -> Result<(), ServerError> {
    let _lock = lock(&service)?;
    check_open(&service, &options, &tell)?;
    let terminate = signal(SignalKind::terminate()).map_err(ServerError::Signals)?;
    let interrupt = signal(SignalKind::interrupt()).map_err(ServerError::Signals)?;
    let hangup = signal(SignalKind::hangup()).map_err(ServerError::Signals)?;
    let certificate = options.tls.clone().map(Certificate::read).transpose()?.map(Arc::new);
    #[cfg(feature = "otlp")]
    if let Some(options) = &options.traces {
        service.export_traces(options)?;
    }
    service.set_deploying(options.workflows.is_some());
    let listeners = listen(&options, &tell)?;
    let serving = tokio::spawn(super::serve(Arc::clone(&service), listeners, certificate.clone()));
    let begins = tokio::task::spawn_blocking({
        let (service, tell, options) = (Arc::clone(&service), Arc::clone(&tell), options.clone());
        move || begin(&service, &options, &tell)
    });
    tokio::spawn(end_when_asked(Arc::clone(&service), Arc::clone(&tell), terminate, interrupt));
    let begun = match begins.await {
        Ok(begun) => begun,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    };
    let firing = match &begun {
        Ok(_) => {
            if let Err(error) = service.resume_jobs() {
                tracing::error!(%error, "jobs that have not ended cannot be read: the next start continues them");
            }
            let (workflows, tell) = (options.workflows, tell);
            tokio::spawn(Reload { service: Arc::clone(&service), certificate, workflows, tell }.at_each(hangup));
            Some(tokio::spawn(crate::serve::schedule::run(Arc::clone(&service))))
        }
        Err(_) => {
            service.drain();
            None
        }
    };
    if let Err(error) = serving.await {
        std::panic::resume_unwind(error.into_panic());
    }
    if let Some(firing) = firing {
        // A run that it starts now is begun before the host lets its runs go.
        let _ = firing.await;
    }
    service.jobs_ended().await;
    let (watch, begun) = match begun {
        Ok(watch) => (watch, Ok(())),
        Err(error) => (None, Err(error)),
    };
    let suspended = service.host().blocking(|host| {
        drop(watch);
        let suspended = host.suspend(CALL_TIME_MAX);
        host.settle_folder();
        suspended
    });
    let suspended = suspended.await;
    #[cfg(feature = "otlp")]
    if let Some(exporter) = service.exporter.get() {
        exporter.flush(TRACE_TIME_MAX).await;
    }
    begun?;
    suspended?;
    Ok(())
}

/// Drains the service when a signal or a request asks for it. A second signal does not wait.
async fn end_when_asked(
    service: Arc<Service>,
    tell: Arc<dyn Fn(ServerNotice<'_>) + Send + Sync>,
    mut terminate: Signal,
    mut interrupt: Signal,
) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = service.drained() => {}
    }
    tell(ServerNotice::Draining);
    notify(State::Stopping(CALL_TIME_MAX + END_TIME_MAX + MORE_TIME));
    service.drain();
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    std::process::exit(1);
}

/// Locks the folder: it has one service.
fn lock(service: &Service) -> Result<File, ServerError> {
    let folder = service.host().data_folder().unwrap_or(Path::new(".")).to_owned();
    let path = folder.join(LOCK);
    let file = File::options().create(true).append(true).open(&path);
    let file = file.map_err(|error| ServerError::Lock { path: path.clone(), error })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(ServerError::Locked(folder)),
        Err(TryLockError::Error(error)) => Err(ServerError::Lock { path, error }),
    }
}

/// Refuses to listen beyond loopback without a token, or where tokens would be plain text.
fn check_open(
    service: &Service,
    options: &ServerOptions,
    tell: &Arc<dyn Fn(ServerNotice<'_>) + Send + Sync>,
) -> Result<(), ServerError> {
    let now = system_time();
    let is_valid = |token: &crate::journal::catalog::StoredToken| {
        token.revoked.is_none() && token.expires.is_none_or(|expires| expires > now)
    };
    let has_token = service.store().tokens()?.iter().any(is_valid);
    if let Some(open) = options.listen.iter().map(SocketAddr::ip).find(|address| !address.is_loopback()) {
        if !has_token {
            return Err(ServerError::Open(open));
        }
        if options.tls.is_none() && !options.behind_proxy {
            return Err(ServerError::Plain(open));
        }
    }
    if !has_token {
        tell(ServerNotice::NoToken);
    }
    Ok(())
}

fn listen(
    options: &ServerOptions,
    tell: &Arc<dyn Fn(ServerNotice<'_>) + Send + Sync>,
) -> Result<Vec<TcpListener>, ServerError> {
    let mut listeners = Vec::new();
    for &address in &options.listen {
        let fails = |error| ServerError::Listen { address, error };
        let listener = bind(address).map_err(fails)?;
        let bound = listener.local_addr().map_err(fails)?;
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        tell(ServerNotice::Listens(&format!("{scheme}://{bound}")));
        listeners.push(listener);
    }
    Ok(listeners)
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    // Its connections inherit it.
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Deploys the files of the folder, and resumes the runs that nobody has, now and when their hosts
/// end, as long as the watch that it returns exists.
fn begin(
    service: &Service,
    options: &ServerOptions,
    tell: &Arc<dyn Fn(ServerNotice<'_>) + Send + Sync>,
) -> Result<Option<TakeOver>, ServerError> {
    if let Some(folder) = &options.workflows {
        deploy_folder(service, folder, tell)?;
        service.set_deploying(false);
    }
    let faulty = service.set_webhooks(options.webhooks.clone())?;
    for (name, why) in faulty.into_iter().chain(service.unreadable_webhooks()?) {
        tell(ServerNotice::FaultyWebhook { name: &name, why: &why });
        service.note_file(&format!("webhook {name}"), Some(why));
    }
    let begins = Instant::now();
    let (runs, ready) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let taken = take_over(service, tell, (Arc::clone(&runs), Arc::clone(&ready)));
    let taken = match taken {
        Ok(taken) => Some(taken),
        Err(RecoverError::Journal(error)) => return Err(error.into()),
        Err(error) => {
            tell(ServerNotice::NotResumed { run: "", error });
            None
        }
    };
    ready.store(true, Relaxed);
    service.set_ready();
    notify(State::Ready);
    let took = begins.elapsed();
    tell(ServerNotice::Ready { runs: runs.load(Relaxed), parked: service.inherited(), took });
    Ok(taken)
}

/// Takes over the runs that nobody has, now and when their hosts end, and counts those that are
/// resumed before the service is ready.
fn take_over(
    service: &Service,
    tell: &Arc<dyn Fn(ServerNotice<'_>) + Send + Sync>,
    (runs, ready): (Arc<AtomicU64>, Arc<AtomicBool>),
) -> Result<TakeOver, RecoverError> {
    let told = Arc::clone(tell);
    let mut asked = Instant::now();
    service.host().take_over(move |resumed| {
        let is_ready = ready.load(Relaxed);
        if !is_ready && asked.elapsed() > START_TIME / 4 {
            asked = Instant::now();
            notify(State::Starting(START_TIME));
        }
        match resumed {
            Ok((_, Resumed::Run(_))) if !is_ready => _ = runs.fetch_add(1, Relaxed),
            Ok((run, Resumed::Run(_))) => tracing::info!(run, "nobody had it: resumed here"),
            Ok((run, Resumed::Failed(error))) => told(ServerNotice::NotResumed { run, error }),
            Ok((_, Resumed::Elsewhere)) => {}
            Err(error) => told(ServerNotice::NotResumed { run: "", error }),
        }
    })
}

/// Checks what a server would start with, and that it may: its addresses, its certificate, each
/// workflow file of its folder and each webhook of its configuration. Nothing is deployed, no
/// address is listened on, and no run is resumed; another service may run on the folder. Returns
/// whether nothing is wrong with what was told.
///
/// # Errors
/// Says why it would not start.
pub fn check(
    service: &Service,
    options: &ServerOptions,
    tell: &Arc<dyn Fn(ServerNotice<'_>) + Send + Sync>,
) -> Result<bool, ServerError> {
    check_open(service, options, tell)?;
    options.tls.clone().map(Certificate::read).transpose()?;
    let mut is_sound = true;
    for file in options.workflows.as_deref().map_or_else(|| Ok(Vec::new()), workflow_files)? {
        let host = service.host();
        match host.load(&file).and_then(|workflow| host.check_secrets(&workflow).map(|()| workflow)) {
            Ok(workflow) => tell(ServerNotice::Checked { file: &file, name: &workflow.plan().name }),
            Err(error) => {
                is_sound = false;
                tell(ServerNotice::Faulty { file: &file, error });
            }
        }
    }
    let faulty = service.faulty_webhooks(options.webhooks.clone());
    for (name, why) in faulty.into_iter().chain(service.unreadable_webhooks()?) {
        is_sound = false;
        tell(ServerNotice::FaultyWebhook { name: &name, why: &why });
    }
    Ok(is_sound)
}

/// Deploys and activates each workflow file of a folder. A faulty one stops itself alone.
///
/// # Errors
/// The folder cannot be read, or the journal not be written.
pub fn deploy_folder(
    service: &Service,
    folder: &Path,
    tell: &Arc<dyn Fn(ServerNotice<'_>) + Send + Sync>,
) -> Result<(), ServerError> {
    for file in workflow_files(folder)? {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let deployed = service.host().load(&file).and_then(|workflow| service.deploy(workflow, AUTHOR, None));
        let (deployed, is_new) = match deployed {
            Ok(deployed) => deployed,
            Err(error) => {
                service.note_file(&name, Some(error.to_string()));
                tell(ServerNotice::Faulty { file: &file, error });
                continue;
            }
        };
        let version = &deployed.version;
        service.note_file(&name, None);
        // What somebody has chosen stays, such as a version to roll back to, until the file
        // changes.
        let active = service.active(&version.name)?.filter(|active| active.author != AUTHOR && !is_new);
        if let Some(active) = active.filter(|active| active.number != version.number) {
            let active = (active.number, &*active.author);
            tell(ServerNotice::Inactive { file: &file, name: &version.name, version: version.number, active });
            continue;
        }
        let activated = service.activate(&version.name, version.number, AUTHOR, None)?;
        debug_assert_eq!(activated, Activated::Done);
        tell(ServerNotice::Deployed { file: &file, name: &version.name, version: version.number, is_new });
    }
    Ok(())
}
