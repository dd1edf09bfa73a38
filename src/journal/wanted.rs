//! The runs that a journal wants a host to have.

use super::StoreError;
use std::sync::Arc;

/// A run that wants a host now, and that no living host owns.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The id of the run.
    pub id: Arc<str>,
    /// The reason.
    pub why: WantedWhy,
}

/// Why a run wants a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WantedWhy {
    /// Its host had it in memory and has ended, or it is new.
    Orphan,
    /// It is parked, and its first timer is due.
    Due,
    /// It is parked, and mail is stored for it.
    Mail,
}

/// What a host does with a page of wanted runs, or with the error because of which there is none.
/// Returns whether it had room for all of them.
pub trait TakesWanted: FnMut(Result<&[Wanted], StoreError>) -> bool + Send {}
impl<F: FnMut(Result<&[Wanted], StoreError>) -> bool + Send> TakesWanted for F {}

/// Tells which runs want a host, until it is dropped. Dropping it waits for a call that is under
/// way.
#[must_use = "it tells until it is dropped"]
pub trait WantedWatch: Send + Sync {}
