//! The client's end: sending requests to the hosts of a data folder.

use super::protocol::{ANSWER_BYTES_MAX, Answer, AnswerLine, Refusal, Request, RequestLine, VERSION, line};
use super::socket_folder;
use std::io::{self, BufRead, BufReader, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a host may take to answer a request that only reads. Arbitrary: it waits for nothing
/// then, so one that takes longer is stopped, or starves.
const READ_TIME_MAX: Duration = Duration::from_secs(5);

/// How long it may take if the answer only explains another wait. Arbitrary.
const EXPLAIN_TIME_MAX: Duration = Duration::from_secs(1);

/// How long a host may take to act, and for each part of what is watched. It answers when the act
/// is durable, which a busy disk delays.
const ACT_TIME_MAX: Duration = Duration::from_secs(30);

/// How long a socket may exist that was bound and not renamed yet. Arbitrary: a few system calls in
/// a row.
const NEW_AGE_MAX: Duration = Duration::from_mins(1);

/// Why a request failed or was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The folder of sockets cannot be used.
    #[error("the sockets of {data} cannot be used", data = data.display())]
    Place {
        /// The data folder.
        data: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// The host of the socket has ended.
    #[error("the host has ended")]
    Gone,
    /// The connection failed.
    #[error("the host at {path} does not answer", path = path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
    /// The host lives, and does not answer: it is stopped, or starves.
    #[error("the host at {path} has not answered for {} s", waited.as_secs(), path = path.display())]
    Silent {
        /// The socket.
        path: PathBuf,
        /// How long the client waited.
        waited: Duration,
    },
    /// The answer cannot be understood.
    #[error("the answer of the host at {path} cannot be understood: {why}", path = path.display())]
    Malformed {
        /// The socket.
        path: PathBuf,
        /// What is wrong with the answer.
        why: String,
    },
    /// The host refused the request.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// A host, which may have ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Client {
    path: PathBuf,
}

impl Client {
    /// Returns the live hosts of a data folder, in arbitrary order. Removes the sockets of hosts
    /// that have ended.
    ///
    /// # Errors
    /// Fails if the folder does not exist, or its sockets do not belong to this user alone.
    pub fn hosts(data: &Path) -> Result<Vec<Self>, ControlError> {
        let failed = |error| ControlError::Place { data: data.to_owned(), error };
        let folder = socket_folder::folder(data).map_err(failed)?;
        let sockets = socket_folder::sockets(&folder).map_err(failed)?;
        remove_unfinished(&folder);
        let is_living = |client: &Self| !matches!(client.connect(), Err(ControlError::Gone));
        Ok(sockets.into_iter().map(|path| Self { path }).filter(is_living).collect())
    }

    /// Returns the live hosts of a data folder in an operating system process: one, unless it has
    /// several.
    ///
    /// # Errors
    /// As [`Self::hosts`].
    pub fn hosts_in(data: &Path, process: u32) -> Result<Vec<Self>, ControlError> {
        let prefix = format!("{process}-");
        let is_its =
            |client: &Self| client.path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix));
        Ok(Self::hosts(data)?.into_iter().filter(is_its).collect())
    }

    /// Returns the host at a socket that the journal names. `None` if the socket is where other
    /// users could have put it.
    pub fn recorded(path: &Path) -> Option<Self> {
        socket_folder::check(path.parent()?).is_ok().then(|| Self::at(path))
    }

    /// Returns the host at a socket.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the path of its socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the id of the host's operating system process, from the name of its socket.
    pub fn process(&self) -> Option<u32> {
        self.path.file_name()?.to_str()?.split('-').next()?.parse().ok()
    }

    /// Returns whether the host lives and its runs begin no step because the disk is full. Returns
    /// false if it does not answer.
    pub fn is_stalled(&self) -> bool {
        let answer = self.answers_within(EXPLAIN_TIME_MAX, Request::Host).ok().and_then(|mut answers| answers.next());
        matches!(answer, Some(Ok(Answer::Host(facts))) if facts.stalled)
    }

    /// Sends a request and returns its answer.
    ///
    /// # Errors
    /// Fails if the host has ended, does not answer, or refuses.
    pub fn ask(&self, request: Request) -> Result<Answer, ControlError> {
        self.answers(request)?.next().unwrap_or(Err(ControlError::Gone))
    }

    /// As [`Self::ask`], for an answer that is of no use if it takes longer than `waited`.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub fn ask_within(&self, waited: Duration, request: Request) -> Result<Answer, ControlError> {
        self.answers_within(waited, request)?.next().unwrap_or(Err(ControlError::Gone))
    }

    /// Watches a run: answers come as events happen, and the last one is [`Answer::Ended`]. If that
    /// one is missing, the host has ended.
    ///
    /// # Errors
    /// Fails if the host has ended, does not answer, or refuses.
    pub fn watch(&self, run: &str) -> Result<Answers, ControlError> {
        let mut answers = self.answers(Request::Watch { run: run.to_owned() })?;
        match answers.next() {
            Some(Ok(Answer::Watching { records })) => answers.records = records,
            Some(Ok(_)) => return Err(answers.malformed("it does not begin with `watching`")),
            Some(Err(error)) => return Err(error),
            None => return Err(ControlError::Gone),
        }
        // The next event may take days.
        let waits = answers.reader.get_ref().get_ref().set_read_timeout(None);
        waits.map_err(|error| ControlError::Io { path: self.path.clone(), error })?;
        Ok(answers)
    }

    fn answers(&self, request: Request) -> Result<Answers, ControlError> {
        let waited = if request.is_read_only() { READ_TIME_MAX } else { ACT_TIME_MAX };
        self.answers_within(waited, request)
    }

    fn answers_within(&self, waited: Duration, request: Request) -> Result<Answers, ControlError> {
        let mut stream = self.connect()?;
        let failed = |error| failed(&self.path, waited, error);
        stream.set_write_timeout(Some(waited)).map_err(failed)?;
        stream.set_read_timeout(Some(waited)).map_err(failed)?;
        // A host that refuses the connection closes its end: its refusal can be read all the same.
        match stream.write_all(&line(&RequestLine { version: VERSION, request })) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => return Err(failed(error)),
            _ => {}
        }
        let reader = BufReader::new(stream.take(0));
        Ok(Answers { path: self.path.clone(), reader, waited, records: 0, is_over: false })
    }

    fn connect(&self) -> Result<UnixStream, ControlError> {
        UnixStream::connect(&self.path).map_err(|error| match error.kind() {
            ErrorKind::ConnectionRefused => {
                // A socket that is visible under its name had a listener, so its host has ended.
                let _ = std::fs::remove_file(&self.path);
                ControlError::Gone
            }
            ErrorKind::NotFound => ControlError::Gone,
            _ => ControlError::Io { path: self.path.clone(), error },
        })
    }
}

/// Maps the error of a request that was not carried to its end.
fn failed(path: &Path, waited: Duration, error: io::Error) -> ControlError {
    let path = path.to_owned();
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => ControlError::Silent { path, waited },
        _ => ControlError::Io { path, error },
    }
}

/// Removes sockets of hosts that ended while they were starting.
fn remove_unfinished(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let is_new = path.extension().is_some_and(|ending| ending == "new");
        let age = entry.metadata().and_then(|metadata| metadata.modified()).ok().and_then(|time| time.elapsed().ok());
        if is_new && age.is_some_and(|age| age > NEW_AGE_MAX) {
            let _ = std::fs::remove_file(&path);
        }
    }
}

/// The answers of a host, one by one.
pub struct Answers {
    path: PathBuf,
    reader: BufReader<io::Take<UnixStream>>,
    waited: Duration,
    records: u64,
    is_over: bool,
}

impl Answers {
    /// Returns how many records a watched run had before.
    pub fn records(&self) -> u64 {
        self.records
    }

    fn malformed(&self, why: &str) -> ControlError {
        ControlError::Malformed { path: self.path.clone(), why: why.to_owned() }
    }

    fn read(&mut self) -> Result<Option<Answer>, ControlError> {
        self.reader.get_mut().set_limit(ANSWER_BYTES_MAX as u64);
        let mut line = Vec::new();
        match self.reader.read_until(b'\n', &mut line) {
            Ok(0) => return Ok(None),
            Ok(_) if line.ends_with(b"\n") => {}
            // A host that ends may stop in the middle of a line.
            Ok(_) if line.len() < ANSWER_BYTES_MAX => return Ok(None),
            Ok(_) => return Err(self.malformed("it is too long")),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(None),
            Err(error) => return Err(failed(&self.path, self.waited, error)),
        }
        match AnswerLine::read(&line) {
            Ok(Answer::Refused(refusal)) => Err(refusal.into()),
            Ok(answer) => Ok(Some(answer)),
            Err(error) => Err(self.malformed(&error.to_string())),
        }
    }
}

impl Iterator for Answers {
    type Item = Result<Answer, ControlError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let answer = self.read().transpose();
        self.is_over = !matches!(answer, Some(Ok(_))) || matches!(answer, Some(Ok(Answer::Ended(_))));
        answer
    }
}
