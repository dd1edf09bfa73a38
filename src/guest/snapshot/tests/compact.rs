//! The compact encoding: small, exact, and safe to read whatever the bytes are.

use super::rig::{MEMORY_BYTES_MAX, Rig};
use crate::guest::snapshot::state::{GlobalValue, MemoryState, PAGE_BYTES};
use crate::guest::snapshot::{CompactError, Snapshot, Template};
use proptest::prelude::*;
use std::sync::LazyLock;

const COUNTER: &str = r#"
(component
  (core module $main
    (memory (export "memory") 1 8)
    (data (i32.const 4096) "0123456789")
    (global $n (mut i32) (i32.const 0))
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
    (func (export "step") (param i32 i32) (result i32)
      (global.set $n (i32.add (global.get $n) (i32.const 1)))
      (i32.store (i32.const 4096) (global.get $n))
      (i32.store (i32.const 0) (i32.const 4096))
      (i32.store (i32.const 4) (i32.const 10))
      i32.const 0))
  (core instance $m (instantiate $main))
  (alias core export $m "memory" (core memory $memory))
  (alias core export $m "realloc" (core func $realloc))
  (func (export "step") (param "s" (list u8)) (result (list u8))
    (canon lift (core func $m "step") (memory $memory) (realloc $realloc))))
"#;

static RIG: LazyLock<Rig> = LazyLock::new(|| Rig::new(COUNTER));

fn snapshot_after(steps: u32) -> Snapshot {
    let mut guest = RIG.guest();
    for _ in 0..steps {
        guest.step(b"");
    }
    RIG.take(&mut guest)
}

fn unpack(packed: &[u8]) -> Result<Snapshot, CompactError> {
    RIG.template.unpack(packed, MEMORY_BYTES_MAX)
}

/// Replaces the body and makes the checksum fit, as an attacker would.
fn forged(template: &Template, body: &[u8], body_bytes: u64) -> Vec<u8> {
    let mut packed = template.pack(&snapshot_after(0)).unwrap();
    packed.truncate(40 + 64);
    packed.extend(body_bytes.to_le_bytes());
    packed.extend(zstd::bulk::compress(body, 1).unwrap());
    let checksum = blake3::hash(&packed[40..]);
    packed[8..40].copy_from_slice(checksum.as_bytes());
    packed
}

/// The body of a guest with one memory and one global: fuel, memory size, pages, globals.
fn body(bytes: u64, pages: &[u32], global_kind: u8) -> Vec<u8> {
    let mut body = vec![1];
    body.extend(5_u64.to_le_bytes());
    body.extend(bytes.to_le_bytes());
    body.extend((pages.len() as u32).to_le_bytes());
    body.extend(pages.iter().flat_map(|page| page.to_le_bytes()));
    body.resize(body.len() + pages.len() * 4096, 1);
    body.push(global_kind);
    body.extend(3_u128.to_le_bytes());
    body
}

#[test]
fn a_round_trip_loses_nothing_and_is_small() {
    for steps in [0, 1, 100] {
        let snapshot = snapshot_after(steps);
        let packed = RIG.template.pack(&snapshot).unwrap();
        assert_eq!(unpack(&packed).unwrap(), snapshot);
        assert!(packed.len() < 250, "{} bytes", packed.len());
    }
}

#[test]
fn every_damaged_byte_is_found() {
    let packed = RIG.template.pack(&snapshot_after(3)).unwrap();
    for place in 0..packed.len() {
        let mut damaged = packed.clone();
        damaged[place] ^= 0x10;
        assert!(unpack(&damaged).is_err(), "byte {place}");
        assert!(unpack(&packed[..place]).is_err(), "cut at {place}");
    }
}

#[test]
fn another_component_another_format() {
    let packed = RIG.template.pack(&snapshot_after(1)).unwrap();
    let other = Rig::new(&COUNTER.replace("0123456789", "9876543210"));
    assert!(matches!(other.template.unpack(&packed, MEMORY_BYTES_MAX), Err(CompactError::OtherComponent)));
    // The same component, whose fresh instances were different.
    let mut image = packed.clone();
    image[40 + 32] ^= 1;
    let checksum = blake3::hash(&image[40..]);
    image[8..40].copy_from_slice(checksum.as_bytes());
    assert!(matches!(unpack(&image), Err(CompactError::OtherImage)));
    let mut later = packed.clone();
    later[4] = 2;
    assert!(matches!(unpack(&later), Err(CompactError::Format(2))));
    assert!(matches!(unpack(b"something else"), Err(CompactError::NoSnapshot)));
    assert!(matches!(RIG.template.unpack(&packed, 65_535), Err(CompactError::TooLarge(65_535))));
}

#[test]
fn forged_bodies_are_refused_for_what_they_say() {
    let page = 64 << 10;
    let refused = |body: &[u8]| unpack(&forged(&RIG.template, body, body.len() as u64)).unwrap_err().to_string();
    let good = body(2 * page, &[0, 31], 0);
    assert!(unpack(&forged(&RIG.template, &good, good.len() as u64)).is_ok());
    assert!(unpack(&forged(&RIG.template, &good, good.len() as u64 + 1)).is_err());
    assert!(refused(&body(0, &[], 0)).contains("size"));
    assert!(refused(&body(page + 1, &[], 0)).contains("size"));
    assert!(refused(&body(9 * page, &[], 0)).contains("size"), "beyond the memory's own maximum");
    assert!(refused(&body(MEMORY_BYTES_MAX + page, &[], 0)).contains("more than"));
    assert!(refused(&body(page, &[16], 0)).contains("order"), "beyond the end of the memory");
    assert!(refused(&body(page, &[1, 1], 0)).contains("order"));
    assert!(refused(&body(page, &[2, 1], 0)).contains("order"));
    assert!(refused(&body(page, &[], 1)).contains("type"));
    assert!(refused(&body(page, &[], 9)).contains("type"));
    let mut long = body(page, &[], 0);
    long.push(0);
    assert!(refused(&long).contains("too long for"));
    for size in [2 * MEMORY_BYTES_MAX, u64::MAX] {
        let refused = unpack(&forged(&RIG.template, &good, size));
        assert!(matches!(refused, Err(CompactError::TooLarge(_))), "nothing is allocated for it");
    }
}

/// Any state that the guest can have: one memory of 1 to 8 wasm pages and one global. One byte
/// value fills each page, with another byte at one position.
fn any_snapshot() -> impl Strategy<Value = Snapshot> {
    let pages = |wasm_pages: u64| {
        let numbers = prop::collection::btree_map(0..wasm_pages as u32 * 16, any::<(u8, u16, u8)>(), 0..6);
        numbers.prop_map(move |pages| {
            let mut memory = MemoryState { bytes: wasm_pages << 16, ..MemoryState::default() };
            for (number, (fill, place, byte)) in pages {
                let mut content = [fill; PAGE_BYTES];
                content[usize::from(place) % PAGE_BYTES] = byte;
                memory.push(number, &content);
            }
            memory
        })
    };
    (any::<Option<u64>>(), (1_u64..=8).prop_flat_map(pages), any::<u32>()).prop_map(|(fuel, memory, global)| Snapshot {
        fuel,
        memories: vec![memory],
        globals: vec![GlobalValue::I32(global)],
    })
}

proptest! {
    #[test]
    fn any_state_is_read_as_it_was_written(snapshot in any_snapshot()) {
        let packed = RIG.template.pack(&snapshot).unwrap();
        prop_assert_eq!(unpack(&packed).unwrap(), snapshot);
    }

    /// Whatever is accepted is a state that the guest can have.
    #[test]
    fn damaged_bodies_are_refused_or_are_another_state(
        snapshot in any_snapshot(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), prop::bool::weighted(0.7)), 1..4),
    ) {
        // Most of it is in the head: fuel, size of the memory, number of pages, their numbers.
        let mut body = RIG.template.body(&snapshot);
        for (place, byte, is_in_head) in edits {
            let place = place.index(if is_in_head { 40.min(body.len()) } else { body.len() });
            body[place] = byte;
        }
        if let Ok(found) = unpack(&forged(&RIG.template, &body, body.len() as u64)) {
            prop_assert!(found.memories[0].bytes <= 8 << 16);
            let packed = RIG.template.pack(&found).unwrap();
            prop_assert_eq!(unpack(&packed).unwrap(), found);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(unpack(&bytes).is_err());
        // The same behind a correct header, as bytes of a body, and as compressed bytes.
        let _ = unpack(&forged(&RIG.template, &bytes, bytes.len() as u64));
        let mut packed = forged(&RIG.template, b"", 400);
        packed.extend(&bytes);
        let checksum = blake3::hash(&packed[40..]);
        packed[8..40].copy_from_slice(checksum.as_bytes());
        let _ = unpack(&packed);
    }
}
