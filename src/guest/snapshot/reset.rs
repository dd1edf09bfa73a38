//! Makes an instance that has been used what a fresh one is, without instantiating.
//!
//! What a snapshot holds is all that tells one instance of a component from another (I4 of the
//! room), so to undo it is enough: the written pages get the bytes of the fresh image, the mutable
//! globals their first values. A memory that has grown cannot be made smaller again, and its
//! instance cannot be reset.
//!
//! The next guest in the instance may be another customer's, and which pages were written is the
//! kernel's word, as it is for wasmtime's pool. So it is put to the test before it is relied on
//! ([`Template::probe`]), and once a page was missed, nothing is reset any more. Where the kernel
//! does not say, nothing is reset either.

use super::pagemap;
use super::state::PAGE_BYTES;
use super::take::compare_all;
use super::template::{Handles, Template};
use std::sync::atomic::Ordering;
use wasmtime::AsContextMut;

/// Pages that the kernel may name: those that were written and those of zeros that were only read.
/// Derived: to compare so many takes some twenty microseconds.
const NAMED_MAX: usize = 512;

/// Every so many pages are written when the kernel is put to the test.
const TEST_STRIDE: usize = 3;

/// Why an instance was not reset. It is to be dropped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResetError {
    /// A memory is larger than in a fresh instance.
    #[error("a memory has grown")]
    Grown,
    /// More pages have been written than the caller allows, or more have been used than are worth comparing.
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
    /// Whether the kernel has named every page so far.
    #[must_use]
    pub fn trusts_the_kernel(&self) -> bool {
        !self.trust().lost.load(Ordering::Relaxed)
    }

    /// Makes an instance between two calls equal to a fresh one, where no more pages than
    /// `pages_max` have to be written for it. Returns how many pages it may hold in memory.
    ///
    /// # Errors
    /// Why the instance is not reset.
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
                    // A page that was only read stays what it is: to write it would give it memory of its own.
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

    /// Writes to a throw-away instance and sees whether the kernel names the pages.
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
