//! The order in which a thief visits its victims.

/// Marsaglia's xorshift64 (Journal of Statistical Software 8 (14), 2003): small, seeded, and random
/// enough to spread thieves.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // A step of splitmix64, so that seeds close to each other start far apart; zero would stay
        // zero.
        let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Self((z ^ (z >> 27)).max(1))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// All workers but `own`, once each, from a random start.
pub(crate) fn victims(random: &mut Random, workers: usize, own: usize) -> impl Iterator<Item = usize> + use<> {
    let start = (random.next() % workers.max(1) as u64) as usize;
    (0..workers).map(move |step| (start + step) % workers).filter(move |victim| *victim != own)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn each_other_worker_once_from_any_start() {
        let mut random = Random::new(7);
        let mut firsts = [0; 5];
        for _ in 0..1000 {
            let mut order: Vec<usize> = victims(&mut random, 5, 2).collect();
            firsts[order[0]] += 1;
            order.sort_unstable();
            assert_eq!(order, [0, 1, 3, 4]);
        }
        assert!(firsts[2] == 0 && firsts.iter().filter(|count| **count > 100).count() == 4, "{firsts:?}");
        assert_eq!(victims(&mut random, 1, 0).count(), 0);
    }
}
