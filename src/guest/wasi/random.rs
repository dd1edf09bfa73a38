//! Random numbers, all from the process's own stream.

use super::{WasiHost, WasiView};
use crate::guest::binding::Breach;
use crate::process::{Problem, problem::kind};
use wasmtime_wasi::p2::bindings::random::{insecure, insecure_seed, random};

/// Bytes of one call. Arbitrary: what a language's library asks for is a seed.
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

impl<T: WasiView> random::Host for WasiHost<'_, T> {
    fn get_random_bytes(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        self.random_bytes(len)
    }

    fn get_random_u64(&mut self) -> wasmtime::Result<u64> {
        Ok(self.random_u64())
    }
}

impl<T: WasiView> insecure::Host for WasiHost<'_, T> {
    fn get_insecure_random_bytes(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        self.random_bytes(len)
    }

    fn get_insecure_random_u64(&mut self) -> wasmtime::Result<u64> {
        Ok(self.random_u64())
    }
}

impl<T: WasiView> insecure_seed::Host for WasiHost<'_, T> {
    fn insecure_seed(&mut self) -> wasmtime::Result<(u64, u64)> {
        Ok((self.random_u64(), self.random_u64()))
    }
}
