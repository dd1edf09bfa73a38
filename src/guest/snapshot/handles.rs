//! Moves the handles of one store's memories and globals to another store. Together with the cache
//! of compiled code, this is all the unsafe code there is.
//!
//! [`Memory`] and [`Global`] are `Copy`, hold no pointer, and begin with the number of their store
//! (a `NonZeroU64`), followed by the number of the instance and of the item within it. Wasmtime
//! gives them a C layout and asserts size, alignment and the offset of that first field at compile
//! time, since its C API passes them by value. A handle is checked against its store whenever it is
//! used. So a handle with another store's number in it is exactly the handle that this store would
//! have given for its own item of the same numbers; and if there is no such item, using it panics.
//!
//! The one thing relied on beyond wasmtime's promises is this layout, for one pinned version. The
//! assertions below and [`Template::probe`](super::Template::probe), which rebases the handles of
//! one store and compares them with those of a second, detect a change. The guest then cannot be
//! snapshotted, and nothing worse happens.
#![allow(unsafe_code)]

use std::fmt::Debug;
use std::num::NonZeroU64;
use wasmtime::{Global, Memory};

const _: () = {
    assert!(size_of::<Memory>() == 24 && align_of::<Memory>() == align_of::<NonZeroU64>());
    assert!(size_of::<Global>() == 24 && align_of::<Global>() == align_of::<NonZeroU64>());
};

/// The number of a store, as its handles carry it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct StoreNumber(NonZeroU64);

/// Handles that begin with the number of their store.
///
/// # Safety
/// The type is `Copy` and `repr(C)`, its first field is a `NonZeroU64`, and any number of a store
/// is valid there.
pub(super) unsafe trait Handle: Copy + Debug {}

// SAFETY: the module's documentation says why, and what checks it.
unsafe impl Handle for Memory {}
// SAFETY: likewise.
unsafe impl Handle for Global {}

/// The number of the store that a handle belongs to.
pub(super) fn store_number<H: Handle>(handle: &H) -> StoreNumber {
    // SAFETY: by the contract of `Handle` its first eight bytes are an initialised `NonZeroU64`,
    // aligned as the handle is.
    StoreNumber(unsafe { std::ptr::from_ref(handle).cast::<NonZeroU64>().read() })
}

/// The handle of another store's item with the same numbers.
pub(super) fn rebase<H: Handle>(mut handle: H, store: StoreNumber) -> H {
    // SAFETY: as above; a `StoreNumber` only ever comes out of a handle, so it is the number of a
    // store.
    unsafe { std::ptr::from_mut(&mut handle).cast::<NonZeroU64>().write(store.0) };
    handle
}

/// Whether two handles of different stores name the items with the same numbers. Compares what
/// wasmtime prints for them, since their bytes have padding.
pub(super) fn same_item<H: Handle>(one: H, other: H) -> bool {
    format!("{:?}", rebase(one, store_number(&other))) == format!("{other:?}")
}
