//! A guest without an instance: what is stored of it when it is evicted or saved, and how it is
//! restored.
//!
//! There are two forms. An *image* is the guest's memories and globals, taken without its help
//! ([`super::snapshot`]). A guest whose component has state that an image would not hold may export
//! `snapshot`, and is then asked to encode its state itself. Whatever a guest does while it is
//! asked leaves no trace in the run: its log lines are dropped, and its random stream continues
//! where it was.

use super::binding::{Binding, Returned};
use super::body::{Guest, prepare};
use super::component::Loaded;
use super::context::{Context, HostState};
use super::images::Held;
use super::metering::{FuelMeter, SAVE_FUEL};
use super::poll::block_on;
use super::snapshot::{CompactError, Handles, Search, Snapshot, Template, Unfit};
use crate::process::{Form, Micros, Problem, ProcessInit, ProcessSnapshot, RawSnapshot, SnapshotError};
use bytes::Bytes;
use std::sync::Arc;
use wasmtime::Store;

/// Bytes of a state that a guest encoded itself. Arbitrary: what a guest passes otherwise is less.
pub(crate) const OWN_BYTES_MAX: usize = 64 << 20;

/// Bytes of an encoded image from which reading it may take longer than a turn. Measured: some
/// hundred microseconds.
const SLOW_IMAGE_BYTES: usize = 32 << 10;

/// The state of a guest.
#[derive(Clone)]
pub(crate) enum Kept {
    /// An encoded image, or what the guest encoded itself, with its room reserved.
    Held(Form, Held),
    /// An image, on its way into an instance or into a snapshot store.
    Image(Box<Snapshot>),
    /// What the guest encoded itself, on the same way.
    Own(Bytes),
}

impl Kept {
    pub(crate) fn form(&self) -> Form {
        match self {
            Self::Held(form, _) => *form,
            Self::Image(_) => Form::Image,
            Self::Own(_) => Form::GuestEncoded,
        }
    }

    /// Whether it is on disk.
    pub(crate) fn is_spilled(&self) -> bool {
        matches!(self, Self::Held(_, held) if held.is_spilled())
    }
}

/// What is stored of a guest that has no instance: all that it needs to continue.
#[derive(Clone)]
pub(crate) struct Evicted {
    pub(crate) kept: Kept,
    /// Bytes that differ from a fresh instance's; 0 for the guest's own encoding, where they are
    /// unknown.
    pub(crate) bytes: usize,
    pub(crate) host: HostState,
}

/// The result of asking a guest to encode its state.
pub(crate) enum Asked {
    /// The guest encoded it.
    Gave(Bytes),
    /// The guest refused.
    Refused,
    /// The guest trapped, ran out of fuel or broke the contract: the instance is gone.
    Lost(wasmtime::Error),
}

/// Takes the state of an instance between two steps. `None` if that is impossible; nothing has
/// changed then.
pub(crate) fn take(loaded: &Loaded, store: &mut Store<Context>) -> Option<Snapshot> {
    let template = loaded.template()?;
    if !store.data_mut().holds_nothing() {
        return None;
    }
    let handles = handles(template, store).ok()?;
    template.take(&mut *store, &handles, Search::Auto).ok()
}

/// Resets the instance of a guest that has closed to a fresh one. Returns how many pages it holds;
/// `None` if that is impossible, and the instance is then useless.
pub(crate) fn reset(loaded: &Loaded, store: &mut Store<Context>, pages_max: usize) -> Option<usize> {
    let template = loaded.template()?;
    if !store.data().holds_nothing() {
        return None;
    }
    let handles = handles(template, store).ok()?;
    template.reset(&mut *store, &handles, pages_max).ok()
}

/// Whether a reset instance can be trusted.
pub(crate) fn may_reset(loaded: &Loaded) -> bool {
    !loaded.has_to_learn() && loaded.template().is_some_and(Template::trusts_the_kernel)
}

/// The handles of a store, bound once.
fn handles(template: &Template, store: &mut Store<Context>) -> Result<Arc<Handles>, Unfit> {
    if let Some(handles) = &store.data().handles {
        return Ok(Arc::clone(handles));
    }
    let handles = Arc::new(template.bind(&mut *store)?);
    store.data_mut().handles = Some(Arc::clone(&handles));
    Ok(handles)
}

/// Encodes an image. Also returns its bytes before that.
pub(crate) fn pack(loaded: &Loaded, snapshot: &Snapshot) -> Option<(Bytes, usize)> {
    let packed = loaded.template()?.pack(snapshot).ok()?;
    Some((packed.into(), snapshot.heap_bytes()))
}

/// Asks a guest to encode its state.
pub(crate) fn ask(binding: &dyn Binding, mut store: Store<Context>, now: Micros) -> (Store<Context>, Asked) {
    let host = store.data().save();
    prepare(&mut store, now, SAVE_FUEL);
    let usual = store.data().handed_over_max();
    store.set_hostcall_fuel(OWN_BYTES_MAX);
    let Some(call) = binding.save(store) else { unreachable!("invariant: who is asked has the export") };
    // Its fuel bounds it.
    let Returned { mut store, result } = block_on(call);
    store.set_hostcall_fuel(usual);
    store.data_mut().discard_log();
    store.data_mut().restore(&host);
    let asked = match result {
        Ok(Ok(state)) if state.len() <= OWN_BYTES_MAX => Asked::Gave(state.into()),
        Ok(_) => Asked::Refused,
        Err(error) => Asked::Lost(error),
    };
    (store, asked)
}

/// Puts a guest's state into its fresh instance.
pub(crate) async fn restore(
    loaded: &Loaded,
    binding: &dyn Binding,
    mut store: Store<Context>,
    evicted: &Evicted,
) -> (Store<Context>, wasmtime::Result<()>) {
    let restored = match &evicted.kept {
        Kept::Image(snapshot) => put_image(loaded, &mut store, snapshot),
        Kept::Held(Form::Image, held) => put_packed(loaded, &mut store, held),
        Kept::Own(_) | Kept::Held(Form::GuestEncoded, _) => {
            store.data_mut().restore(&evicted.host);
            let loaded;
            (store, loaded) = load(binding, store, &evicted.kept).await;
            store.data_mut().discard_log();
            loaded
        }
    };
    store.data_mut().restore(&evicted.host);
    (store, restored)
}

/// Gives a guest the state that it encoded itself.
async fn load(binding: &dyn Binding, store: Store<Context>, kept: &Kept) -> (Store<Context>, wasmtime::Result<()>) {
    let state = match kept {
        Kept::Held(_, held) => match held.read() {
            Ok(state) => state,
            Err(error) => return (store, Err(error.into())),
        },
        Kept::Own(state) => state.clone(),
        Kept::Image(_) => unreachable!("invariant: the caller has looked"),
    };
    let Some(call) = binding.load(store, state.into()) else {
        unreachable!("invariant: a guest's own form is kept where the export is")
    };
    let Returned { store, result } = call.await;
    (store, result.and_then(|loaded| loaded.map_err(|problem| StateRefused(problem).into())))
}

fn put_packed(loaded: &Loaded, store: &mut Store<Context>, held: &Held) -> wasmtime::Result<()> {
    let template = loaded.template().expect("invariant: the image is of this template");
    let snapshot = template.unpack(&held.read()?, store.data().limits().memory_bytes)?;
    put_image(loaded, store, &snapshot)
}

fn put_image(loaded: &Loaded, store: &mut Store<Context>, snapshot: &Snapshot) -> wasmtime::Result<()> {
    let template = loaded.template().expect("invariant: the image is of this template");
    let handles = handles(template, store)?;
    template.restore(&mut *store, &handles, snapshot)?;
    Ok(())
}

/// A guest refuses a state that a guest of its component encoded.
#[derive(Debug, thiserror::Error)]
#[error("it refuses the state that it gave: {0}")]
pub(crate) struct StateRefused(Problem);

/// What [`Guest`] took for [`crate::process::Body::save`].
pub(crate) struct TakenGuest {
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) kept: Kept,
    pub(crate) host: HostState,
    pub(crate) fuel: FuelMeter,
}

impl RawSnapshot for TakenGuest {
    fn pack(self: Box<Self>) -> Result<ProcessSnapshot, SnapshotError> {
        let Self { loaded, kept, host, fuel } = *self;
        let template = || loaded.template().expect("invariant: the image is of this template");
        let failed = |error: CompactError| SnapshotError::Misfit(error.to_string());
        let (form, digest, state) = match kept {
            Kept::Own(state) => (Form::GuestEncoded, blake3::hash(&state), state),
            Kept::Image(snapshot) => {
                let packed = template().pack(&snapshot).map_err(failed)?;
                (Form::Image, snapshot.digest(), packed.into())
            }
            Kept::Held(form, held) => {
                let state = held.read().map_err(|error| SnapshotError::Misfit(error.to_string()))?;
                match form {
                    Form::GuestEncoded => (form, blake3::hash(&state), state),
                    Form::Image => (form, template().unpack(&state, u64::MAX).map_err(failed)?.digest(), state),
                }
            }
        };
        let mut beside = blake3::Hasher::new();
        beside.update(digest.as_bytes());
        beside.update(&host.next_tag.to_le_bytes());
        beside.update(&host.random_position.unwrap_or(u128::MAX).to_le_bytes());
        Ok(ProcessSnapshot {
            program: loaded.digest(),
            contract: loaded.contract().into(),
            next_tag: crate::process::Tag(host.next_tag),
            random: host.random_position,
            fuel: fuel.used(),
            form,
            digest: beside.finalize().into(),
            state,
        })
    }

    fn bytes(&self) -> usize {
        match &self.kept {
            Kept::Held(_, held) => held.memory_bytes(),
            Kept::Own(state) => state.len(),
            Kept::Image(snapshot) => snapshot.heap_bytes(),
        }
    }
}

/// Makes a guest that continues from a snapshot.
pub(crate) fn restored(
    loaded: &Arc<Loaded>,
    init: ProcessInit,
    saved: &ProcessSnapshot,
) -> Result<Guest, SnapshotError> {
    saved.is_of(&loaded.digest(), loaded.contract())?;
    let misfit = |why: &dyn std::fmt::Display| SnapshotError::Misfit(why.to_string());
    let (kept, bytes) = match saved.form {
        Form::Image => {
            let template = loaded.template().ok_or_else(|| misfit(&"the component's instances have no images here"))?;
            let snapshot = template.unpack(&saved.state, init.limits.memory_bytes).map_err(|error| misfit(&error))?;
            let bytes = snapshot.heap_bytes();
            (Kept::Image(Box::new(snapshot)), bytes)
        }
        Form::GuestEncoded if loaded.has_own() => {
            if saved.state.len() > OWN_BYTES_MAX {
                return Err(misfit(&"the guest's own form is too long"));
            }
            (Kept::Own(saved.state.clone()), 0)
        }
        Form::GuestEncoded => return Err(misfit(&"the component does not export `snapshot`")),
    };
    let host = HostState { random_position: saved.random, next_tag: saved.next_tag.0 };
    Ok(Guest::evicted(Arc::clone(loaded), init, FuelMeter::of(saved.fuel), Evicted { kept, bytes, host }))
}

/// Whether [`restored`] may take longer than a turn.
pub(crate) fn restores_slowly(loaded: &Loaded, saved: &ProcessSnapshot) -> bool {
    saved.form == Form::Image && (loaded.has_to_learn() || saved.state.len() > SLOW_IMAGE_BYTES)
}
