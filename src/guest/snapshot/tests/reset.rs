//! An instance that is reset is a fresh one.

use super::lockstep::EVERYTHING;
use super::rig::{Rig, inputs};
use crate::guest::snapshot::{ResetError, Search, Snapshot};

/// More pages than any guest here writes.
const PLENTY: usize = 1_000;

/// Every byte is compared, whatever the kernel says.
fn state(rig: &Rig, guest: &mut super::rig::Guest) -> Snapshot {
    let taken = rig.template.take(&mut guest.store, &guest.handles, Search::Compare);
    taken.expect("a snapshot")
}

#[test]
fn after_any_steps_a_reset_instance_is_a_fresh_one() {
    let rig = Rig::new(EVERYTHING);
    let fresh = state(&rig, &mut rig.guest());
    let (mut reset, mut grown) = (0, 0);
    for seed in 0..24 {
        let inputs = inputs(seed);
        let mut expected = rig.guest();
        let mut guest = rig.guest();
        for steps in [1, 3, usize::from(seed), 40] {
            inputs.iter().take(steps).for_each(|input| drop(guest.step(input)));
            match rig.template.reset(&mut guest.store, &guest.handles, PLENTY) {
                Ok(pages) => {
                    assert!(pages >= 2, "{pages}");
                    assert_eq!(state(&rig, &mut guest).digest(), fresh.digest(), "seed {seed}, {steps} steps");
                    reset += 1;
                }
                Err(ResetError::Grown) => {
                    let bytes = state(&rig, &mut guest).memory_bytes();
                    assert!(bytes > fresh.memory_bytes(), "seed {seed}: {bytes}");
                    grown += 1;
                    guest = rig.guest();
                }
                Err(other) => panic!("seed {seed}: {other}"),
            }
        }
        // From then on it behaves like a fresh one, and takes the same fuel.
        for input in inputs.iter().skip(500).take(100) {
            assert_eq!(guest.step(input), expected.step(input), "seed {seed}");
        }
    }
    assert!(reset > 50 && grown > 5, "{reset} were reset, {grown} had grown");
}

#[test]
fn an_instance_that_has_written_more_than_it_may_is_not_reset() {
    let rig = Rig::new(EVERYTHING);
    let mut guest = rig.guest();
    guest.step(&[0; 8]);
    rig.template.reset(&mut guest.store, &guest.handles, PLENTY).expect("it has not grown");
    guest.step(&[0; 8]);
    let refused = rig.template.reset(&mut guest.store, &guest.handles, 0);
    assert!(matches!(refused, Err(ResetError::Pages)), "{refused:?}");
    assert!(rig.template.reset(&mut guest.store, &guest.handles, PLENTY).is_ok());
}

/// Reading maps pages of zeros, which the kernel reports as well. They are not counted as written.
#[test]
fn pages_that_were_only_read_are_not_written() {
    let rig = Rig::new(EVERYTHING);
    let mut guest = rig.guest();
    state(&rig, &mut guest);
    for _ in 0..2 {
        let named = rig.template.reset(&mut guest.store, &guest.handles, 0).expect("nothing has been written");
        assert!(named >= 16, "{named}");
    }
}
