//! A guest without an instance: what is stored of it when it is evicted or saved, and how it is
//! restored.
//!
//! There are two forms. An *image* is the guest's memories and globals, taken without its help
//! ([`super::snapshot`]). A guest whose component has state that an image would not hold may export
//! `snapshot`, and is then asked to encode its state itself. Whatever a guest does while it is
//! asked leaves no trace in the run: its log lines are dropped, and its random stream continues
//! where it was.

use super::binding::{Binding, Returned};
use super::context::{Context, HostState, prepare};
use super::images::Held;
use super::loaded::Loaded;
use super::metering::{FuelMeter, SAVE_FUEL};
use super::poll::block_on;
use super::snapshot::{CompactError, Handles, Search, Snapshot, Template, Unfit};
use crate::process::{Form, Limits, Problem, ProcessSnapshot, RawSnapshot, SnapshotError, Timestamp};
use bytes::Bytes;
use std::sync::Arc;
use wasmtime::Store;

/// Bytes of a state that a guest encoded itself. Arbitrary: what a guest passes otherwise is less.
pub(crate) const ENCODED_BYTES_MAX: usize = 64 << 20;

/// Bytes of an encoded image from which reading it may take longer than a turn. Measured: some
/// hundred microseconds.
const SLOW_IMAGE_BYTES: usize = 32 << 10;

/// The state of a guest.
#[derive(Clone)]
pub(crate) enum Stored {
    /// An encoded image, or what the guest encoded itself, with its room reserved.
    Held(Form, Held),
    /// An image, on its way into an instance or into a snapshot store.
    Image(Box<Snapshot>),
    /// What the guest encoded itself, on the same way.
    GuestEncoded(Bytes),
}

impl Stored {
    pub(crate) fn form(&self) -> Form {
        match self {
            Self::Held(form, _) => *form,
            Self::Image(_) => Form::Image,
            Self::GuestEncoded(_) => Form::GuestEncoded,
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
    pub(crate) state: Stored,
    /// Bytes that differ from a fresh instance's; 0 for the guest's own encoding, where they are
    /// unknown.
    pub(crate) bytes: usize,
    pub(crate) host: HostState,
}

/// The result of asking a guest to encode its state.
pub(crate) enum Encoding {
    /// The guest encoded it.
    Done(Bytes),
    /// The guest refused.
    Refused,
    /// The guest trapped, ran out of fuel or broke the contract: the instance is gone.
    Lost(wasmtime::Error),
}

/// Takes the state of an instance between two steps. `None` if that is impossible; nothing has
/// changed then.
pub(crate) fn take(loaded: &Loaded, store: &mut Store<Context>) -> Option<Snapshot> {
    let template = loaded.template()?;
    if !store.data_mut().holds_no_state() {
        return None;
    }
    let handles = handles(template, store).ok()?;
    template.take(&mut *store, &handles, Search::Auto).ok()
}

/// Resets the instance of a guest that has closed to a fresh one. Returns how many pages it holds;
/// `None` if that is impossible, and the instance is then useless.
pub(crate) fn reset(loaded: &Loaded, store: &mut Store<Context>, pages_max: usize) -> Option<usize> {
    let template = loaded.template()?;
    if !store.data().holds_no_state() {
        return None;
    }
    let handles = handles(template, store).ok()?;
    template.reset(&mut *store, &handles, pages_max).ok()
}

/// Whether a reset instance can be trusted.
pub(crate) fn can_reset(loaded: &Loaded) -> bool {
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
pub(crate) fn encode(binding: &dyn Binding, mut store: Store<Context>, now: Timestamp) -> (Store<Context>, Encoding) {
    let host = store.data().save();
    prepare(&mut store, now, SAVE_FUEL);
    let usual = store.data().hostcall_bytes_max();
    store.set_hostcall_fuel(ENCODED_BYTES_MAX);
    let Some(call) = binding.save(store) else { unreachable!("invariant: a guest that is asked has the export") };
    // Its fuel bounds it.
    let Returned { mut store, result } = block_on(call);
    store.set_hostcall_fuel(usual);
    store.data_mut().discard_log();
    store.data_mut().restore(&host);
    let encoding = match result {
        Ok(Ok(state)) if state.len() <= ENCODED_BYTES_MAX => Encoding::Done(state.into()),
        Ok(_) => Encoding::Refused,
        Err(error) => Encoding::Lost(error),
    };
    (store, encoding)
}

/// Puts a guest's state into its fresh instance.
pub(crate) async fn restore(
    loaded: &Loaded,
    binding: &dyn Binding,
    mut store: Store<Context>,
    evicted: &Evicted,
) -> (Store<Context>, wasmtime::Result<()>) {
    let restored = match &evicted.state {
        Stored::Image(snapshot) => restore_image(loaded, &mut store, snapshot),
        Stored::Held(Form::Image, held) => restore_packed(loaded, &mut store, held),
        Stored::GuestEncoded(_) | Stored::Held(Form::GuestEncoded, _) => {
            store.data_mut().restore(&evicted.host);
            let loaded;
            (store, loaded) = load(binding, store, &evicted.state).await;
            store.data_mut().discard_log();
            loaded
        }
    };
    store.data_mut().restore(&evicted.host);
    (store, restored)
}

/// Gives a guest the state that it encoded itself.
async fn load(binding: &dyn Binding, store: Store<Context>, stored: &Stored) -> (Store<Context>, wasmtime::Result<()>) {
    let state = match stored {
        Stored::Held(_, held) => match held.read() {
            Ok(state) => state,
            Err(error) => return (store, Err(error.into())),
        },
        Stored::GuestEncoded(state) => state.clone(),
        Stored::Image(_) => unreachable!("invariant: the caller has matched it"),
    };
    let Some(call) = binding.load(store, state.into()) else {
        unreachable!("invariant: a guest that encoded its state has the export")
    };
    let Returned { store, result } = call.await;
    (store, result.and_then(|loaded| loaded.map_err(|problem| StateRefused(problem).into())))
}

fn restore_packed(loaded: &Loaded, store: &mut Store<Context>, held: &Held) -> wasmtime::Result<()> {
    let template = loaded.template().expect("invariant: the image is of this template");
    let snapshot = template.unpack(&held.read()?, store.data().limits().memory_bytes)?;
    restore_image(loaded, store, &snapshot)
}

pub(super) fn restore_image(loaded: &Loaded, store: &mut Store<Context>, snapshot: &Snapshot) -> wasmtime::Result<()> {
    let template = loaded.template().expect("invariant: the image is of this template");
    let handles = handles(template, store)?;
    template.restore(&mut *store, &handles, snapshot)?;
    Ok(())
}

/// A guest refuses a state that a guest of its component encoded.
#[derive(Debug, thiserror::Error)]
#[error("it refuses the state that it saved: {0}")]
pub(crate) struct StateRefused(Problem);

/// What a guest took for [`crate::process::Body::save`].
pub(crate) struct RawGuest {
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) state: Stored,
    pub(crate) host: HostState,
    pub(crate) fuel: FuelMeter,
}

impl RawSnapshot for RawGuest {
    fn pack(self: Box<Self>) -> Result<ProcessSnapshot, SnapshotError> {
        let Self { loaded, state, host, fuel } = *self;
        let template = || loaded.template().expect("invariant: the image is of this template");
        let failed = |error: CompactError| SnapshotError::Misfit(error.to_string());
        let (form, digest, state) = match state {
            Stored::GuestEncoded(state) => (Form::GuestEncoded, blake3::hash(&state), state),
            Stored::Image(snapshot) => {
                let packed = template().pack(&snapshot).map_err(failed)?;
                (Form::Image, snapshot.digest(), packed.into())
            }
            Stored::Held(form, held) => {
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
        match &self.state {
            Stored::Held(_, held) => held.memory_bytes(),
            Stored::GuestEncoded(state) => state.len(),
            Stored::Image(snapshot) => snapshot.heap_bytes(),
        }
    }
}

/// Reads a snapshot as what is stored of a guest.
///
/// # Errors
/// Fails if the snapshot does not fit the component.
pub(crate) fn read(loaded: &Loaded, limits: &Limits, saved: &ProcessSnapshot) -> Result<Evicted, SnapshotError> {
    saved.is_of(&loaded.digest(), loaded.contract())?;
    let misfit = |why: &dyn std::fmt::Display| SnapshotError::Misfit(why.to_string());
    let (state, bytes) = match saved.form {
        Form::Image => {
            let template = loaded.template().ok_or_else(|| misfit(&"the component's instances have no images here"))?;
            let snapshot = template.unpack(&saved.state, limits.memory_bytes).map_err(|error| misfit(&error))?;
            let bytes = snapshot.heap_bytes();
            (Stored::Image(Box::new(snapshot)), bytes)
        }
        Form::GuestEncoded if loaded.exports_snapshot() => {
            if saved.state.len() > ENCODED_BYTES_MAX {
                return Err(misfit(&"the state that the guest encoded is too long"));
            }
            (Stored::GuestEncoded(saved.state.clone()), 0)
        }
        Form::GuestEncoded => return Err(misfit(&"the component does not export `snapshot`")),
    };
    let host = HostState { random_position: saved.random, next_tag: saved.next_tag.0 };
    Ok(Evicted { state, bytes, host })
}

/// Whether [`read`] may take longer than a turn.
pub(crate) fn restores_slowly(loaded: &Loaded, saved: &ProcessSnapshot) -> bool {
    saved.form == Form::Image && (loaded.has_to_learn() || saved.state.len() > SLOW_IMAGE_BYTES)
}
