//! Which pages of a private mapping this process has written, according to the kernel.

use std::sync::atomic::{AtomicBool, AtomicU32};

/// Whether the kernel's answers are trusted, for all guests of a template.
#[derive(Default, Debug)]
pub(super) struct KernelTrust {
    /// Snapshots so far. Every thread that takes one reads and writes it; only its remainder
    /// matters.
    pub(super) taken: AtomicU32,
    /// Set for good by a thread that finds a page that the kernel missed. It guards no other data,
    /// so no ordering is needed.
    pub(super) lost: AtomicBool,
}

/// Bytes of an entry of `/proc/self/pagemap`.
#[cfg(target_os = "linux")]
const ENTRY_BYTES: usize = 8;

/// The kernel's file, and the process whose memory it describes.
#[cfg(target_os = "linux")]
struct Pagemap {
    file: std::fs::File,
    /// The process that opened it. The file describes that process's memory even in a forked child.
    process: u32,
    page_bytes: usize,
}

#[cfg(target_os = "linux")]
fn pagemap() -> Option<&'static Pagemap> {
    static PAGEMAP: std::sync::OnceLock<Option<Pagemap>> = std::sync::OnceLock::new();
    let opened = PAGEMAP.get_or_init(|| {
        let file = std::fs::File::open("/proc/self/pagemap").ok()?;
        Some(Pagemap { file, process: std::process::id(), page_bytes: kernel_page_bytes()? })
    });
    opened.as_ref().filter(|pagemap| pagemap.process == std::process::id())
}

/// The size of the kernel's pages, from the auxiliary vector (`AT_PAGESZ` of getauxval(3)).
#[cfg(target_os = "linux")]
fn kernel_page_bytes() -> Option<usize> {
    const AT_PAGESZ: usize = 6;
    let vector = std::fs::read("/proc/self/auxv").ok()?;
    let (words, _) = vector.as_chunks::<{ size_of::<usize>() }>();
    let mut words = words.iter().map(|word| usize::from_ne_bytes(*word));
    while let (Some(key), Some(value)) = (words.next(), words.next()) {
        if key == AT_PAGESZ {
            return value.is_power_of_two().then_some(value);
        }
    }
    None
}

/// Byte ranges of `memory`, in order, that may have been written since they were mapped: together
/// they hold every written byte. `None` if the kernel does not say.
///
/// A page of this process's own, copied from a copy-on-write image or from untouched zeros, has an
/// entry that is present or swapped out (bits 63 and 62) and neither of a file nor shared (bit 61).
/// See Linux, `Documentation/admin-guide/mm/pagemap.rst`. Wasmtime's memories are private mappings,
/// so nothing written is ever missing.
#[cfg(target_os = "linux")]
pub(super) fn written(memory: &[u8]) -> Option<Vec<std::ops::Range<usize>>> {
    use std::os::unix::fs::FileExt;
    let pagemap = pagemap()?;
    let page_bytes = pagemap.page_bytes;
    let address = memory.as_ptr().addr();
    if !address.is_multiple_of(page_bytes) {
        return None;
    }
    let mut entries = vec![0; memory.len().div_ceil(page_bytes) * ENTRY_BYTES];
    let offset = (address / page_bytes * ENTRY_BYTES) as u64;
    pagemap.file.read_exact_at(&mut entries, offset).ok()?;
    let (entries, _) = entries.as_chunks::<ENTRY_BYTES>();
    let own = entries.iter().enumerate().filter(|(_, entry)| {
        let entry = u64::from_ne_bytes(**entry);
        entry >> 62 != 0 && entry >> 61 & 1 == 0
    });
    Some(own.map(|(page, _)| page * page_bytes..((page + 1) * page_bytes).min(memory.len())).collect())
}

/// Other kernels do not say.
#[cfg(not(target_os = "linux"))]
pub(super) fn written(_memory: &[u8]) -> Option<Vec<std::ops::Range<usize>>> {
    None
}
