//! How many instances fit: computed from what the kernel allows, not guessed.

use crate::process::Permit;

/// Kernel maps that a live pooled guest takes: four for its memory, two for its stack. Derived from
/// how the pool lays them out; `/proc/self/maps` shows them.
const MAPS_PER_GUEST: u64 = 6;

/// The part of the kernel's maps left to the rest of the process, as a divisor: a quarter.
/// Arbitrary.
const MAPS_RESERVE_DIVISOR: u64 = 4;

/// Linux's default of `vm.max_map_count`, used if it cannot be read.
const MAP_COUNT_MAX_DEFAULT: u64 = 65_530;

/// Arbitrary: beyond it, eviction is the better answer.
const SLOTS_MAX: u64 = 20_000;

/// Tables that one slot adds to the pool: as many as a Python guest has. An unused table is 160 KB
/// of addresses and nothing else.
const TABLES_PER_SLOT: u32 = 40;

/// From this many tables on, slots add fewer: 10 GB of addresses. That is enough for fifteen
/// hundred Python guests, and more when other guests leave tables unused.
const TABLES_PLENTY: u32 = 64 << 10;

/// Tables that each slot adds in the largest pools: most guests have one table.
const TABLES_PER_SLOT_MIN: u32 = 2;

/// Core instances that one slot adds. Their number costs nothing: wasmtime only counts them.
const CORE_INSTANCES_PER_SLOT: u32 = 64;

/// The kernel's limit on this process's maps.
pub(crate) fn map_count_max() -> u64 {
    std::fs::read_to_string("/proc/sys/vm/max_map_count")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(MAP_COUNT_MAX_DEFAULT)
}

/// The most slots for which this machine's kernel has room.
#[must_use]
pub fn slots_max() -> u32 {
    slots(map_count_max())
}

/// How many guests may be live at the same time with this many kernel maps.
pub(crate) fn slots(map_count_max: u64) -> u32 {
    let maps = map_count_max - map_count_max / MAPS_RESERVE_DIVISOR;
    let slots = (maps / MAPS_PER_GUEST).clamp(1, SLOTS_MAX);
    u32::try_from(slots).expect("invariant: bounded by SLOTS_MAX")
}

/// The capacity of a pool of this many slots.
pub(crate) fn capacity(slots: u32) -> Permit {
    Permit {
        instances: slots,
        core_instances: slots.saturating_mul(CORE_INSTANCES_PER_SLOT),
        memories: slots,
        tables: slots.saturating_mul(TABLES_PER_SLOT).min(TABLES_PLENTY).max(slots.saturating_mul(TABLES_PER_SLOT_MIN)),
        bytes: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stock_kernel_gives_about_eight_thousand_slots() {
        assert_eq!(slots(MAP_COUNT_MAX_DEFAULT), 8_191);
    }

    #[test]
    fn a_raised_limit_gives_more_but_not_without_end() {
        assert_eq!(slots(100_000), 12_500);
        assert_eq!(slots(1 << 30), 20_000);
    }

    #[test]
    fn each_slot_of_an_ordinary_pool_takes_a_python_guest() {
        let python = Permit { instances: 1, core_instances: 39, memories: 1, tables: 38, bytes: 0 };
        for slots in [1, 64, 1_500] {
            let all = capacity(slots);
            assert!(all.tables >= slots * python.tables && all.core_instances >= slots * python.core_instances);
        }
        assert_eq!(capacity(20_000).tables, 65_536);
        assert_eq!(capacity(40_000).tables, 80_000);
    }

    #[test]
    fn a_tiny_limit_still_gives_one() {
        assert_eq!(slots(4), 1);
    }
}
