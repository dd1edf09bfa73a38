//! What the outcome of a process may have depended on beside its program, entry point, input and
//! limits.
//!
//! A process without influences is a function of these four: its outcome can stand for that of
//! another one with the same four. So each influence errs to the safe side: what is not known to be
//! harmless counts.

use std::fmt;

/// A set of influences.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Influences(u8);

impl Influences {
    /// There was none.
    pub const NONE: Self = Self(0);
    /// It read a clock.
    pub const TIME: Self = Self(1);
    /// It read random numbers.
    pub const RANDOM: Self = Self(1 << 1);
    /// It asked which process of which run it is.
    pub const IDENTITY: Self = Self(1 << 2);
    /// It took an event: a message, an answer, an exit, a cancel.
    pub const EVENTS: Self = Self(1 << 3);
    /// It gave a command: a call, a message, a spawn, a sleep, or another one.
    pub const COMMANDS: Self = Self(1 << 4);
    /// It went on from a snapshot, and what it had read before is not known.
    pub const RESTORED: Self = Self(1 << 5);
    /// It is code of the host, which may depend on anything.
    pub const NATIVE: Self = Self(1 << 6);

    /// These and those.
    #[must_use]
    pub fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// These if it is so, otherwise none.
    #[must_use]
    pub fn if_so(self, is_so: bool) -> Self {
        if is_so { self } else { Self::NONE }
    }

    /// Whether there was none.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }
}

/// What the process did, in the order of the constants.
const DEEDS: [(Influences, &str); 7] = [
    (Influences::TIME, "read the clock"),
    (Influences::RANDOM, "read random numbers"),
    (Influences::IDENTITY, "asked for its run and pid"),
    (Influences::EVENTS, "received an event"),
    (Influences::COMMANDS, "gave commands, such as calls, messages or spawns"),
    (Influences::RESTORED, "went on from a snapshot"),
    (Influences::NATIVE, "is native"),
];

impl fmt::Display for Influences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut deeds = DEEDS.iter().filter(|(one, _)| self.0 & one.0 != 0).map(|(_, deed)| *deed);
        f.write_str(deeds.next().unwrap_or("depended on nothing else"))?;
        deeds.try_for_each(|deed| write!(f, " and {deed}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_add_up_and_are_told_in_words() {
        let both = Influences::RANDOM.and(Influences::TIME);
        assert_eq!(both.to_string(), "read the clock and read random numbers");
        assert_eq!(both.and(Influences::TIME), both);
        assert!(Influences::NONE.is_none() && Influences::EVENTS.if_so(false).is_none());
        assert_eq!(Influences::NONE.to_string(), "depended on nothing else");
    }
}
