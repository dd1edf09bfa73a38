//! Makes a used instance equal to a fresh one, without instantiating.
//!
//! A snapshot holds everything that distinguishes one instance of a component from another (I4 of
//! the room), so it is enough to undo that: the written pages get the bytes of the fresh image, the
//! mutable globals their first values. A memory that has grown cannot shrink, and its instance
//! cannot be reset.
//!
//! The next guest in the instance may belong to another customer, and only the kernel knows which
//! pages were written, as in wasmtime's pool. So the kernel is tested before it is relied on
//! ([`Template::probe`]), and once it has missed a page, nothing is reset any more. Where the
//! kernel does not say, nothing is reset either.

use super::pagemap;
use super::state::PAGE_BYTES;
use super::take::compare_all;
use super::template::{Handles, Template};
use std::sync::atomic::Ordering;
use wasmtime::AsContextMut;

/// Pages that the kernel may name: those written, and those of zeros that were only read. Derived:
/// comparing this many takes some twenty microseconds.
const NAMED_MAX: usize = 512;

/// The kernel test writes one page in this many.
const TEST_STRIDE: usize = 3;

/// Why an instance was not reset. It must be dropped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResetError {
    /// A memory is larger than in a fresh instance.
    #[error("a memory has grown")]
    Grown,
    /// More pages have been written than the caller allows, or more have been used than are worth
    /// comparing.
    #[error("too many pages have been written")]
    Pages,
    /// The kernel does not say which pages have been written, or has missed one.
    #[error("the kernel does not say which pages were written")]
    Unknown,
    /// The engine refused a value.
    #[error("the engine refuses the fresh state: {0}")]
    Engine(wasmtime::Error),
}

impl Template {
    /// Returns whether the kernel has named every written page so far.
    #[must_use]
    pub fn trusts_the_kernel(&self) -> bool {
        !self.trust().lost.load(Ordering::Relaxed)
    }

    /// Makes an instance between two calls equal to a fresh one, if that takes writing at most
    /// `pages_max` pages. Returns how many pages the instance may hold in memory.
    ///
    /// # Errors
    /// Fails with the reason why the instance is not reset.
    ///
    /// # Panics
    /// If `handles` were bound to another store.
    pub fn reset(
        &self,
        mut store: impl AsContextMut<Data: 'static>,
        handles: &Handles,
        pages_max: usize,
    ) -> Result<usize, ResetError> {
        if !self.trusts_the_kernel() {
            return Err(ResetError::Unknown);
        }
        let (mut named, mut differing) = (0, 0);
        for (memory, image) in handles.memories.iter().zip(self.images()) {
            let data = memory.data_mut(store.as_context_mut());
            if data.len() != image.bytes() {
                return Err(ResetError::Grown);
            }
            let written = pagemap::written(data).ok_or(ResetError::Unknown)?;
            named += written.iter().map(|range| range.len().div_ceil(PAGE_BYTES)).sum::<usize>();
            if named > NAMED_MAX {
                return Err(ResetError::Pages);
            }
            for range in written {
                let first = range.start / PAGE_BYTES;
                for (page, content) in (first..).zip(data[range].chunks_exact_mut(PAGE_BYTES)) {
                    let fresh = image.page(page);
                    // A page that was only read stays as it is: writing it would give it memory of
                    // its own.
                    if content != fresh {
                        differing += 1;
                        if differing > pages_max {
                            return Err(ResetError::Pages);
                        }
                        content.copy_from_slice(fresh);
                    }
                }
            }
        }
        for (global, value) in handles.globals.iter().zip(self.fresh_globals()) {
            global.set(&mut store, value.to_val()).map_err(ResetError::Engine)?;
        }
        Ok(named)
    }

    /// Writes to a throw-away instance and checks that the kernel names the pages.
    pub(super) fn test_kernel(&self, mut store: impl AsContextMut<Data: 'static>, handles: &Handles) {
        for (memory, image) in handles.memories.iter().zip(self.images()) {
            let data = memory.data_mut(store.as_context_mut());
            for content in data.chunks_exact_mut(PAGE_BYTES).step_by(TEST_STRIDE) {
                content[0] ^= 1;
            }
            let Some(written) = pagemap::written(data) else { continue };
            for range in written {
                let first = range.start / PAGE_BYTES;
                for (page, content) in (first..).zip(data[range].chunks_exact_mut(PAGE_BYTES)) {
                    content.copy_from_slice(image.page(page));
                }
            }
            if !compare_all(data, image).pages.is_empty() {
                self.trust().lost.store(true, Ordering::Relaxed);
            }
        }
    }
}
