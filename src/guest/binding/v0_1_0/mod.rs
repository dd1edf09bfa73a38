//! `wfhost:process@0.1.0`.

mod charge;
mod imports;
mod lift;
mod lower;
mod script;

use super::{Binding, Call, Contract, Exports, Outcome, Returned};
use crate::guest::context::Context;
use crate::guest::inspect::Misfit;
use crate::guest::problem::Breach;
use crate::guest::script::{Refusal, ScriptSource};
use crate::guest::wit;
use crate::process::{Event, Payload, Problem};
use std::sync::Arc;
use wasmtime::Store;
use wasmtime::component::{
    ComponentExportIndex, ComponentNamedList, Instance, InstancePre, Lift, Linker, Lower, TypedFunc,
    types::ComponentItem,
};

/// The version.
pub(super) struct V0_1_0;

const GUEST: &str = "wfhost:process/guest@0.1.0";
const DESCRIBE: &str = "wfhost:process/describe@0.1.0";
const SNAPSHOT: &str = "wfhost:process/snapshot@0.1.0";

type InitParams<'a> = (&'a str, lower::Payload<'a>);
type InitResults = (Result<(), lift::Problem>,);
type StepParams<'a> = (&'a [lower::Event<'a>],);
type StepResults = (lift::Outcome,);
type SaveResults = (Result<Vec<u8>, lift::Problem>,);
type LoadParams<'a> = (&'a [u8],);
type LoadResults = (Result<(), lift::Problem>,);

impl Contract for V0_1_0 {
    fn interface(&self) -> &'static str {
        GUEST
    }

    fn imports(&self) -> &'static [&'static str] {
        &[imports::HOST, imports::TYPES, imports::ENGINE]
    }

    fn script_interface(&self) -> &'static str {
        script::SCRIPT
    }

    fn engine_interface(&self) -> &'static str {
        imports::ENGINE
    }

    fn link(&self, linker: &mut Linker<Context>) -> wasmtime::Result<()> {
        imports::link(linker)
    }

    fn resolve(&self, pre: &InstancePre<Context>) -> Result<Box<dyn Exports>, Vec<Misfit>> {
        let component = pre.component();
        let Some(guest) = component.get_export_index(None, GUEST) else {
            return Err(vec![Misfit::export_missing(GUEST, "")]);
        };
        let mut misfits = Vec::new();
        let at = (GUEST, &guest);
        let init = function::<InitParams<'_>, InitResults>(pre, at, "init", &mut misfits);
        let step = function::<StepParams<'_>, StepResults>(pre, at, "step", &mut misfits);
        let close = function::<(), ()>(pre, at, "close", &mut misfits);
        let snapshot = component.get_export_index(None, SNAPSHOT).map(|interface| {
            let at = (SNAPSHOT, &interface);
            let save = function::<(), SaveResults>(pre, at, "save", &mut misfits);
            (save, function::<LoadParams<'_>, LoadResults>(pre, at, "load", &mut misfits))
        });
        let snapshot = match snapshot {
            Some((Some(save), Some(load))) => Some((save, load)),
            _ => None,
        };
        let script = script::Indices::resolve(pre, &mut misfits);
        // Another type is no misfit: it is not needed to run.
        let describe = component.get_export_index(None, DESCRIBE);
        let describe = describe
            .and_then(|interface| function::<(), (String,)>(pre, (DESCRIBE, &interface), "describe", &mut Vec::new()));
        match (init, step, close) {
            (Some(init), Some(step), Some(close)) if misfits.is_empty() => {
                Ok(Box::new(Indices { init, step, close, describe, snapshot, script }))
            }
            _ => Err(misfits),
        }
    }
}

/// Finds a function of an interface and checks its type.
fn function<Params, Results>(
    pre: &InstancePre<Context>,
    (interface, index): (&str, &ComponentExportIndex),
    name: &str,
    misfits: &mut Vec<Misfit>,
) -> Option<ComponentExportIndex>
where
    Params: ComponentNamedList + Lower,
    Results: ComponentNamedList + Lift,
{
    let Some((item, index)) = pre.component().get_export(Some(index), name) else {
        misfits.push(Misfit::export_missing(interface, name));
        return None;
    };
    let (checked, found) = match item {
        ComponentItem::ComponentFunc(function) => {
            (function.typecheck::<Params, Results>(&pre.instance_type()), wit::function(name, &function))
        }
        _ => (Err(wasmtime::format_err!("it is not a function")), format!("{name}: not a function")),
    };
    match checked {
        Ok(()) => Some(index),
        Err(error) => {
            misfits.push(Misfit::export_type(interface, name, found, &error));
            None
        }
    }
}

struct Indices {
    init: ComponentExportIndex,
    step: ComponentExportIndex,
    close: ComponentExportIndex,
    describe: Option<ComponentExportIndex>,
    /// `save` and `load`.
    snapshot: Option<(ComponentExportIndex, ComponentExportIndex)>,
    script: Option<script::Indices>,
}

impl Exports for Indices {
    fn has_snapshot(&self) -> bool {
        self.snapshot.is_some()
    }

    fn has_script(&self) -> bool {
        self.script.is_some()
    }

    fn bind(&self, store: &mut Store<Context>, instance: &Instance) -> wasmtime::Result<Box<dyn Binding>> {
        let snapshot = match self.snapshot {
            Some((save, load)) => {
                Some((instance.get_typed_func(&mut *store, save)?, instance.get_typed_func(&mut *store, load)?))
            }
            None => None,
        };
        Ok(Box::new(Functions {
            init: instance.get_typed_func(&mut *store, self.init)?,
            step: instance.get_typed_func(&mut *store, self.step)?,
            close: instance.get_typed_func(&mut *store, self.close)?,
            describe: self.describe.map(|describe| instance.get_typed_func(&mut *store, describe)).transpose()?,
            snapshot,
            script: self.script.as_ref().map(|script| script.bind(store, instance)).transpose()?,
        }))
    }
}

struct Functions {
    init: TypedFunc<InitParams<'static>, InitResults>,
    step: TypedFunc<StepParams<'static>, StepResults>,
    close: TypedFunc<(), ()>,
    describe: Option<TypedFunc<(), (String,)>>,
    snapshot: Option<(TypedFunc<(), SaveResults>, TypedFunc<LoadParams<'static>, LoadResults>)>,
    script: Option<script::Functions>,
}

/// What a guest answered, if its problem is one that the contract allows.
async fn lifted<T>(
    store: &mut Store<Context>,
    answer: wasmtime::Result<(Result<T, lift::Problem>,)>,
) -> wasmtime::Result<Result<T, Problem>> {
    match answer?.0 {
        Ok(value) => Ok(Ok(value)),
        Err(problem) => {
            charge::problem(store, &problem).await?;
            Ok(Err(lift::Reader.problem(problem).map_err(Breach)?))
        }
    }
}

/// What a step returned.
async fn read(store: &mut Store<Context>, outcome: lift::Outcome) -> wasmtime::Result<Outcome> {
    charge::outcome(store, &outcome).await?;
    Ok(lift::Reader.outcome(outcome).map_err(Breach)?)
}

impl Binding for Functions {
    fn describe(&self, mut store: Store<Context>) -> Option<Call<String>> {
        let function = self.describe?;
        Some(Box::pin(async move {
            let result = function.call_async(&mut store, ()).await.map(|(text,)| text);
            Returned { store, result }
        }))
    }

    fn init(&self, mut store: Store<Context>, entry: String, input: Payload) -> Call<Result<(), Problem>> {
        let function = self.init;
        Box::pin(async move {
            let result = function.call_async(&mut store, (&entry, lower::payload(&input))).await;
            let result = lifted(&mut store, result).await;
            Returned { store, result }
        })
    }

    fn step(&self, mut store: Store<Context>, events: Vec<Event>) -> Call<Outcome> {
        let function = self.step;
        Box::pin(async move {
            let lowered: Vec<_> = events.iter().map(lower::event).collect();
            let result = function.call_async(&mut store, (&lowered,)).await;
            let result = match result {
                Ok((outcome,)) => read(&mut store, outcome).await,
                Err(error) => Err(error),
            };
            drop(lowered);
            Returned { store, result }
        })
    }

    fn close(&self, mut store: Store<Context>) -> Call<()> {
        let function = self.close;
        Box::pin(async move {
            let result = function.call_async(&mut store, ()).await;
            Returned { store, result }
        })
    }

    fn save(&self, mut store: Store<Context>) -> Option<Call<Result<Vec<u8>, Problem>>> {
        let (save, _) = self.snapshot?;
        Some(Box::pin(async move {
            let result = save.call_async(&mut store, ()).await;
            let result = lifted(&mut store, result).await;
            Returned { store, result }
        }))
    }

    fn load(&self, mut store: Store<Context>, state: Vec<u8>) -> Option<Call<Result<(), Problem>>> {
        let (_, load) = self.snapshot?;
        Some(Box::pin(async move {
            let result = load.call_async(&mut store, (&state,)).await;
            let result = lifted(&mut store, result).await;
            Returned { store, result }
        }))
    }

    fn load_script(&self, store: Store<Context>, sources: Arc<[ScriptSource]>) -> Option<Call<Result<(), Refusal>>> {
        Some(self.script?.load(store, sources))
    }

    fn translate(&self, store: Store<Context>, source: ScriptSource) -> Option<Call<Result<String, Problem>>> {
        Some(self.script?.translate(store, source))
    }
}
