//! The blobs of a program: opened before it starts, and its standard output stored after it ended.
//! Both wait for a disk, and so happen on a thread beside the workers.

use super::invocation::{Content, Invocation, Parse};
use crate::guest::wasi::{Stdin, World};
use crate::process::{Blob, Problem, problem::kind};
use crate::run::{BlobError, BlobReader, BlobWriter, MEDIA_TYPE, RunBlobs};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

/// How long a worker waits for a thread in one turn. Arbitrary: it takes other work in between.
const TURN: Duration = Duration::from_millis(1);

/// Work on a thread.
pub(super) struct Waiting<T>(Receiver<Result<T, BlobError>>);

impl<T: Send + 'static> Waiting<T> {
    /// Begins the work.
    ///
    /// # Errors
    /// There is no thread.
    fn new(work: impl FnOnce() -> Result<T, BlobError> + Send + 'static) -> Result<Self, Problem> {
        let (done, receiver) = mpsc::channel();
        let spawned = std::thread::Builder::new().name("wfhost-blobs".into()).spawn(move || {
            let _ = done.send(work());
        });
        spawned.map_err(|error| Problem::from(BlobError::Unusable(error.to_string())))?;
        Ok(Self(receiver))
    }

    /// Returns what the work gave; `None` if it goes on.
    pub(super) fn take(&self) -> Option<Result<T, Problem>> {
        match self.0.recv_timeout(TURN) {
            Ok(done) => Some(done.map_err(Problem::from)),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                Some(Err(Problem::new(kind::HOST_FAULT, "The work with a blob panicked")))
            }
        }
    }
}

/// What was opened for a program.
pub(super) struct Opened {
    stdin: Option<Arc<dyn BlobReader>>,
    files: Vec<(String, Arc<dyn BlobReader>)>,
    stdout: Option<Box<dyn BlobWriter>>,
}

/// Opens what a program begins with.
pub(super) fn open(blobs: RunBlobs, invocation: &Invocation) -> Result<Waiting<Opened>, Problem> {
    let stdin = match &invocation.stdin {
        Content::Blob(blob) => Some(blob.digest.clone()),
        Content::Bytes(_) => None,
    };
    let files: Vec<_> = invocation.blobs.iter().map(|(path, blob)| (path.clone(), blob.digest.clone())).collect();
    let makes = invocation.expected.parse == Parse::Blob;
    Waiting::new(move || {
        Ok(Opened {
            stdin: stdin.map(|digest| blobs.open(&digest).map(Arc::from)).transpose()?,
            files: files
                .into_iter()
                .map(|(path, digest)| Ok((path, Arc::from(blobs.open(&digest)?))))
                .collect::<Result<_, BlobError>>()?,
            stdout: makes.then(|| blobs.create()).transpose()?,
        })
    })
}

impl Opened {
    /// What there is to open for a program without blobs.
    pub(super) fn nothing() -> Self {
        Self { stdin: None, files: Vec::new(), stdout: None }
    }

    /// Makes the world of the program.
    ///
    /// # Errors
    /// A file cannot be made.
    pub(super) fn world(self, invocation: &mut Invocation, output_bytes_max: u64) -> Result<World, Problem> {
        for (path, blob) in self.files {
            let place = path.strip_prefix('/').unwrap_or(&path);
            invocation.root.put_blob(place, blob).map_err(|error| Invocation::no_file(&path, &error.to_string()))?;
        }
        let stdin = match (self.stdin, &invocation.stdin) {
            (Some(blob), _) => Stdin::Blob(blob),
            (None, Content::Bytes(bytes)) => Stdin::Bytes(bytes.clone()),
            (None, Content::Blob(_)) => unreachable!("invariant: it was opened"),
        };
        let arguments = std::mem::take(&mut invocation.arguments);
        let environment = std::mem::take(&mut invocation.environment);
        let root = Arc::clone(&invocation.root);
        Ok(World::new(arguments, environment, stdin, root, output_bytes_max, self.stdout))
    }
}

/// Stores what a program wrote to standard output; `None` if that is no blob.
pub(super) fn store(world: &World) -> Option<Result<Waiting<Blob>, Problem>> {
    let (mut writer, rest) = world.take_stdout_blob()?;
    Some(Waiting::new(move || {
        writer.write(&rest)?;
        writer.finish(MEDIA_TYPE)
    }))
}
