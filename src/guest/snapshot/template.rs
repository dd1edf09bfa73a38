//! What is learned once about a component: the handles of all its memories and mutable globals, and
//! their content in a fresh instance.

use super::handles::{self, Handle, StoreNumber};
use super::image::{Image, Key};
use super::pagemap::KernelTrust;
use super::state::GlobalValue;
use crate::guest::poll::block_on;
use std::sync::atomic::Ordering;
use wasmtime::component::InstancePre;
use wasmtime::{
    AsContextMut, Global, GlobalType, Instance, Memory, MemoryType, Module, Mutability, Store, Val, ValType,
    WasmCoreDump,
};

/// What snapshots need to know from a store's data.
pub trait SnapshotView {
    /// The number of host functions that the guest had called when its instantiation ended. It is
    /// zero for a guest that can be snapshotted: its start functions could otherwise have received
    /// different answers in each instance.
    fn host_calls_at_start(&self) -> u64;
}

/// Why a component, or one of its instances, cannot be snapshotted although nothing in its bytes
/// forbids it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// Instantiation fails.
    #[error("it cannot be instantiated: {0}")]
    Instantiate(wasmtime::Error),
    /// The start functions call the host.
    #[error("it calls the host while it is instantiated ({0} times)")]
    CallsHost(u64),
    /// Two fresh instances are not equal.
    #[error("two fresh instances differ in their {0}")]
    Differs(&'static str),
    /// There is state that the check of the bytes refuses as well.
    #[error("it has {0}")]
    Unseen(&'static str),
    /// This build of the engine does not behave as snapshots require.
    #[error("the engine does not support snapshots: {0}")]
    Engine(String),
    /// The store holds something other than one instance of the component.
    #[error("the store holds another component")]
    OtherComponent,
}

/// The handles of one live store.
#[derive(Debug)]
pub struct Handles {
    pub(super) memories: Vec<Memory>,
    pub(super) globals: Vec<Global>,
}

/// What snapshots know about a component.
#[derive(Debug)]
pub struct Template {
    memories: Vec<(Memory, MemoryType)>,
    globals: Vec<(Global, GlobalType)>,
    images: Vec<Image>,
    fresh_globals: Vec<GlobalValue>,
    key: Key,
    trust: KernelTrust,
}

/// What one throw-away instance shows.
struct Probe {
    store: StoreNumber,
    memories: Vec<(Memory, MemoryType)>,
    globals: Vec<(Global, GlobalType)>,
    images: Vec<Image>,
    fresh_globals: Vec<GlobalValue>,
}

/// `(module (func (export "t") unreachable))`
const TRAP: &[u8] = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x05\x01\x01t\0\0\x0a\x05\x01\x03\0\0\x0b";

/// Bytes of the pages that memories grow by, unless a memory says otherwise; the check of the bytes
/// refuses others.
const WASM_PAGE_BYTES: u64 = 64 << 10;

impl Template {
    /// Learns a component from two throw-away instances, which check each other, and tests in a
    /// third whether the kernel reports written pages.
    ///
    /// `pre` belongs to an engine that collects core dumps and allocates on demand. In everything
    /// else that shapes code and state, its configuration is that of the live engines. `store`
    /// gives a new store as the host makes them: with data, limiter and fuel for instantiating.
    /// `component` is the digest of the component's bytes.
    ///
    /// # Errors
    /// Fails if the component does not fit; that is final for this process.
    pub fn probe<T: SnapshotView + Send + 'static>(
        pre: &InstancePre<T>,
        component: [u8; 32],
        mut store: impl FnMut() -> wasmtime::Result<Store<T>>,
    ) -> Result<Self, Unfit> {
        let module = Module::new(pre.engine(), TRAP).map_err(engine)?;
        let mut one_more = || Probe::new(store().map_err(engine)?, pre, &module);
        let probe = one_more()?;
        probe.agrees_with(&one_more()?)?;
        let Probe { memories, globals, images, fresh_globals, .. } = probe;
        let key = Key { component, image: image_digest(&memories, &globals, &images, &fresh_globals) };
        let template = Self { memories, globals, images, fresh_globals, key, trust: KernelTrust::default() };
        let mut store = store().map_err(engine)?;
        block_on(pre.instantiate_async(&mut store)).map_err(Unfit::Instantiate)?;
        let handles = template.bind(&mut store)?;
        template.test_kernel(&mut store, &handles);
        Ok(template)
    }

    /// Returns the handles of a live store in which the component was the first thing to be
    /// instantiated. They are valid as long as the store is.
    ///
    /// # Errors
    /// Fails if the instance may differ from the probed ones.
    ///
    /// # Panics
    /// May panic if another component was instantiated in the store.
    pub fn bind<T: SnapshotView + 'static>(&self, mut store: impl AsContextMut<Data = T>) -> Result<Handles, Unfit> {
        let calls = store.as_context().data().host_calls_at_start();
        if calls != 0 {
            return Err(Unfit::CallsHost(calls));
        }
        let number = store_number(&mut store)?;
        let memories: Vec<_> = self.memories.iter().map(|(memory, _)| handles::rebase(*memory, number)).collect();
        let globals = self.globals.iter().map(|(global, _)| handles::rebase(*global, number)).collect();
        for ((memory, image), (_, ty)) in memories.iter().zip(&self.images).zip(&self.memories) {
            if memory.ty(&store) != *ty || memory.data_size(&store) < image.bytes() {
                return Err(Unfit::OtherComponent);
            }
        }
        Ok(Handles { memories, globals })
    }

    /// What is known about a component whose fresh instances are those of this one after something
    /// was loaded into them, as into the store at hand. `component` is its digest.
    ///
    /// # Errors
    /// Fails if a global holds a reference.
    ///
    /// # Panics
    /// If `handles` were bound to another store.
    pub fn after<T: 'static>(
        &self,
        mut store: impl AsContextMut<Data = T>,
        handles: &Handles,
        component: [u8; 32],
    ) -> Result<Self, Unfit> {
        let images: Vec<_> = handles.memories.iter().map(|memory| Image::of(memory.data(store.as_context()))).collect();
        let mut fresh_globals = Vec::with_capacity(handles.globals.len());
        for global in &handles.globals {
            let value = GlobalValue::of(&global.get(&mut store));
            fresh_globals.push(value.ok_or(Unfit::Unseen("a mutable global that holds a reference"))?);
        }
        let (memories, globals) = (self.memories.clone(), self.globals.clone());
        let key = Key { component, image: image_digest(&memories, &globals, &images, &fresh_globals) };
        let trust = KernelTrust::default();
        trust.lost.store(!self.trusts_the_kernel(), Ordering::Relaxed);
        Ok(Self { memories, globals, images, fresh_globals, key, trust })
    }

    /// Identifies the component and its fresh state.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Bytes that the template takes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.images.iter().map(Image::heap_bytes).sum()
    }

    pub(super) fn images(&self) -> &[Image] {
        &self.images
    }

    pub(super) fn memory_types(&self) -> impl Iterator<Item = &MemoryType> {
        self.memories.iter().map(|(_, ty)| ty)
    }

    pub(super) fn fresh_globals(&self) -> &[GlobalValue] {
        &self.fresh_globals
    }

    pub(super) fn trust(&self) -> &KernelTrust {
        &self.trust
    }
}

impl Probe {
    fn new<T: SnapshotView + Send + 'static>(
        mut store: Store<T>,
        pre: &InstancePre<T>,
        trap: &Module,
    ) -> Result<Self, Unfit> {
        block_on(pre.instantiate_async(&mut store)).map_err(Unfit::Instantiate)?;
        let calls = store.data().host_calls_at_start();
        if calls != 0 {
            return Err(Unfit::CallsHost(calls));
        }
        let dump = dump(&mut store, trap)?;
        let number = store_number(&mut store)?;
        let memories: Vec<_> = dump.memories().iter().map(|memory| (*memory, memory.ty(&store))).collect();
        let globals: Vec<_> = dump.globals().iter().map(|global| (*global, global.ty(&store))).collect();
        if memories.iter().any(|(memory, _)| handles::store_number(memory) != number)
            || globals.iter().any(|(global, _)| handles::store_number(global) != number)
        {
            return Err(Unfit::Engine("handles do not begin with the number of their store".into()));
        }
        if memories.iter().any(|(_, ty)| ty.page_size() != WASM_PAGE_BYTES) {
            return Err(Unfit::Unseen("a memory with pages of an unusual size"));
        }
        let images = memories.iter().map(|(memory, _)| Image::of(memory.data(&store))).collect();
        let globals: Vec<_> = globals.into_iter().filter(|(_, ty)| ty.mutability() == Mutability::Var).collect();
        let mut fresh_globals = Vec::with_capacity(globals.len());
        for (global, _) in &globals {
            let value = GlobalValue::of(&global.get(&mut store));
            fresh_globals.push(value.ok_or(Unfit::Unseen("a mutable global that holds a reference"))?);
        }
        Ok(Self { store: number, memories, globals, images, fresh_globals })
    }

    fn agrees_with(&self, other: &Self) -> Result<(), Unfit> {
        if self.store == other.store {
            return Err(Unfit::Engine("two stores have the same number".into()));
        }
        if !same_items(&self.memories, &other.memories) || !same_items(&self.globals, &other.globals) {
            return Err(Unfit::Differs("order of memories and globals"));
        }
        if self.fresh_globals != other.fresh_globals {
            return Err(Unfit::Differs("globals"));
        }
        if self.images != other.images {
            return Err(Unfit::Differs("memories"));
        }
        Ok(())
    }
}

fn same_items<H: Handle, Y: std::fmt::Debug>(one: &[(H, Y)], other: &[(H, Y)]) -> bool {
    // Not all of wasmtime's types are comparable, but their debug output is complete.
    let same =
        |(a, b): (&(H, Y), &(H, Y))| handles::same_item(a.0, b.0) && format!("{:?}", a.1) == format!("{:?}", b.1);
    one.len() == other.len() && one.iter().zip(other).all(same)
}

/// Traps in the store, which closes it for good, and returns the engine's core dump.
fn dump<T: Send + 'static>(store: &mut Store<T>, trap: &Module) -> Result<WasmCoreDump, Unfit> {
    let instance = block_on(Instance::new_async(&mut *store, trap, &[])).map_err(engine)?;
    let function = instance.get_typed_func::<(), ()>(&mut *store, "t").map_err(engine)?;
    match block_on(function.call_async(&mut *store, ())) {
        Ok(()) => Err(Unfit::Engine("an unreachable instruction was reached".into())),
        Err(error) => error.downcast().map_err(|error| Unfit::Engine(format!("no core dump: {error:#}"))),
    }
}

/// A store's number, read from a handle that is made for this purpose.
fn store_number(store: impl AsContextMut) -> Result<StoreNumber, Unfit> {
    let ty = GlobalType::new(ValType::I32, Mutability::Const);
    let global = Global::new(store, ty, Val::I32(0)).map_err(engine)?;
    Ok(handles::store_number(&global))
}

fn engine(error: wasmtime::Error) -> Unfit {
    Unfit::Engine(format!("{error:#}"))
}

/// Covers types and fresh state.
fn image_digest(
    memories: &[(Memory, MemoryType)],
    globals: &[(Global, GlobalType)],
    images: &[Image],
    fresh_globals: &[GlobalValue],
) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(memories.len() as u64).to_le_bytes());
    for ((_, ty), image) in memories.iter().zip(images) {
        hasher.update(&ty.minimum().to_le_bytes());
        hasher.update(&ty.maximum().unwrap_or(u64::MAX).to_le_bytes());
        hasher.update(&[u8::from(ty.is_64())]);
        image.hash_into(&mut hasher);
    }
    hasher.update(&(globals.len() as u64).to_le_bytes());
    for value in fresh_globals {
        let (kind, bits) = value.encode();
        hasher.update(&[kind]);
        hasher.update(&bits.to_le_bytes());
    }
    hasher.finalize().into()
}
