//! Random choices that a seed reproduces.

/// `SplitMix64` (Steele, Lea and Flood, 2014).
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Separate dice for what a text names: the same whatever else was drawn.
    pub(crate) fn of(seed: u64, name: &str) -> Self {
        // FNV-1a.
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Self(seed ^ hash)
    }

    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut n = self.0;
        n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        n ^ (n >> 31)
    }

    /// A number below that one.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }
}

/// The seed of a test: from the environment, so that a failure can be reproduced, or a fresh one.
pub(crate) fn seed() -> u64 {
    match std::env::var("WFHOST_SEED") {
        Ok(text) => text.parse().expect("WFHOST_SEED is a number"),
        Err(_) => {
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            Dice::new(since.as_nanos() as u64).roll() >> 16
        }
    }
}
