//! The random stream of a process.

use super::Pid;
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A stream of random bytes that depends on the run's seed and the pid only: `ChaCha` of 12 rounds,
/// keyed by the seed, with the pid as its stream number. It is no secret from whoever reads the
/// run's records.
#[derive(Clone, Debug)]
pub struct Random(ChaCha12Rng);

impl Random {
    /// The stream of a process from its start.
    #[must_use]
    pub fn new(seed: &[u8; 32], pid: Pid) -> Self {
        let mut stream = ChaCha12Rng::from_seed(*seed);
        stream.set_stream(pid.0);
        Self(stream)
    }

    /// Fills `bytes` with what comes next.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    /// How far the stream has been read, for [`Self::resume`].
    #[must_use]
    pub fn position(&self) -> u128 {
        self.0.get_word_pos()
    }

    /// Goes on where [`Self::position`] was taken.
    pub fn resume(&mut self, position: u128) {
        self.0.set_word_pos(position);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(random: &mut Random) -> [u8; 24] {
        let mut bytes = [0; 24];
        random.fill(&mut bytes);
        bytes
    }

    #[test]
    fn depends_on_seed_and_pid_only_and_can_be_resumed() {
        let mut first = Random::new(&[1; 32], Pid(7));
        let bytes = take(&mut first);
        assert_eq!(bytes, take(&mut Random::new(&[1; 32], Pid(7))));
        assert_ne!(bytes, take(&mut Random::new(&[1; 32], Pid(8))));
        assert_ne!(bytes, take(&mut Random::new(&[2; 32], Pid(7))));

        let position = first.position();
        let next = take(&mut first);
        let mut resumed = Random::new(&[1; 32], Pid(7));
        resumed.resume(position);
        assert_eq!(next, take(&mut resumed));
    }
}
