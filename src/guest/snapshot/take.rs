//! Takes a snapshot of a live guest.

use super::image::Image;
use super::pagemap;
use super::state::{GlobalValue, MemoryState, PAGE_BYTES, Snapshot};
use super::template::{Handles, Template};
use std::sync::atomic::Ordering;
use wasmtime::AsContextMut;

/// How the pages that differ from a fresh instance's are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Search {
    /// Compare only the pages that the kernel reports as written, or all pages if it does not say.
    /// Now and then compare all of them anyway; if the kernel missed one, it is never asked again.
    #[default]
    Auto,
    /// Compare all pages. This reads the whole memory, so the kernel reports every page from then
    /// on.
    Compare,
    /// Do both, every time: a difference is an error.
    CrossCheck,
}

/// Why no snapshot was taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TakeError {
    /// The kernel did not report a page that was written. The snapshot would have been wrong.
    #[error("the kernel missed {0} written pages")]
    MissedPages(usize),
    /// A memory is smaller than in a fresh instance: these handles belong to another component.
    #[error("the store holds another component")]
    OtherComponent,
}

/// Snapshots between two checks of the kernel's answers. Arbitrary: a check reads the whole memory.
pub(super) const CROSS_CHECK_PERIOD: u32 = 4_096;

impl Template {
    /// Takes a snapshot between two steps. Neither the guest nor its store changes.
    ///
    /// # Errors
    /// Fails if what is found cannot be the whole state; the guest is unharmed.
    ///
    /// # Panics
    /// If `handles` were bound to another store.
    pub fn take(
        &self,
        mut store: impl AsContextMut<Data: 'static>,
        handles: &Handles,
        search: Search,
    ) -> Result<Snapshot, TakeError> {
        let fuel = store.as_context().get_fuel().ok();
        let mut memories = Vec::with_capacity(handles.memories.len());
        for (memory, image) in handles.memories.iter().zip(self.images()) {
            let data = memory.data(store.as_context());
            if data.len() < image.bytes() {
                return Err(TakeError::OtherComponent);
            }
            memories.push(self.diff(data, image, search)?);
        }
        let mut globals = Vec::with_capacity(handles.globals.len());
        for global in &handles.globals {
            let value = GlobalValue::of(&global.get(&mut store)).ok_or(TakeError::OtherComponent)?;
            globals.push(value);
        }
        Ok(Snapshot { fuel, memories, globals })
    }

    pub(super) fn diff(&self, data: &[u8], image: &Image, search: Search) -> Result<MemoryState, TakeError> {
        let trust = self.trust();
        let written = match search {
            Search::Compare => None,
            Search::Auto if trust.lost.load(Ordering::Relaxed) => None,
            Search::Auto | Search::CrossCheck => pagemap::written(data),
        };
        // Asked before anything else reads the memory, since reading maps pages too.
        let Some(written) = written else { return Ok(compare_all(data, image)) };
        let mut state = MemoryState { bytes: data.len() as u64, ..MemoryState::default() };
        for range in written {
            compare(data, range, image, &mut state);
        }
        let due = trust.taken.fetch_add(1, Ordering::Relaxed) % CROSS_CHECK_PERIOD == CROSS_CHECK_PERIOD - 1;
        if due || search == Search::CrossCheck {
            let all = compare_all(data, image);
            if all != state {
                trust.lost.store(true, Ordering::Relaxed);
                return match search {
                    Search::CrossCheck => Err(TakeError::MissedPages(all.pages.len() - state.pages.len())),
                    _ => Ok(all),
                };
            }
        }
        Ok(state)
    }
}

pub(super) fn compare_all(data: &[u8], image: &Image) -> MemoryState {
    let mut state = MemoryState { bytes: data.len() as u64, ..MemoryState::default() };
    compare(data, 0..data.len(), image, &mut state);
    state
}

/// Adds the pages of a range that differ. Ranges come in order.
fn compare(data: &[u8], range: std::ops::Range<usize>, image: &Image, state: &mut MemoryState) {
    let first = range.start / PAGE_BYTES;
    for (page, content) in (first..).zip(data[range].chunks_exact(PAGE_BYTES)) {
        if content != image.page(page) {
            state.push(page as u32, content);
        }
    }
}
