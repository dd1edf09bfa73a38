//! The cache of steps: outcomes that are used in place of running a step again.
//!
//! It is a file of its own in the data folder, `cache.db`, which several processes may have open;
//! a host without a data folder has one in memory. No commit of it is synced, and nothing of a run
//! waits for it but the question whether an outcome is there. Its loss costs no more than time, so
//! a file that cannot be used is thrown away.
//!
//! One thread does all the work in the order in which it was asked for, so that an outcome that was
//! passed on is found by the next question. Outcomes that come close together are one transaction.
//!
//! - **I1** What is found is what was kept under that key, to the byte: a digest of both is checked
//!   each time. An entry that does not fit its digest is removed, and is not there.
//! - **I2** It holds no more bytes and entries than its bounds, nor its queue more than
//!   [`QUEUE_BYTES_MAX`]. The entries that were not used for longest go first.
//! - **I3** Whatever fails, the answer is that nothing is there: no run fails for its cache.

mod file;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

use super::super::layout;
use super::schema::make_folder;
use crate::base::brief;
use crate::process::{Micros, Timestamp};
use bytes::Bytes;
use file::CacheFile;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Bytes of outcomes that may wait to be written: beyond it further ones are dropped. Arbitrary.
const QUEUE_BYTES_MAX: usize = 64 << 20;
/// Outcomes in one transaction. Arbitrary.
const GROUP: usize = 256;
/// Uses that are noted together. Arbitrary.
const USES_MAX: usize = 1_024;

/// How much a cache of steps holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheBounds {
    /// Bytes of all entries: outcomes, keys, names, and 128 for each.
    pub bytes: u64,
    /// Entries.
    pub entries: u64,
}

impl Default for CacheBounds {
    // Both arbitrary.
    fn default() -> Self {
        Self { bytes: 256 << 20, entries: 100_000 }
    }
}

/// An outcome that is to be kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewEntry {
    /// What it is found by.
    pub key: Arc<str>,
    /// `WORKFLOW/STEP`.
    pub of: Arc<str>,
    /// The id of the run that computed it.
    pub run: Arc<str>,
    /// When it did, in microseconds since 1970.
    pub at: Timestamp,
    /// How long it may be used.
    pub ttl: Option<Micros>,
    /// The outcome: JSON.
    pub output: Bytes,
}

/// An outcome that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// The id of the run that computed it.
    pub run: String,
    /// When it did, in microseconds since 1970.
    pub at: Timestamp,
    /// The outcome: JSON.
    pub output: Bytes,
}

/// What is looked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    /// The key.
    pub key: Arc<str>,
    /// The time of whoever asks, in microseconds since 1970.
    pub at: Timestamp,
    /// How old it may be; `None` if that does not matter.
    pub ttl: Option<Micros>,
}

/// An entry, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CacheEntry {
    /// What it is found by.
    pub key: String,
    /// `WORKFLOW/STEP`.
    pub of: String,
    /// The id of the run that computed it.
    pub run: String,
    /// When it did, in microseconds since 1970.
    pub at: Timestamp,
    /// When it was last found.
    pub used: Timestamp,
    /// From when on it is not used any more.
    pub expires: Option<Timestamp>,
    /// How often it was found.
    pub hits: u64,
    /// What it takes.
    pub bytes: u64,
}

/// Which entries are removed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Removal {
    /// All.
    All,
    /// Those whose key begins so.
    Key(String),
    /// Those of a workflow.
    Workflow(String),
    /// Those that were computed before this time.
    Before(Timestamp),
}

/// What a cache of steps was asked for since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheCounts {
    /// Questions that found an outcome.
    pub hits: u64,
    /// Questions that found none.
    pub misses: u64,
    /// Outcomes that were kept.
    pub kept: u64,
    /// Outcomes that were not, because the disk was too slow, failed, or they are too large.
    pub dropped: u64,
    /// Entries that were removed because they were damaged.
    pub damaged: u64,
}

/// Gets what is there for a question. Called on the thread of the cache.
type Asker = Box<dyn FnOnce(Option<Found>) + Send>;

enum Job {
    Find(Question, Asker),
    Keep(NewEntry),
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    bytes: usize,
    /// The thread works on what it took.
    is_busy: bool,
    closing: bool,
    counts: CacheCounts,
}

struct Inner {
    /// `None` for one in memory.
    path: Option<PathBuf>,
    bounds: CacheBounds,
    queue: Mutex<Queue>,
    work: Condvar,
    done: Condvar,
}

/// A cache of steps. Neither the file nor the thread exists before it is first asked for something.
pub struct StepCache {
    inner: Arc<Inner>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl StepCache {
    /// The cache of a data folder.
    #[must_use]
    pub fn in_folder(folder: &Path, bounds: CacheBounds) -> Self {
        Self::new(Some(folder.join(layout::CACHE)), bounds)
    }

    /// A cache that ends with its host.
    #[must_use]
    pub fn in_memory(bounds: CacheBounds) -> Self {
        Self::new(None, bounds)
    }

    fn new(path: Option<PathBuf>, bounds: CacheBounds) -> Self {
        let (work, done) = (Condvar::new(), Condvar::new());
        let inner = Inner { path, bounds, queue: Mutex::default(), work, done };
        Self { inner: Arc::new(inner), thread: Mutex::default() }
    }

    /// Looks for an outcome. Does not wait: the answer comes on another thread.
    pub fn find(&self, question: Question, answer: impl FnOnce(Option<Found>) + Send + 'static) {
        self.push(Job::Find(question, Box::new(answer)), 0);
    }

    /// Keeps an outcome, or drops it if too many wait. Does not wait.
    pub fn keep(&self, entry: NewEntry) {
        let bytes = entry.output.len();
        self.push(Job::Keep(entry), bytes);
    }

    fn push(&self, job: Job, bytes: usize) {
        let mut queue = self.inner.queue.lock();
        if queue.bytes + bytes > QUEUE_BYTES_MAX || queue.closing {
            queue.counts.dropped += u64::from(bytes > 0);
            drop(queue);
            return job.drop_unanswered();
        }
        queue.bytes += bytes;
        queue.jobs.push_back(job);
        drop(queue);
        self.inner.work.notify_one();
        self.start();
    }

    fn start(&self) {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let inner = Arc::clone(&self.inner);
            match std::thread::Builder::new().name("step-cache".to_owned()).spawn(move || inner.run()) {
                Ok(started) => *thread = Some(started),
                Err(_) => self.inner.give_up(),
            }
        }
    }

    /// Waits until all that it was asked for is done.
    pub fn settle(&self) {
        brief::waits();
        let mut queue = self.inner.queue.lock();
        while !queue.jobs.is_empty() || queue.is_busy {
            self.inner.done.wait(&mut queue);
        }
    }

    /// What it was asked for since it was opened.
    #[must_use]
    pub fn counts(&self) -> CacheCounts {
        self.inner.queue.lock().counts
    }

    /// Lists the entries of a data folder, the last used first. Makes nothing.
    ///
    /// # Errors
    /// Says why the file cannot be read.
    pub fn list(folder: &Path) -> Result<Vec<CacheEntry>, String> {
        file::existing(&folder.join(layout::CACHE))?.map_or(Ok(Vec::new()), |file| file.list())
    }

    /// Removes entries of a data folder. Returns how many, and their bytes.
    ///
    /// # Errors
    /// Says why the file cannot be changed.
    pub fn remove(folder: &Path, which: &Removal) -> Result<(u64, u64), String> {
        file::existing(&folder.join(layout::CACHE))?.map_or(Ok((0, 0)), |file| file.remove(which))
    }
}

impl Drop for StepCache {
    fn drop(&mut self) {
        self.inner.queue.lock().closing = true;
        self.inner.work.notify_one();
        let is_own = |thread: &JoinHandle<()>| thread.thread().id() == std::thread::current().id();
        if let Some(thread) = self.thread.get_mut().take().filter(|thread| !is_own(thread)) {
            let _ = thread.join();
        }
    }
}

impl Job {
    /// Ends it: there is nothing.
    fn drop_unanswered(self) {
        if let Self::Find(_, answer) = self {
            answer(None);
        }
    }
}

/// Ends all waits if the thread panics, which is a defect.
struct Alarm<'a>(&'a Inner);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.give_up();
        }
    }
}

impl Inner {
    /// Answers all that wait, and takes no more.
    fn give_up(&self) {
        let mut queue = self.queue.lock();
        queue.closing = true;
        queue.is_busy = false;
        queue.bytes = 0;
        let jobs = std::mem::take(&mut queue.jobs);
        drop(queue);
        jobs.into_iter().for_each(Job::drop_unanswered);
        self.done.notify_all();
    }

    fn run(&self) {
        let _alarm = Alarm(self);
        let mut file = None;
        loop {
            let mut queue = self.queue.lock();
            queue.is_busy = false;
            if queue.jobs.is_empty() {
                self.done.notify_all();
            }
            while queue.jobs.is_empty() && !queue.closing {
                self.work.wait(&mut queue);
            }
            if queue.jobs.is_empty() {
                return;
            }
            queue.is_busy = true;
            let jobs = std::mem::take(&mut queue.jobs);
            queue.bytes = 0;
            drop(queue);
            let counts = self.work_on(jobs, &mut file);
            let mut queue = self.queue.lock();
            let all = &mut queue.counts;
            all.hits += counts.hits;
            all.misses += counts.misses;
            all.kept += counts.kept;
            all.dropped += counts.dropped;
            all.damaged += counts.damaged;
        }
    }

    fn work_on(&self, jobs: VecDeque<Job>, file: &mut Option<CacheFile>) -> CacheCounts {
        let mut counts = CacheCounts::default();
        let mut entries = Vec::new();
        let mut used = Vec::new();
        for job in jobs {
            match job {
                Job::Keep(entry) => entries.push(entry),
                Job::Find(question, answer) => {
                    self.write(file, &mut entries, &mut used, &mut counts);
                    let found = self.with(file, |file| file.find(&question)).flatten();
                    let found = found.and_then(|found| found.inspect_err(|()| counts.damaged += 1).ok());
                    match &found {
                        Some(_) => counts.hits += 1,
                        None => counts.misses += 1,
                    }
                    used.extend(found.as_ref().map(|_| (question.key, question.at)));
                    answer(found);
                }
            }
            if entries.len() >= GROUP || used.len() >= USES_MAX {
                self.write(file, &mut entries, &mut used, &mut counts);
            }
        }
        self.write(file, &mut entries, &mut used, &mut counts);
        if !used.is_empty() {
            let _ = self.with(file, |file| file.note_uses(&used));
        }
        counts
    }

    /// Writes the entries, if there are any, and with them the uses.
    fn write(
        &self,
        file: &mut Option<CacheFile>,
        entries: &mut Vec<NewEntry>,
        used: &mut Vec<(Arc<str>, Timestamp)>,
        counts: &mut CacheCounts,
    ) {
        if entries.is_empty() && used.len() < USES_MAX {
            return;
        }
        let all = entries.len() as u64;
        let uses = std::mem::take(used);
        let kept = self.with(file, |file| {
            file.note_uses(&uses)?;
            file.keep(entries, self.bounds)
        });
        entries.clear();
        counts.kept += kept.unwrap_or(0);
        counts.dropped += all - kept.unwrap_or(0);
    }

    /// Acts on the file, which is opened if it is not. One that cannot be used is thrown away, and
    /// used anew the next time.
    fn with<T>(&self, file: &mut Option<CacheFile>, act: impl FnOnce(&CacheFile) -> rusqlite::Result<T>) -> Option<T> {
        if file.is_none() {
            *file = match &self.path {
                None => file::in_memory().ok(),
                Some(path) => {
                    make_folder(path.parent()?).ok()?;
                    let opened = file::open(path);
                    if opened.as_ref().is_err_and(file::is_unusable) {
                        file::throw_away(path);
                    }
                    opened.or_else(|_| file::open(path)).ok()
                }
            };
        }
        match act(file.as_ref()?) {
            Ok(done) => Some(done),
            Err(error) => {
                if file::is_unusable(&error) {
                    *file = None;
                    self.path.as_deref().map(file::throw_away);
                }
                None
            }
        }
    }
}
