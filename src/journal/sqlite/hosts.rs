//! The hosts of a store: which of them live, and which is this one.
//!
//! A host has a row in `host` and holds the operating system's lock on `hosts/<number>.lock` until
//! its process ends. The file is locked before the row can be seen, so a host whose lock can be
//! taken is dead. Numbers are never reused.

use super::StoreError;
use super::error::{io, sqlite};
use super::schema::make_folder;
use crate::journal::{Address, Owner, layout};
use crate::run::system_time;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// How the names of lock files end.
const ENDING: &str = ".lock";

/// The file that is opened for writing and closed when mail is stored.
pub(super) const MAIL: &str = "mail";

/// This process, as a host of the store.
pub(super) struct Host {
    pub(super) number: i64,
    /// Held until the process ends.
    _lock: File,
}

/// The folder of the hosts' lock files.
#[derive(Clone)]
pub(super) struct Locks(PathBuf);

impl Locks {
    pub(super) fn new(folder: &Path) -> Result<Self, StoreError> {
        let locks = folder.join(layout::HOSTS);
        make_folder(&locks)?;
        Ok(Self(locks))
    }

    pub(super) fn folder(&self) -> &Path {
        &self.0
    }

    fn path(&self, host: i64) -> PathBuf {
        self.0.join(format!("{host}{ENDING}"))
    }

    /// Tells the hosts that watch the folder that mail is stored. It is a hint: they find the mail
    /// at their next look in any case.
    pub(super) fn announce_mail(&self) {
        let _ = File::options().create(true).append(true).open(self.0.join(MAIL));
    }

    /// Returns the host whose lock file has this name.
    pub(super) fn host_of(file: &str) -> Option<i64> {
        file.strip_suffix(ENDING)?.parse().ok()
    }

    /// Returns whether a host lives. Several callers may ask at once: the lock that is tried is a
    /// shared one.
    pub(super) fn is_alive(&self, host: i64) -> Result<bool, StoreError> {
        let path = self.path(host);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(io(&path)(error)),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(io(&path)(error)),
        }
    }

    /// Makes this process a host of the store, and removes dead hosts that own no run.
    pub(super) fn register(
        &self,
        db: &mut Connection,
        path: &Path,
        address: Option<&Address>,
    ) -> Result<Host, StoreError> {
        let fails = sqlite(path);
        let started = system_time().0.cast_signed();
        let change = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&fails)?;
        change
            .execute(
                "INSERT INTO host (pid, started, socket) VALUES (?1, ?2, ?3)",
                params![std::process::id(), started, address.map(Address::to_string)],
            )
            .map_err(&fails)?;
        let number = change.last_insert_rowid();
        let file = self.path(number);
        let lock = File::options().create(true).append(true).open(&file).map_err(io(&file))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => io(&file)(ErrorKind::ResourceBusy.into()),
            TryLockError::Error(error) => io(&file)(error),
        })?;
        self.remove_dead(&change, number).map_err(&fails)?;
        change.commit().map_err(&fails)?;
        Ok(Host { number, _lock: lock })
    }

    fn remove_dead(&self, change: &Transaction<'_>, this: i64) -> rusqlite::Result<()> {
        let mut select = change.prepare(
            "SELECT host FROM host WHERE host <> ?1
             AND NOT EXISTS (SELECT 1 FROM run INDEXED BY run_owner WHERE owner = host AND wake IS NULL)
             AND NOT EXISTS (SELECT 1 FROM run INDEXED BY run_parked WHERE owner = host AND wake IS NOT NULL)",
        )?;
        let idle = select.query_map([this], |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()?;
        for host in idle {
            if matches!(self.is_alive(host), Ok(false)) {
                change.execute("DELETE FROM host WHERE host = ?1", [host])?;
                // A lock file that remains is harmless.
                let _ = std::fs::remove_file(self.path(host));
            }
        }
        Ok(())
    }

    /// Reads what is known of a host.
    pub(super) fn owner(&self, db: &Connection, host: i64, path: &Path) -> Result<Owner, StoreError> {
        let row = db
            .query_row("SELECT pid, socket FROM host WHERE host = ?1 AND buried = 0", [host], |row| {
                Ok((row.get::<_, u32>(0)?, row.get::<_, Option<String>>(1)?))
            })
            .optional()
            .map_err(sqlite(path))?;
        let alive = row.is_some() && self.is_alive(host)?;
        let (pid, address) = row.map(|(pid, address)| (Some(pid), address)).unwrap_or_default();
        let address = address.as_deref().map(Address::from);
        Ok(Owner { host: host.cast_unsigned(), name: None, pid, address, alive })
    }
}

impl Locks {
    /// Returns the living host that has the parked runs whose owners are dead.
    pub(super) fn heir(&self, db: &Connection, path: &Path) -> Result<Option<Owner>, StoreError> {
        let rows = db.prepare_cached("SELECT host FROM host WHERE heir = 1 AND buried = 0").and_then(|mut select| {
            let rows = select.query_map([], |row| row.get::<_, i64>(0))?;
            rows.collect::<Result<Vec<_>, _>>()
        });
        for host in rows.map_err(sqlite(path))? {
            let owner = self.owner(db, host, path)?;
            if owner.alive {
                return Ok(Some(owner));
            }
        }
        Ok(None)
    }

    /// Returns the host that has an unfinished run: the one that its row names, or the heir if that
    /// one is dead and the run is parked.
    pub(super) fn owner_or_heir(
        &self,
        db: &Connection,
        owner: Option<i64>,
        is_parked: bool,
        path: &Path,
    ) -> Result<Option<Owner>, StoreError> {
        let owner = owner.map(|host| self.owner(db, host, path)).transpose()?;
        if !is_parked || owner.as_ref().is_some_and(|owner| owner.alive) {
            return Ok(owner);
        }
        Ok(self.heir(db, path)?.or(owner))
    }
}

/// Returns whether another host took this one for dead: then it must not write.
pub(super) fn is_fenced(db: &Connection, host: i64) -> rusqlite::Result<bool> {
    let fenced: Option<bool> =
        db.prepare_cached("SELECT buried FROM host WHERE host = ?1")?.query_row([host], |row| row.get(0)).optional()?;
    Ok(fenced.unwrap_or(true))
}
