//! What becomes of durable runs when their host is killed, its disk fails, its files are damaged, its clock jumps, or others have its runs.
//!
//! The host is a process of its own: this program again ([`hosted`]), so that there are many runs in one process, or `wfhost` itself. Its
//! calls go to a [server](server) that misbehaves and keeps a ledger of what was done. One module per topic.
//!
//! ```text
//! WFHOST_KILLS=1000 cargo test --test faults kills
//! ```

mod damage;
mod dice;
mod disk;
mod hosted;
mod judge;
mod kills;
mod kinds;
mod life;
mod program;
mod server;
mod shim;
mod work;
