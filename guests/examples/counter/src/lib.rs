//! A bare state machine (in C too: `c/guest.c`); all its outputs depend on all earlier events.
//!
//! Each step mixes its events into a heap and a map, and exposes the digest of both as `digest`.
//! `end`, or a cancel, completes with it. `{"words": n}` sets the heap's initial size (64 KiB).

use std::collections::BTreeMap;

use wfhost_guest::{
    Action, Command, Event, Expose, Host, Imports, Outcome, Payload, Problem, Process, Tags, serde_json::Value,
    unknown_entry,
};

struct Counter {
    tags: Tags,
    state: State,
}

struct State {
    heap: Vec<u64>,
    seen: BTreeMap<u64, Vec<u8>>,
    digest: u64,
    steps: u64,
}

const WORDS_MAX: u64 = 1 << 20;
const SEEN_MAX: usize = 256;

impl State {
    fn new(words: usize) -> Self {
        Self { heap: (0..words as u64).map(mix).collect(), seen: BTreeMap::new(), digest: 1, steps: 0 }
    }

    fn hear(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.digest = mix(self.digest ^ u64::from(*byte));
        }
        self.seen.insert(self.digest, bytes.to_vec());
        // Old entries are removed from the middle, so that the memory gets holes.
        if self.seen.len() > SEEN_MAX {
            let key = self.seen.range(mix(self.digest)..).chain(&self.seen).map(|(key, _)| *key).next();
            self.seen.remove(&key.unwrap_or_default());
        }
    }

    /// Walks over a part of the heap chosen by the digest; grows it now and then.
    fn work(&mut self) -> u64 {
        self.steps += 1;
        if self.steps.is_multiple_of(64) {
            let words = self.heap.len() as u64;
            self.heap.extend((0..512).map(|n| mix(words + n)));
        }
        for _ in 0..256 {
            let words = self.heap.len() as u64;
            // Smaller than the heap, which fits the address space.
            #[allow(clippy::cast_possible_truncation)]
            let at = (self.digest % words) as usize;
            self.heap[at] = self.heap[at].rotate_left(7) ^ self.digest;
            self.digest = mix(self.digest ^ self.heap[at]);
        }
        for (key, text) in self.seen.range(self.digest..).take(3) {
            self.digest = mix(self.digest ^ key ^ text.len() as u64);
        }
        self.digest
    }
}

/// The finaliser of `SplitMix64` (Steele, Lea and Flood, 2014).
fn mix(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

fn bytes(payload: &Payload) -> &[u8] {
    match payload {
        Payload::Json(text) => text.as_bytes(),
        Payload::Bytes(bytes) => bytes,
        Payload::Blob(blob) => blob.digest.as_bytes(),
    }
}

impl Process for Counter {
    fn init(entry: &str, input: Payload) -> Result<Self, Problem> {
        if entry != "run" {
            return Err(unknown_entry(entry));
        }
        let words = input.parse::<Value>()?["words"].as_u64().unwrap_or(8192).clamp(1, WORDS_MAX);
        // At most `WORDS_MAX`.
        #[allow(clippy::cast_possible_truncation)]
        let state = State::new(words as usize);
        Ok(Self { tags: Tags::starting_at(Imports.whoami().next_tag), state })
    }

    fn step(&mut self, events: Vec<Event>) -> Outcome {
        let mut end = false;
        for event in &events {
            match event {
                Event::Message(message) => {
                    end |= message.topic == "end";
                    self.state.hear(bytes(&message.body));
                }
                Event::Completed(completion) => self.state.hear(completion.answer.as_ref().map_or(b"problem", bytes)),
                Event::Exited(_) => self.state.hear(b"exited"),
                Event::Cancel(_) => end = true,
            }
        }
        let digest = Payload::Json(format!("\"{:016x}\"", self.state.work()));
        if end {
            return Outcome::complete(digest);
        }
        let command: Command = self.tags.command(Action::Expose(Expose { query: "digest".to_owned(), value: digest }));
        Outcome::idle(vec![command])
    }
}

wfhost_guest::export_process!(Counter);

#[cfg(test)]
mod tests {
    use super::*;

    fn digests(inputs: &[&[u8]]) -> Vec<u64> {
        let mut state = State::new(64);
        let step = |input: &&[u8]| {
            state.hear(input);
            state.work()
        };
        inputs.iter().map(step).collect()
    }

    #[test]
    fn an_early_input_changes_every_later_digest() {
        let (a, b) = (digests(&[b"a", b"x", b"y", b"z"]), digests(&[b"b", b"x", b"y", b"z"]));
        assert!(a.iter().zip(&b).all(|(a, b)| a != b));
        assert_eq!(a, digests(&[b"a", b"x", b"y", b"z"]));
    }
}
