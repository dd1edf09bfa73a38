//! The host's end: listening, reading requests, writing answers.

use super::carry_out::{Carried, OUTCOME_AFTER_MAX, Watched, carry_out};
use super::protocol::{Answer, AnswerLine, REQUEST_BYTES_MAX, Refusal, RequestLine};
use super::socket_folder::{self, ENDING};
use crate::host::Outcome;
use crate::run::Kernel;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, TryAcquireError};
use tokio::time::timeout;

/// Connections at one time. Arbitrary: more than a person has terminals.
pub(super) const CONNECTIONS_MAX: usize = 64;

/// Watchers among them, so that short requests find room.
pub(super) const WATCHERS_MAX: usize = 32;

/// How long a request may take to arrive. Arbitrary: it is written at once.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);

/// How long an answer may wait for a reader that takes nothing. Arbitrary.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// How long a watcher may take nothing: a person who has stopped the terminal's output may come
/// back.
const WATCHER_TIME_MAX: Duration = Duration::from_mins(10);

/// How often draining checks whether all requests are answered.
const DRAIN_INTERVAL: Duration = Duration::from_millis(1);

/// How long to wait if no connection can be accepted: no descriptors are left, for instance.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// The socket of a host. Dropping it removes it.
pub(in crate::host) struct Control {
    path: PathBuf,
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    kernel: Weak<Kernel>,
    /// The user whose processes it answers.
    pub(super) user: u32,
    connections: Arc<Semaphore>,
    watchers: Arc<Semaphore>,
    /// Requests that are not answered yet. Written by the thread that answers, read by the thread
    /// that ends the host; it orders nothing else.
    answering: AtomicUsize,
    /// Written by the thread that ends the host, read by the serving thread after each connection;
    /// it orders nothing else.
    closing: AtomicBool,
}

impl Control {
    /// Listens for requests on a socket for this data folder, which must exist.
    ///
    /// # Errors
    /// Fails if there is no folder for a socket, or it cannot be made.
    pub(in crate::host) fn listen(data: &Path, kernel: Weak<Kernel>) -> io::Result<Self> {
        Self::listen_for(data, kernel, socket_folder::user()?)
    }

    pub(super) fn listen_for(data: &Path, kernel: Weak<Kernel>, user: u32) -> io::Result<Self> {
        let folder = socket_folder::folder(data)?;
        socket_folder::make(&folder)?;
        let (listener, path) = bind(&folder)?;
        let shared = Arc::new(Shared {
            kernel,
            user,
            connections: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            watchers: Arc::new(Semaphore::new(WATCHERS_MAX)),
            answering: AtomicUsize::new(0),
            closing: AtomicBool::new(false),
        });
        let control = Self { path, shared: Arc::clone(&shared) };
        // If the thread cannot be started, dropping `control` removes the socket.
        std::thread::Builder::new().name("wfhost-control".to_owned()).spawn(move || shared.wait(&listener))?;
        Ok(control)
    }

    /// The path of the socket.
    pub(in crate::host) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits, at most this long, until all requests have their answers, and watchers of ended runs
    /// their last one.
    pub(in crate::host) fn drain(&self, most: Duration) {
        let begun = Instant::now();
        while self.shared.answering.load(Relaxed) > 0 && begun.elapsed() < most {
            std::thread::sleep(DRAIN_INTERVAL);
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.shared.closing.store(true, Relaxed);
        // Wakes the thread, which waits for a connection.
        let woken = StdStream::connect(&self.path);
        let _ = std::fs::remove_file(&self.path);
        drop(woken);
    }
}

/// Binds a socket, and makes it visible under its name when it has a listener.
fn bind(folder: &Path) -> io::Result<(StdListener, PathBuf)> {
    let mut random = [0; 4];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    let name = format!("{}-{:08x}", std::process::id(), u32::from_le_bytes(random));
    let (new, path) = (folder.join(format!("{name}.new")), folder.join(format!("{name}.{ENDING}")));
    let listener = StdListener::bind(&new)?;
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(&new, &path)?;
    Ok((listener, path))
}

impl Shared {
    /// Waits for the first connection, and makes the runtime that serves it and all others.
    fn wait(self: Arc<Self>, listener: &StdListener) {
        let first = loop {
            let accepted = listener.accept();
            if self.closing.load(Relaxed) {
                return;
            }
            match accepted {
                Ok((stream, _)) => break stream,
                Err(_) => std::thread::sleep(ACCEPT_AGAIN_AFTER),
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
        let served = runtime.and_then(|runtime| {
            listener.set_nonblocking(true)?;
            let again = listener.try_clone()?;
            runtime.block_on(async {
                let listener = UnixListener::from_std(again)?;
                first.set_nonblocking(true)?;
                self.admit(UnixStream::from_std(first)?);
                self.serve(&listener).await;
                Ok(())
            })
        });
        if served.is_err() {
            // No request will be answered: the end of the connection says so.
            while !self.closing.load(Relaxed) {
                let _ = listener.set_nonblocking(false);
                let _ = listener.accept();
            }
        }
    }

    async fn serve(self: &Arc<Self>, listener: &UnixListener) {
        loop {
            let accepted = listener.accept().await;
            if self.closing.load(Relaxed) {
                return;
            }
            match accepted {
                Ok((stream, _)) => self.admit(stream),
                Err(_) => tokio::time::sleep(ACCEPT_AGAIN_AFTER).await,
            }
        }
    }

    /// Gives a connection a task, or refuses it.
    fn admit(self: &Arc<Self>, stream: UnixStream) {
        let refusal = match stream.peer_cred() {
            Ok(peer) if peer.uid() == self.user || peer.uid() == 0 => None,
            _ => Some(Refusal::NotYours),
        };
        let permit = Arc::clone(&self.connections).try_acquire_owned().map_err(|_: TryAcquireError| Refusal::Busy);
        match refusal.map_or(permit, Err) {
            // A new connection has room for this little; if not, its end says enough.
            Err(refusal) => drop(stream.try_write(&AnswerLine::of(Answer::Refused(refusal)))),
            Ok(permit) => {
                let shared = Arc::clone(self);
                tokio::spawn(async move {
                    // A client that breaks the protocol is not waited for, and gets no report.
                    let _ = shared.converse(&stream).await;
                    drop(permit);
                });
            }
        }
    }

    async fn converse(&self, stream: &UnixStream) -> io::Result<()> {
        let line = match timeout(REQUEST_TIME_MAX, read_line(stream)).await {
            Ok(line) => line?,
            Err(_) => Err(Refusal::Malformed { why: format!("it did not arrive within {REQUEST_TIME_MAX:?}") }),
        };
        self.answering.fetch_add(1, Relaxed);
        let answered = self.answer(stream, line).await;
        self.answering.fetch_sub(1, Relaxed);
        answered
    }

    async fn answer(&self, stream: &UnixStream, line: Result<Vec<u8>, Refusal>) -> io::Result<()> {
        let kernel = self.kernel.upgrade();
        let carried = line.and_then(|line| RequestLine::read(&line)).and_then(|request| match &kernel {
            Some(kernel) => carry_out(kernel, request),
            None => Err(Refusal::Failed { why: "the host is shutting down".to_owned() }),
        });
        drop(kernel);
        match carried {
            Err(refusal) => write(stream, &Answer::Refused(refusal), ANSWER_TIME_MAX).await,
            Ok(Carried::Answered(answer)) => write(stream, &answer, ANSWER_TIME_MAX).await,
            Ok(Carried::Acted(acknowledged)) => {
                let failed = |why: String| Answer::Refused(Refusal::Failed { why });
                let answer = match timeout(OUTCOME_AFTER_MAX, acknowledged.durable()).await {
                    Ok(Ok(())) => Answer::Done,
                    Ok(Err(error)) => failed(error.to_string()),
                    Err(_) => failed(format!("it is done, but not durable after {OUTCOME_AFTER_MAX:?}")),
                };
                write(stream, &answer, ANSWER_TIME_MAX).await
            }
            Ok(Carried::Watched(watched)) => match Arc::clone(&self.watchers).try_acquire_owned() {
                Ok(_permit) => watch(stream, watched).await,
                Err(_) => write(stream, &Answer::Refused(Refusal::Busy), ANSWER_TIME_MAX).await,
            },
        }
    }
}

/// Sends events to a watcher until the run has ended or the watcher is gone.
async fn watch(stream: &UnixStream, watched: Watched) -> io::Result<()> {
    let Watched { run, mut events, records } = watched;
    write(stream, &Answer::Watching { records }, ANSWER_TIME_MAX).await?;
    let mut dropped = 0;
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            // A watcher sends nothing more: the next thing to read is its end.
            gone = gone(stream) => return gone,
        };
        let lost = events.dropped();
        if lost > dropped {
            write(stream, &Answer::Dropped(lost - dropped), WATCHER_TIME_MAX).await?;
            dropped = lost;
        }
        match event {
            Some(event) => write(stream, &Answer::Event(event), WATCHER_TIME_MAX).await?,
            None => break,
        }
    }
    // A run whose host is shut down has no outcome.
    if let Ok(outcome) = timeout(OUTCOME_AFTER_MAX, run.finished()).await {
        let outcome = Outcome::new(Arc::clone(run.id()), &outcome);
        write(stream, &Answer::Ended(Box::new(outcome)), WATCHER_TIME_MAX).await?;
    }
    Ok(())
}

/// Waits until the other end sends something or is gone; both end the connection.
async fn gone(stream: &UnixStream) -> io::Result<()> {
    loop {
        stream.readable().await?;
        match stream.try_read(&mut [0; 64]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            other => return other.map(|_| ()),
        }
    }
}

/// Reads a line, and returns it without its end.
async fn read_line(stream: &UnixStream) -> io::Result<Result<Vec<u8>, Refusal>> {
    let malformed = |why: String| Ok(Err(Refusal::Malformed { why }));
    let mut line = Vec::new();
    let mut part = vec![0; 16 << 10];
    loop {
        stream.readable().await?;
        let read = match stream.try_read(&mut part) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            read => read?,
        };
        if read == 0 {
            return malformed("it has no end".to_owned());
        }
        let part = &part[..read];
        match part.iter().position(|&byte| byte == b'\n') {
            Some(end) if line.len() + end <= REQUEST_BYTES_MAX => {
                line.extend_from_slice(&part[..end]);
                return Ok(Ok(line));
            }
            None if line.len() + read <= REQUEST_BYTES_MAX => line.extend_from_slice(part),
            _ => return malformed(format!("it has more than {REQUEST_BYTES_MAX} bytes")),
        }
    }
}

/// Writes an answer to a reader that takes some of it at least once within `patience`.
async fn write(stream: &UnixStream, answer: &Answer, patience: Duration) -> io::Result<()> {
    let line = AnswerLine::of(answer.clone());
    let mut rest = &line[..];
    while !rest.is_empty() {
        timeout(patience, stream.writable()).await??;
        match stream.try_write(rest) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            written => rest = &rest[written?..],
        }
    }
    Ok(())
}
