//! The interface `script`: what a script engine exports besides.

use super::{Call, Returned, function, lift, lifted};
use crate::guest::context::Context;
use crate::guest::inspect::Misfit;
use crate::guest::problem::Breach;
use crate::guest::script::{self, MODULES_MAX, ScriptForm, ScriptSource};
use crate::process::Problem;
use std::sync::Arc;
use wasmtime::Store;
use wasmtime::component::{ComponentExportIndex, ComponentType, Instance, InstancePre, Lift, Lower, TypedFunc};

pub(super) const SCRIPT: &str = "wfhost:process/script@0.1.0";

#[derive(ComponentType, Lower, Clone, Copy)]
#[component(enum)]
#[repr(u8)]
pub(super) enum Form {
    #[component(name = "module")]
    Module,
    #[component(name = "body")]
    Body,
    #[component(name = "absent")]
    Absent,
}

#[derive(ComponentType, Lower)]
#[component(record)]
pub(super) struct Source<'a> {
    path: &'a str,
    line: u32,
    form: Form,
    text: &'a str,
}

#[derive(ComponentType, Lift)]
#[component(variant)]
pub(super) enum Refusal {
    #[component(name = "missing")]
    Missing(Vec<String>),
    #[component(name = "wrong")]
    Wrong(lift::Problem),
}

type LoadParams<'a> = (&'a [Source<'a>],);
type LoadResults = (Result<(), Refusal>,);
type TranslateParams<'a> = (Source<'a>,);
type TranslateResults = (Result<String, lift::Problem>,);

/// The functions of the interface in a component.
pub(super) struct Indices {
    load: ComponentExportIndex,
    translate: ComponentExportIndex,
}

/// The functions of the interface in an instance.
#[derive(Clone, Copy)]
pub(super) struct Functions {
    load: TypedFunc<LoadParams<'static>, LoadResults>,
    translate: TypedFunc<TranslateParams<'static>, TranslateResults>,
}

impl Indices {
    /// `None` if the component is no script engine.
    pub(super) fn resolve(pre: &InstancePre<Context>, misfits: &mut Vec<Misfit>) -> Option<Self> {
        let interface = pre.component().get_export_index(None, SCRIPT)?;
        let at = (SCRIPT, &interface);
        let load = function::<LoadParams<'_>, LoadResults>(pre, at, "load", misfits);
        let translate = function::<TranslateParams<'_>, TranslateResults>(pre, at, "translate", misfits);
        Some(Self { load: load?, translate: translate? })
    }

    pub(super) fn bind(&self, store: &mut Store<Context>, instance: &Instance) -> wasmtime::Result<Functions> {
        Ok(Functions {
            load: instance.get_typed_func(&mut *store, self.load)?,
            translate: instance.get_typed_func(&mut *store, self.translate)?,
        })
    }
}

impl Functions {
    pub(super) fn load(
        self,
        mut store: Store<Context>,
        sources: Arc<[ScriptSource]>,
    ) -> Call<Result<(), script::Refusal>> {
        Box::pin(async move {
            let lowered: Vec<_> = sources.iter().map(lower).collect();
            let result = self.load.call_async(&mut store, (&lowered,)).await;
            let result = match result {
                Ok((Ok(()),)) => Ok(Ok(())),
                Ok((Err(refusal),)) => self::refusal(&mut store, refusal).await.map(Err),
                Err(error) => Err(error),
            };
            drop(lowered);
            Returned { store, result }
        })
    }

    pub(super) fn translate(self, mut store: Store<Context>, source: ScriptSource) -> Call<Result<String, Problem>> {
        Box::pin(async move {
            let result = self.translate.call_async(&mut store, (lower(&source),)).await;
            let result = lifted(&mut store, result).await;
            Returned { store, result }
        })
    }
}

fn lower(source: &ScriptSource) -> Source<'_> {
    let form = match source.form {
        ScriptForm::Module => Form::Module,
        ScriptForm::Body => Form::Body,
        ScriptForm::Absent => Form::Absent,
    };
    Source { path: &source.path, line: source.line, form, text: &source.text }
}

async fn refusal(store: &mut Store<Context>, refusal: Refusal) -> wasmtime::Result<script::Refusal> {
    match refusal {
        Refusal::Missing(mut paths) => {
            // More than these are refused once they are read.
            paths.truncate(MODULES_MAX);
            Ok(script::Refusal::Missing(paths))
        }
        Refusal::Wrong(problem) => {
            super::charge::problem(store, &problem).await?;
            Ok(script::Refusal::Wrong(lift::Reader.problem(problem).map_err(Breach)?))
        }
    }
}
