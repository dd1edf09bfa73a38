//! Faults of an execution, as a list that people can read, store and repeat.
//!
//! Records and calls are numbered in the execution with the faults, from 1; so a list means the
//! same each time.

mod draw;
mod search;

pub(super) use draw::draw;
pub(super) use search::search;

use crate::process::Micros;
use crate::workflow::model::{parse_duration, write_duration};
use std::fmt;
use std::str::FromStr;

/// Most faults of a list. Arbitrary.
pub const FAULTS_MAX: usize = 100;

/// A fault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// `crash@17+5m`: the host dies when record 17 is on the disk, and nothing that follows from it
    /// has left. Another host recovers the run, five minutes later.
    Crash {
        /// The last record on the disk.
        record: u64,
        /// The time without a host.
        down: Micros,
    },
    /// `lost:http#2+5m`: call 2 of `http` reaches its server, and the host dies before the answer
    /// is on the disk.
    Lost {
        /// The call.
        call: CallNumber,
        /// The time without a host.
        down: Micros,
    },
    /// `late:http#2+30s`: the answer comes that much later.
    Late {
        /// The call.
        call: CallNumber,
        /// How much later.
        by: Micros,
    },
    /// `fail:http#2*3`: three attempts fail before the call reaches its server; trying again helps.
    Fail {
        /// The call.
        call: CallNumber,
        /// How often.
        times: u64,
    },
    /// `twice:approve`: signals of that name are delivered twice, with the same id.
    Twice {
        /// The name of the signal.
        signal: String,
    },
    /// `jump@17+1h`: the clock jumps forward when record 17 is on the disk.
    Jump {
        /// The record.
        record: u64,
        /// How far.
        by: Micros,
    },
    /// `evict`: there is room for one guest in memory, so that they evict each other.
    Evict,
}

/// A call, by its handler and its number among the calls of that handler.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CallNumber {
    /// The handler's name.
    pub handler: String,
    /// From 1.
    pub number: usize,
}

/// A list of faults: `crash@17,late:http#2+30s`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Faults(pub Vec<Fault>);

impl fmt::Display for CallNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.handler, self.number)
    }
}

/// `+5m`; nothing if it is zero.
fn plus(duration: Micros) -> String {
    if duration == Micros(0) { String::new() } else { format!("+{}", write_duration(duration)) }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crash { record, down } => write!(f, "crash@{record}{}", plus(*down)),
            Self::Lost { call, down } => write!(f, "lost:{call}{}", plus(*down)),
            Self::Late { call, by } => write!(f, "late:{call}+{}", write_duration(*by)),
            Self::Fail { call, times: 1 } => write!(f, "fail:{call}"),
            Self::Fail { call, times } => write!(f, "fail:{call}*{times}"),
            Self::Twice { signal } => write!(f, "twice:{signal}"),
            Self::Jump { record, by } => write!(f, "jump@{record}+{}", write_duration(*by)),
            Self::Evict => f.write_str("evict"),
        }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{fault}")?;
        }
        Ok(())
    }
}

/// The forms, for a hint.
pub const FORMS: &str = "the faults are crash@RECORD, lost:HANDLER#N, late:HANDLER#N+30s, fail:HANDLER#N*2, \
                         twice:SIGNAL, jump@RECORD+1h and evict; commas separate them";

impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
        if parts.len() > FAULTS_MAX {
            return Err(format!("there are {} faults, more than {FAULTS_MAX}", parts.len()));
        }
        parts.into_iter().map(Fault::from_str).collect::<Result<_, _>>().map(Self)
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{}` is not a fault", crate::workflow::model::shorten(text));
        let duration = |text: &str| parse_duration(text);
        let (rest, time) = match text.split_once('+') {
            Some((rest, time)) => (rest, Some(duration(time)?)),
            None => (text, None),
        };
        let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number > 0).ok_or_else(bad);
        if let Some((kind, record)) = rest.split_once('@') {
            let record = number(record)?;
            return match (kind, time) {
                ("crash", down) => Ok(Self::Crash { record, down: down.unwrap_or_default() }),
                ("jump", Some(by)) => Ok(Self::Jump { record, by }),
                _ => Err(bad()),
            };
        }
        let Some((kind, what)) = rest.split_once(':') else {
            return if rest == "evict" && time.is_none() { Ok(Self::Evict) } else { Err(bad()) };
        };
        if kind == "twice" && time.is_none() && !what.is_empty() {
            return Ok(Self::Twice { signal: what.to_owned() });
        }
        let (what, times) = match what.split_once('*') {
            Some((what, times)) => (what, Some(number(times)?)),
            None => (what, None),
        };
        let (handler, count) = what.split_once('#').ok_or_else(bad)?;
        let call = CallNumber { handler: handler.to_owned(), number: number(count)? as usize };
        match (kind, time, times) {
            ("lost", down, None) => Ok(Self::Lost { call, down: down.unwrap_or_default() }),
            ("late", Some(by), None) => Ok(Self::Late { call, by }),
            ("fail", None, times) => Ok(Self::Fail { call, times: times.unwrap_or(1) }),
            _ => Err(bad()),
        }
    }
}

impl Faults {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for text in [
            "crash@17",
            "crash@17+5m",
            "lost:http#2,late:http#2+30s",
            "fail:http#1*3,twice:approve,jump@4+1h30m,evict",
            "lost:my.handler#12+1ms",
            "fail:http#1",
            "",
        ] {
            let faults: Faults = text.parse().unwrap();
            assert_eq!(faults.to_string(), text);
        }
        assert_eq!(" crash@1 , evict".parse::<Faults>().unwrap().to_string(), "crash@1,evict");
    }

    #[test]
    fn what_is_no_fault_is_refused() {
        for text in [
            "crash",
            "crash@",
            "crash@0",
            "crash@x",
            "crash@1+x",
            "jump@3",
            "late:http#1",
            "late:http",
            "lost:#",
            "boom",
            "fail:http#1*0",
            "evict+3s",
            "twice:",
            "crash@-1",
        ] {
            text.parse::<Faults>().unwrap_err();
        }
        "evict,".repeat(101).parse::<Faults>().unwrap_err();
    }
}
