//! A run that goes on as long as it may: two guests that send a ball to and fro.

use crate::support::{begin, wait_until};
use std::time::Duration;
use wfhost::host::{Host, RunHandle, Status};

pub(crate) struct Neighbour(RunHandle);

impl Neighbour {
    /// A neighbour that is already playing.
    pub(crate) fn move_in(host: &Host) -> Self {
        let text = "steps: [{ id: play, uses: ./pingpong.wasm, with: { rounds: 4294967295 } }]";
        let neighbour = Self(begin(host, text));
        neighbour.waits_for_steps(100);
        neighbour
    }

    /// Steps so far.
    pub(crate) fn steps(&self) -> u64 {
        self.0.inner().counts().steps
    }

    /// Waits until it has taken this many further steps; it must not have ended.
    pub(crate) fn waits_for_steps(&self, steps: u64) {
        let until = self.steps() + steps;
        wait_until(|| {
            assert!(self.0.outcome().is_none(), "the neighbour has ended: {:?}", self.0.outcome());
            self.steps() >= until
        });
    }

    /// Ends it: it still receives messages.
    pub(crate) fn move_out(self) {
        self.0.cancel("the test has ended", Some(Duration::from_mins(1))).unwrap();
        let outcome = self.0.wait();
        assert_eq!(outcome.status, Status::Cancelled, "{:?}", outcome.result);
    }
}
