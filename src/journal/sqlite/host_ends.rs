//! Learning that another host of the folder has ended, or that mail is stored for a run of nobody.
//!
//! A host has its lock file open for writing as long as it lives, and the system closes the file
//! with the process. A thread waits for that event of the folder `hosts`, so nothing is asked again
//! and again, and hosts that come later are seen too. Whoever stores mail closes the file `mail`
//! there.

use super::error::io;
use super::hosts::{Locks, MAIL};
use super::{Sqlite, StoreError};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the system may take to give a lock back after it has closed the file. It does both in
/// one call, so this is long. A host whose lock is held for longer lives: another process has
/// written to its file.
const RELEASE_TIME_MAX: Duration = Duration::from_secs(1);

/// The pause between two looks at that lock.
const RELEASE_CHECK: Duration = Duration::from_millis(1);

/// Bytes of events that are read at once.
const EVENTS_BYTES: usize = 4_096;

/// What has changed in the folder.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Changes {
    /// A host has ended.
    pub(super) ended: bool,
    /// Mail is stored.
    pub(super) mail: bool,
}

impl Changes {
    pub(super) const ALL: Self = Self { ended: true, mail: true };

    pub(super) fn add(&mut self, more: Self) {
        self.ended |= more.ended;
        self.mail |= more.mail;
    }
}

/// Watches the hosts of a folder until it is dropped.
#[must_use = "it watches until it is dropped"]
pub(super) struct HostWatch {
    events: Arc<OwnedFd>,
    watch: i32,
    thread: Option<JoinHandle<()>>,
}

impl Sqlite {
    /// Calls `changed` whenever another host of the folder has ended, however it did, or mail is
    /// stored, on a thread for that. Nothing that happens after this returns is missed; what
    /// happens together may be told at once.
    ///
    /// Dropping the watch waits for a call that is under way.
    ///
    /// # Errors
    /// Fails if the folder cannot be watched.
    pub(super) fn watch_hosts(&self, changed: impl FnMut(Changes) + Send + 'static) -> Result<HostWatch, StoreError> {
        let folder = self.0.locks.folder();
        let fails = |error: Errno| io(folder)(error.into());
        let events = Arc::new(inotify::init(CreateFlags::CLOEXEC).map_err(fails)?);
        let flags = WatchFlags::CLOSE_WRITE | WatchFlags::ONLYDIR;
        let watch = inotify::add_watch(&*events, folder, flags).map_err(fails)?;
        let (seen, locks) = (Arc::clone(&events), self.0.locks.clone());
        let thread = std::thread::Builder::new().name("host-ends".to_owned());
        let thread = thread.spawn(move || run(&seen, &locks, changed)).map_err(io(folder))?;
        Ok(HostWatch { events, watch, thread: Some(thread) })
    }
}

impl Drop for HostWatch {
    fn drop(&mut self) {
        // The last event of a watch tells that it is removed: the thread ends by it.
        let removed = inotify::remove_watch(&*self.events, self.watch);
        if let (Ok(()), Some(thread)) = (removed, self.thread.take()) {
            // Its panic was reported where it happened.
            let _ = thread.join();
        }
    }
}

/// What one event says.
enum Event {
    /// A host has closed its lock file.
    Closed(i64),
    /// Mail is stored.
    Mail,
    /// Events were dropped: any host may have ended.
    Overflow,
    /// The watch is removed, or its folder is.
    Removed,
    Other,
}

fn run(events: &OwnedFd, locks: &Locks, mut changed: impl FnMut(Changes)) {
    let mut buffer = [MaybeUninit::uninit(); EVENTS_BYTES];
    let mut reader = Reader::new(events, &mut buffer);
    loop {
        // Those that were read together are told at once.
        let mut changes = Changes::default();
        loop {
            match next(&mut reader) {
                Ok(Event::Closed(host)) => changes.ended |= is_released(locks, host),
                Ok(Event::Mail) => changes.mail = true,
                Ok(Event::Overflow) => changes = Changes::ALL,
                Ok(Event::Other) | Err(Errno::INTR) => {}
                Ok(Event::Removed) | Err(_) => return,
            }
            if reader.is_buffer_empty() {
                break;
            }
        }
        if changes != Changes::default() {
            changed(changes);
        }
    }
}

fn next(reader: &mut Reader<'_, &OwnedFd>) -> Result<Event, Errno> {
    let event = reader.next()?;
    let flags = event.events();
    if flags.contains(ReadFlags::IGNORED) {
        return Ok(Event::Removed);
    }
    if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
        return Ok(Event::Overflow);
    }
    let name = event.file_name().and_then(|name| name.to_str().ok());
    if name == Some(MAIL) {
        return Ok(Event::Mail);
    }
    Ok(name.and_then(Locks::host_of).map_or(Event::Other, Event::Closed))
}

/// Waits until a lock whose file was closed is given back. Returns whether it is.
fn is_released(locks: &Locks, host: i64) -> bool {
    let begun = Instant::now();
    // What cannot be read is looked at where the runs are listed.
    while locks.is_alive(host).unwrap_or(false) {
        if begun.elapsed() > RELEASE_TIME_MAX {
            return false;
        }
        std::thread::sleep(RELEASE_CHECK);
    }
    true
}
