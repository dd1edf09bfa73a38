//! What happens at due times that have passed, by how late it is.

use crate::process::{Micros, Timestamp};
use crate::workflow::schedule::CatchUp;

/// How late a run may start and be on time. Arbitrary: a busy disk, a restart of the service.
pub(super) const ON_TIME: Micros = Micros(60_000_000);

/// What happens at a due time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Decision {
    /// It fires, on time.
    Fire,
    /// It fires late.
    CatchUp,
    /// It does not fire any more.
    Miss,
}

/// Decides for due times that have passed, each with the time when its run should have started.
pub(super) fn decide(dues: &[(Timestamp, Timestamp)], now: Timestamp, catch_up: CatchUp) -> Vec<Decision> {
    let last = dues.len().saturating_sub(1);
    let decision = |(number, (_, starts)): (usize, &(Timestamp, Timestamp))| {
        if now.since(*starts) <= ON_TIME {
            return Decision::Fire;
        }
        match catch_up {
            CatchUp::All => Decision::CatchUp,
            CatchUp::Last if number == last => Decision::CatchUp,
            CatchUp::Last | CatchUp::None => Decision::Miss,
        }
    };
    dues.iter().enumerate().map(decision).collect()
}

#[cfg(test)]
mod tests {
    use super::Decision::{self, CatchUp as Late, Fire, Miss};
    use super::*;

    fn at(minutes: &[u64], now: u64, catch_up: CatchUp) -> Vec<Decision> {
        let micros = |minute: u64| Timestamp(minute * 60_000_000);
        let dues: Vec<_> = minutes.iter().map(|minute| (micros(*minute), micros(*minute))).collect();
        decide(&dues, micros(now), catch_up)
    }

    #[test]
    fn what_is_late_is_caught_up_as_the_schedule_says() {
        assert_eq!(at(&[10, 20, 30], 30, CatchUp::None), [Miss, Miss, Fire]);
        assert_eq!(at(&[10, 20, 30], 30, CatchUp::Last), [Miss, Miss, Fire]);
        assert_eq!(at(&[10, 20, 30], 30, CatchUp::All), [Late, Late, Fire]);
        assert_eq!(at(&[10, 20, 30], 35, CatchUp::Last), [Miss, Miss, Late]);
        assert_eq!(at(&[10, 20, 30], 35, CatchUp::None), [Miss, Miss, Miss]);
        assert_eq!(at(&[], 35, CatchUp::All), []);
    }
}
