//! The imports of a guest, behind a trait, so that guests run natively in tests.

use crate::bindings::wfhost::process::host;
pub use host::{Identity, Level};

/// What a guest may ask its host at any time. Nothing waits; a replay gets the same answers.
pub trait Host {
    /// Writes to the run's log. `fields` is a JSON object.
    fn log(&self, level: Level, text: &str, fields: Option<&str>);
    /// The run, this process, and the first tag that it has not used.
    fn whoami(&self) -> Identity;
    /// Microseconds since 1970: the time of the batch that is being stepped.
    fn now(&self) -> u64;
    /// The next bytes of the process's seeded stream, at most 4,096.
    fn random(&self, len: u32) -> Vec<u8>;
}

/// The host that runs this component.
#[derive(Clone, Copy, Debug, Default)]
pub struct Imports;

impl Host for Imports {
    fn log(&self, level: Level, text: &str, fields: Option<&str>) {
        host::log(level, text, fields);
    }

    fn whoami(&self) -> Identity {
        host::whoami()
    }

    fn now(&self) -> u64 {
        host::now()
    }

    fn random(&self, len: u32) -> Vec<u8> {
        host::random(len)
    }
}
