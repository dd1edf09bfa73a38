//! The calls on files whose work grows with their arguments, bound by hand so that they charge for
//! it and can end a slice.

use super::super::{Has, WasiView, host};
use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    self, Descriptor, DescriptorFlags, DirectoryEntryStream, ErrorCode, Host as _, HostDescriptor as _,
    HostDirectoryEntryStream as _, OpenFlags, PathFlags,
};
use wasmtime_wasi_io::bindings::wasi::io::streams::{HostInputStream as _, StreamError};
use wasmtime_wasi_io::streams::DynInputStream;

/// What the work costs: how much fuel of a guest's own takes as long, by what loops of such calls
/// take in a build for development.
const BYTE_FUEL: u64 = 15;
const ENTRY_FUEL: u64 = 600;
const NAME_FUEL: u64 = 300;

/// Offers `wasi:filesystem`.
pub(in crate::guest::wasi) fn link<T: WasiView>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    preopens::add_to_linker::<T, Has<T>>(linker, host)?;
    types::add_to_linker::<T, Has<T>>(linker, host)?;
    linker.allow_shadowing(true);
    content(linker)?;
    folders(linker)?;
    entries(linker)?;
    reading(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}

const TYPES: &str = "wasi:filesystem/types@0.2.12";

/// What the program receives: an error of the file, or a trap.
fn answer<T: WasiView, R>(data: &mut T, result: FsResult<R>) -> wasmtime::Result<Result<R, ErrorCode>> {
    match result {
        Ok(answer) => Ok(Ok(answer)),
        Err(error) => host(data).convert_error_code(error).map(Err),
    }
}

fn charge_path<T: WasiView>(data: &mut T, path: &str) {
    data.charge(path.len() as u64 * BYTE_FUEL + path.split('/').count() as u64 * NAME_FUEL);
}

/// Charges for the bytes by which files have grown: a write beyond the end of one adds zeros.
pub(in crate::guest::wasi) fn charge_grown<T: WasiView>(data: &mut T) {
    let grown = data.wasi().state().program.as_ref().map_or(0, |program| program.root.take_grown());
    data.charge(grown * BYTE_FUEL);
}

fn content<T: WasiView>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    let mut files = linker.instance(TYPES)?;
    files.func_wrap_async(
        "[method]descriptor.read",
        |mut store: StoreContextMut<'_, T>, (fd, length, offset): (Resource<Descriptor>, u64, u64)| {
            Box::new(async move {
                let read = host(store.data_mut()).read(fd, length, offset).await;
                let bytes = read.as_ref().map_or(0, |(bytes, _)| bytes.len());
                store.data_mut().charge(bytes as u64 * BYTE_FUEL);
                let answer = answer(store.data_mut(), read)?;
                T::settle(&mut store).await?;
                Ok((answer,))
            })
        },
    )?;
    files.func_wrap_async(
        "[method]descriptor.write",
        |mut store: StoreContextMut<'_, T>, (fd, bytes, offset): (Resource<Descriptor>, Vec<u8>, u64)| {
            Box::new(async move {
                store.data_mut().charge(bytes.len() as u64 * BYTE_FUEL);
                let written = host(store.data_mut()).write(fd, bytes, offset).await;
                let answer = answer(store.data_mut(), written)?;
                charge_grown(store.data_mut());
                T::settle(&mut store).await?;
                Ok((answer,))
            })
        },
    )?;
    files.func_wrap_async(
        "[method]descriptor.set-size",
        |mut store: StoreContextMut<'_, T>, (fd, size): (Resource<Descriptor>, u64)| {
            Box::new(async move {
                let set = host(store.data_mut()).set_size(fd, size).await;
                let answer = answer(store.data_mut(), set)?;
                charge_grown(store.data_mut());
                T::settle(&mut store).await?;
                Ok((answer,))
            })
        },
    )
}

fn folders<T: WasiView>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    let mut files = linker.instance(TYPES)?;
    files.func_wrap_async(
        "[method]descriptor.open-at",
        |mut store: StoreContextMut<'_, T>,
         (fd, at, path, how, flags): (Resource<Descriptor>, PathFlags, String, OpenFlags, DescriptorFlags)| {
            Box::new(async move {
                charge_path(store.data_mut(), &path);
                let opened = host(store.data_mut()).open_at(fd, at, path, how, flags).await;
                let answer = answer(store.data_mut(), opened)?;
                T::settle(&mut store).await?;
                Ok((answer,))
            })
        },
    )?;
    files.func_wrap_async(
        "[method]descriptor.stat-at",
        |mut store: StoreContextMut<'_, T>, (fd, at, path): (Resource<Descriptor>, PathFlags, String)| {
            Box::new(async move {
                charge_path(store.data_mut(), &path);
                let stat = host(store.data_mut()).stat_at(fd, at, path).await;
                let answer = answer(store.data_mut(), stat)?;
                T::settle(&mut store).await?;
                Ok((answer,))
            })
        },
    )?;
    files.func_wrap_async(
        "[method]descriptor.rename-at",
        |mut store: StoreContextMut<'_, T>,
         (fd, from, to_fd, to): (Resource<Descriptor>, String, Resource<Descriptor>, String)| {
            Box::new(async move {
                charge_path(store.data_mut(), &from);
                charge_path(store.data_mut(), &to);
                // A folder is searched before it is moved.
                store.data_mut().charge(super::tree::ENTRIES_MAX * ENTRY_FUEL / 60);
                let renamed = host(store.data_mut()).rename_at(fd, from, to_fd, to).await;
                let answer = answer(store.data_mut(), renamed)?;
                T::settle(&mut store).await?;
                Ok((answer,))
            })
        },
    )
}

/// Binds methods that have little work, but may be called without end.
macro_rules! settled {
    ($files:expr, $($name:literal: $method:ident($($arg:ident: $ty:ty),*) $(for $path:ident)?;)+) => {
        $($files.func_wrap_async(
            $name,
            |mut store: StoreContextMut<'_, T>, ($($arg,)*): ($($ty,)*)| {
                Box::new(async move {
                    $(charge_path(store.data_mut(), &$path);)?
                    let result = host(store.data_mut()).$method($($arg),*).await;
                    let answer = answer(store.data_mut(), result)?;
                    T::settle(&mut store).await?;
                    Ok((answer,))
                })
            },
        )?;)+
    };
}

fn entries<T: WasiView>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    let mut files = linker.instance(TYPES)?;
    settled!(files,
        "[method]descriptor.create-directory-at": create_directory_at(fd: Resource<Descriptor>, path: String) for path;
        "[method]descriptor.remove-directory-at": remove_directory_at(fd: Resource<Descriptor>, path: String) for path;
        "[method]descriptor.unlink-file-at": unlink_file_at(fd: Resource<Descriptor>, path: String) for path;
        "[method]descriptor.readlink-at": readlink_at(fd: Resource<Descriptor>, path: String) for path;
        "[method]descriptor.metadata-hash-at":
            metadata_hash_at(fd: Resource<Descriptor>, at: PathFlags, path: String) for path;
        "[method]descriptor.metadata-hash": metadata_hash(fd: Resource<Descriptor>);
        "[method]descriptor.stat": stat(fd: Resource<Descriptor>);
        "[method]descriptor.get-flags": get_flags(fd: Resource<Descriptor>);
        "[method]descriptor.get-type": get_type(fd: Resource<Descriptor>);
        "[method]descriptor.read-directory": read_directory(fd: Resource<Descriptor>);
    );
    files.func_wrap_async(
        "[method]directory-entry-stream.read-directory-entry",
        |mut store: StoreContextMut<'_, T>, (stream,): (Resource<DirectoryEntryStream>,)| {
            Box::new(async move {
                store.data_mut().charge(ENTRY_FUEL);
                let entry = host(store.data_mut()).read_directory_entry(stream).await;
                let answer = answer(store.data_mut(), entry)?;
                T::settle(&mut store).await?;
                Ok((answer,))
            })
        },
    )
}

fn reading<T: WasiView>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    let mut streams = linker.instance("wasi:io/streams@0.2.12")?;
    for name in ["[method]input-stream.read", "[method]input-stream.blocking-read"] {
        streams.func_wrap_async(
            name,
            |mut store: StoreContextMut<'_, T>, (stream, length): (Resource<DynInputStream>, u64)| {
                Box::new(async move {
                    let table = super::super::table(store.data_mut());
                    // Every stream here is ready at any time.
                    let read = table.read(stream, length);
                    let answer: Result<Vec<u8>, StreamError> = match read {
                        Ok(bytes) => Ok(bytes),
                        Err(error) => {
                            use wasmtime_wasi_io::bindings::wasi::io::streams::Host as _;
                            Err(super::super::table(store.data_mut()).convert_stream_error(error)?)
                        }
                    };
                    store.data_mut().charge(answer.as_ref().map_or(0, Vec::len) as u64 * BYTE_FUEL);
                    T::settle(&mut store).await?;
                    Ok((answer,))
                })
            },
        )?;
    }
    Ok(())
}
