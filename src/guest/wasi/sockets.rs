//! Networks and name lookups, which are denied here: wasmtime's own would start a tokio runtime
//! before denying them.

use super::{WasiHost, WasiView, denied_sockets};
use wasmtime::component::Resource;
use wasmtime_wasi::p2::bindings::sockets::ip_name_lookup::{Host, HostResolveAddressStream, ResolveAddressStream};
use wasmtime_wasi::p2::bindings::sockets::network::{self, ErrorCode, HostNetwork, IpAddress};
use wasmtime_wasi::p2::{Network, SocketError, SocketResult};
use wasmtime_wasi_io::poll::{DynPollable, subscribe};

impl<T: WasiView> network::Host for WasiHost<'_, T> {
    fn convert_error_code(&mut self, error: SocketError) -> wasmtime::Result<ErrorCode> {
        denied_sockets(self.0).convert_error_code(error)
    }

    fn network_error_code(&mut self, error: Resource<wasmtime::Error>) -> wasmtime::Result<Option<ErrorCode>> {
        denied_sockets(self.0).network_error_code(error)
    }
}

impl<T: WasiView> HostNetwork for WasiHost<'_, T> {
    fn drop(&mut self, network: Resource<Network>) -> wasmtime::Result<()> {
        HostNetwork::drop(&mut denied_sockets(self.0), network)
    }
}

impl<T: WasiView> Host for WasiHost<'_, T> {
    fn resolve_addresses(
        &mut self,
        _network: Resource<Network>,
        _name: String,
    ) -> SocketResult<Resource<ResolveAddressStream>> {
        Err(ErrorCode::AccessDenied.into())
    }
}

/// No guest ever has one of these streams.
impl<T: WasiView> HostResolveAddressStream for WasiHost<'_, T> {
    fn resolve_next_address(&mut self, stream: Resource<ResolveAddressStream>) -> SocketResult<Option<IpAddress>> {
        self.state().table.get(&stream)?;
        Ok(None)
    }

    fn subscribe(&mut self, stream: Resource<ResolveAddressStream>) -> wasmtime::Result<Resource<DynPollable>> {
        subscribe(&mut self.state().table, stream)
    }

    fn drop(&mut self, stream: Resource<ResolveAddressStream>) -> wasmtime::Result<()> {
        self.state().table.delete(stream)?;
        Ok(())
    }
}
