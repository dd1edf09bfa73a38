//! The local control socket: how another process of the same user sees and steers the runs of a
//! live host.
//!
//! A host listens on a Unix socket of its own from the time that it opens its data folder. One
//! connection carries one request, a line of JSON, and its answer, a line; the answer of
//! [`Request::Watch`] is many lines, up to the end of the run or of the host. Both sides say which
//! [`VERSION`] they speak.
//!
//! **Where.** `<data>/sockets/`, made with mode 0700, the sockets with 0600. If that path would be
//! too long for a socket, the folder is `wfhost/<digest of the data folder>` in `$XDG_RUNTIME_DIR`,
//! else `wfhost-<uid>/<digest>` in the temporary folder. Both sides check that the folder belongs
//! to the user alone before they open it, so neither side talks to a stranger.
//!
//! **Cost.** Binding takes a few system calls, and a thread waits in `accept`. The runtime that
//! serves requests, with one thread, is made for the first connection.
//!
//! - **I1** A socket that is visible under its name has a listener: it is bound under another name,
//!   and renamed. So one that refuses a connection has no host any more, and the caller removes it.
//! - **I2** Only processes of the host's own user, and root, are answered: the kernel says who is
//!   at the other end.
//! - **I3** Whatever the other end does or does not do costs at most one of a bounded number of
//!   connections, a request's bytes, and a bounded queue of events; it never holds a worker, and
//!   never a connection for ever.
//!
//! *Rejected.* HTTP, which needs a token and a check of `Host` and `Origin` even on loopback. One
//! socket for a folder, which would need one of its hosts to speak for the others. One lasting
//! connection with numbered requests, which saves nothing here: a command asks once.

mod carry_out;
mod client;
mod protocol;
mod server;
mod socket_folder;
#[cfg(test)]
mod tests;

pub(super) use carry_out::status;
pub use client::{Answers, Client, ControlError};
pub use protocol::{Answer, HostFacts, Refusal, Request, Resolve, RunFacts, RunState, RunStatus, VERSION};
pub(super) use server::Control;
pub(super) use socket_folder::user;
