//! Random numbers, all from the process's own stream.

use super::{WasiHost, WasiView, host};
use crate::guest::problem::Breach;
use crate::process::{Problem, problem::kind};
use wasmtime::StoreContextMut;
use wasmtime::component::Linker;
use wasmtime_wasi::p2::bindings::random::insecure_seed;

/// What a byte costs: how much fuel of a guest's own takes as long.
const BYTE_FUEL: u64 = 40;

/// Bytes of one call. Arbitrary: a language's library asks for a seed only.
const BYTES_MAX: u64 = 64 << 10;

impl<T: WasiView> WasiHost<'_, T> {
    fn random_bytes(&mut self, length: u64) -> wasmtime::Result<Vec<u8>> {
        if length > BYTES_MAX {
            let problem = Problem::new(kind::TOO_LARGE, "The guest asked for too many random bytes at once");
            return Err(Breach(problem.with_detail(format!("{length} of at most {BYTES_MAX}"))).into());
        }
        let mut bytes = vec![0; length as usize];
        self.0.fill_random(&mut bytes);
        Ok(bytes)
    }

    fn random_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill_random(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

/// Offers the two interfaces that guests use heavily. They are bound by hand, since a call bound by
/// wasmtime's own macro cannot end a slice.
pub(super) fn link<T: WasiView>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    for (interface, bytes, number) in [
        ("wasi:random/random@0.2.12", "get-random-bytes", "get-random-u64"),
        ("wasi:random/insecure@0.2.12", "get-insecure-random-bytes", "get-insecure-random-u64"),
    ] {
        let mut interface = linker.instance(interface)?;
        interface.func_wrap_async(bytes, |mut store: StoreContextMut<'_, T>, (length,): (u64,)| {
            Box::new(async move {
                let bytes = host(store.data_mut()).random_bytes(length)?;
                store.data_mut().charge(length * BYTE_FUEL);
                T::settle(&mut store).await?;
                Ok((bytes,))
            })
        })?;
        interface.func_wrap_async(number, |mut store: StoreContextMut<'_, T>, (): ()| {
            Box::new(async move {
                let number = host(store.data_mut()).random_u64();
                store.data_mut().charge(8 * BYTE_FUEL);
                T::settle(&mut store).await?;
                Ok((number,))
            })
        })?;
    }
    Ok(())
}

impl<T: WasiView> insecure_seed::Host for WasiHost<'_, T> {
    fn insecure_seed(&mut self) -> wasmtime::Result<(u64, u64)> {
        Ok((self.random_u64(), self.random_u64()))
    }
}
