//! An instance between two calls, and how a guest obtains one.

use super::binding::Binding;
use super::context::{Context, prepare};
use super::loaded::Loaded;
use super::metering::INSTANTIATE_FUEL;
use super::script::give_birth;
use super::spares;
use crate::process::{Allocation, Grants, Limits, Payload, Pid, ProcessInit, Tag, Timestamp};
use std::sync::Arc;
use wasmtime::Store;

/// An instance in its store.
pub(super) struct Instance {
    pub(super) store: Store<Context>,
    pub(super) binding: Box<dyn Binding>,
}

impl Instance {
    /// Drops what belonged to the guest that has ended.
    pub(super) fn drop_guest(&mut self, loaded: &Loaded) {
        let blank = ProcessInit {
            run: "".into(),
            holder: "".into(),
            pid: Pid::ROOT,
            seed: [0; 32],
            entry: "".into(),
            input: Payload::NULL,
            limits: Arc::clone(&self.store.data().init().limits),
            grants: Grants::default(),
            next_tag: Tag(1),
            is_anonymous: false,
        };
        let linked = loaded.linked(Allocation::Pool).expect("invariant: its store is of there");
        linked.renew(&mut self.store, loaded.engine().options(), &Arc::new(blank));
    }

    /// Whether it was made for guests with these limits.
    pub(super) fn is_within(&self, limits: &Limits) -> bool {
        self.store.data().limits() == limits
    }
}

/// How a guest obtains its instance.
pub(super) enum Source {
    /// It is made anew, in this store.
    New { loaded: Arc<Loaded>, allocation: Allocation, store: Box<Store<Context>> },
    /// It is one of the spares.
    Spare(Instance),
}

impl Source {
    /// For a guest with that init.
    ///
    /// # Errors
    /// Returns why there is no engine for it: a fault of the host's.
    pub(super) fn of(loaded: &Arc<Loaded>, allocation: Allocation, init: &Arc<ProcessInit>) -> Result<Self, String> {
        let options = loaded.engine().options();
        let linked = loaded.linked(allocation).map_err(str::to_owned)?;
        if allocation == Allocation::Pool
            && let Some(mut spare) = spares::take(loaded, &init.limits)
        {
            linked.renew(&mut spare.store, options, init);
            return Ok(Self::Spare(spare));
        }
        let store = Box::new(linked.store(options, init));
        Ok(Self::New { loaded: Arc::clone(loaded), allocation, store })
    }

    /// Makes the instance. Nothing has been called in it yet.
    ///
    /// # Errors
    /// Returns why it cannot be made, with the store.
    pub(super) async fn instance(self, now: Timestamp) -> Result<Instance, (Store<Context>, wasmtime::Error)> {
        match self {
            Self::Spare(mut instance) => {
                prepare(&mut instance.store, now, INSTANTIATE_FUEL);
                Ok(instance)
            }
            Self::New { loaded, allocation, store } => {
                let mut store = *store;
                prepare(&mut store, now, INSTANTIATE_FUEL);
                let linked = loaded.linked(allocation).expect("invariant: its store is of there");
                let binding = match linked.instantiate(&mut store).await {
                    Ok(binding) => binding,
                    Err(error) => return Err((store, error)),
                };
                if let Some(script) = loaded.script() {
                    let born;
                    (store, born) = give_birth(&loaded, script, &*binding, store).await;
                    if let Err(error) = born {
                        return Err((store, error));
                    }
                    store.data_mut().begin_step(now);
                }
                Ok(Instance { store, binding })
            }
        }
    }
}
