//! Reports to the service manager that started this process, if it asks for them: the protocol of
//! systemd's `sd_notify`, a datagram of lines `NAME=value` to the socket in `$NOTIFY_SOCKET`.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// What a service manager is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::serve) enum State {
    /// The start takes at least this much longer.
    Starting(Duration),
    /// Requests of all kinds are taken.
    Ready,
    /// The process ends, which may take this long.
    Stopping(Duration),
}

impl State {
    fn lines(self) -> String {
        match self {
            Self::Starting(time) => format!("EXTEND_TIMEOUT_USEC={}", time.as_micros()),
            Self::Ready => "READY=1".to_owned(),
            Self::Stopping(time) => format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={}", time.as_micros()),
        }
    }
}

/// Reports a state to the service manager, if there is one. Nothing depends on it: an error is
/// logged.
pub(in crate::serve) fn notify(state: State) {
    if let Some(socket) = std::env::var_os("NOTIFY_SOCKET").filter(|socket| !socket.is_empty())
        && let Err(error) = send(&socket, state)
    {
        tracing::warn!(%error, socket = %socket.to_string_lossy(), "the service manager cannot be notified");
    }
}

/// Sends a state to a socket: a path, or a name that begins with `@` for one without a file.
fn send(socket: &OsStr, state: State) -> io::Result<()> {
    let address = match socket.as_bytes().split_first() {
        Some((b'@', name)) => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    let sender = UnixDatagram::unbound()?;
    // A service manager that does not read does not stop the service.
    sender.set_nonblocking(true)?;
    sender.send_to_addr(state.lines().as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(receiver: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        let length = receiver.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    #[test]
    fn each_state_is_a_datagram_of_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let by_path = UnixDatagram::bind(&path).unwrap();
        let name = format!("wfhost-notify-{}", std::process::id());
        let by_name = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let abstracted = format!("@{name}");
        for (socket, receiver) in [(path.as_os_str(), &by_path), (OsStr::new(&abstracted), &by_name)] {
            send(socket, State::Starting(Duration::from_secs(2))).unwrap();
            assert_eq!(received(receiver), "EXTEND_TIMEOUT_USEC=2000000");
            send(socket, State::Ready).unwrap();
            assert_eq!(received(receiver), "READY=1");
            send(socket, State::Stopping(Duration::from_millis(1))).unwrap();
            assert_eq!(received(receiver), "STOPPING=1\nEXTEND_TIMEOUT_USEC=1000");
        }
    }

    #[test]
    fn a_socket_that_is_not_there_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(send(folder.path().join("none").as_os_str(), State::Ready).is_err());
        assert!(send(OsStr::new(&"x".repeat(200)), State::Ready).is_err());
    }
}
