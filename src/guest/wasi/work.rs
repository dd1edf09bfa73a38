//! The calls whose work grows with the guest's arguments: output, and polling.
//!
//! They are bound by hand and replace wasmtime's bindings of the same calls, which can neither
//! charge for the work nor end a slice.

use super::files::charge_grown;
use super::{Has, HasTable, RESOURCES_MAX, WasiView, host, lines, table};
use crate::guest::problem::Breach;
use crate::process::{Problem, problem::kind};
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource, ResourceTable};
use wasmtime_wasi_io::bindings::wasi::io;
use wasmtime_wasi_io::bindings::wasi::io::poll::Host as _;
use wasmtime_wasi_io::bindings::wasi::io::streams::{Host as _, HostOutputStream, StreamError};
use wasmtime_wasi_io::poll::DynPollable;
use wasmtime_wasi_io::streams::{DynOutputStream, StreamResult};

/// What the work costs: how much fuel of a guest's own takes as long. Estimated, not measured.
const BYTE_FUEL: u64 = 1;
const LINE_FUEL: u64 = 10;
const POLLABLE_FUEL: u64 = 50;

/// Offers `wasi:io/streams` and `wasi:io/poll`.
pub(super) fn link<T: WasiView>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    io::streams::add_to_linker::<T, HasTable>(linker, table)?;
    io::poll::add_to_linker::<T, Has<T>>(linker, host)?;
    linker.allow_shadowing(true);
    output(linker)?;
    polling(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}

fn output<T: WasiView>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    let mut streams = linker.instance("wasi:io/streams@0.2.12")?;
    streams.func_wrap_async(
        "[method]output-stream.write",
        |mut store: StoreContextMut<'_, T>, (stream, bytes): (Resource<DynOutputStream>, Vec<u8>)| {
            Box::new(async move {
                charge_text(store.data_mut(), &bytes);
                let table = table(store.data_mut());
                let written = HostOutputStream::write(table, stream, bytes);
                let answer = answer(table, written)?;
                charge_grown(store.data_mut());
                T::settle(&mut store).await?;
                Ok((answer,))
            })
        },
    )?;
    streams.func_wrap_async(
        "[method]output-stream.blocking-write-and-flush",
        |mut store: StoreContextMut<'_, T>, (stream, bytes): (Resource<DynOutputStream>, Vec<u8>)| {
            Box::new(async move {
                charge_text(store.data_mut(), &bytes);
                let table = table(store.data_mut());
                let written = table.blocking_write_and_flush(stream, bytes).await;
                let answer = answer(table, written)?;
                charge_grown(store.data_mut());
                T::settle(&mut store).await?;
                Ok((answer,))
            })
        },
    )?;
    streams.func_wrap_async(
        "[method]output-stream.write-zeroes",
        |mut store: StoreContextMut<'_, T>, (stream, length): (Resource<DynOutputStream>, u64)| {
            Box::new(async move {
                charge_zeroes(store.data_mut(), length);
                let table = table(store.data_mut());
                let written = table.write_zeroes(stream, length);
                let answer = answer(table, written)?;
                charge_grown(store.data_mut());
                T::settle(&mut store).await?;
                Ok((answer,))
            })
        },
    )?;
    streams.func_wrap_async(
        "[method]output-stream.blocking-write-zeroes-and-flush",
        |mut store: StoreContextMut<'_, T>, (stream, length): (Resource<DynOutputStream>, u64)| {
            Box::new(async move {
                charge_zeroes(store.data_mut(), length);
                let table = table(store.data_mut());
                let written = table.blocking_write_zeroes_and_flush(stream, length).await;
                let answer = answer(table, written)?;
                charge_grown(store.data_mut());
                T::settle(&mut store).await?;
                Ok((answer,))
            })
        },
    )
}

fn polling<T: WasiView>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    linker.instance("wasi:io/poll@0.2.12")?.func_wrap_async(
        "poll",
        |mut store: StoreContextMut<'_, T>, (pollables,): (Vec<Resource<DynPollable>>,)| {
            Box::new(async move {
                if pollables.len() > RESOURCES_MAX {
                    let problem = Problem::new(kind::TOO_LARGE, "The guest polls too much at once");
                    let detail = format!("{} pollables of at most {RESOURCES_MAX}", pollables.len());
                    return Err(Breach(problem.with_detail(detail)).into());
                }
                store.data_mut().charge(pollables.len() as u64 * POLLABLE_FUEL);
                let ready = host(store.data_mut()).poll(pollables).await?;
                T::settle(&mut store).await?;
                Ok((ready,))
            })
        },
    )
}

fn charge_text<T: WasiView>(data: &mut T, bytes: &[u8]) {
    let lines: u64 = bytes.iter().map(|byte| u64::from(*byte == b'\n')).sum();
    data.charge(bytes.len() as u64 * BYTE_FUEL + lines * LINE_FUEL);
}

fn charge_zeroes<T: WasiView>(data: &mut T, length: u64) {
    data.charge(length.min(lines::WRITE_BYTES_MAX as u64) * BYTE_FUEL);
}

/// What the guest receives: an error of the stream, but not a trap.
fn answer(table: &mut ResourceTable, written: StreamResult<()>) -> wasmtime::Result<Result<(), StreamError>> {
    match written {
        Ok(()) => Ok(Ok(())),
        Err(error) => table.convert_stream_error(error).map(Err),
    }
}
