//! Snapshots of real instances, on real engines.

mod compact;
mod lockstep;
mod refused;
mod rig;
