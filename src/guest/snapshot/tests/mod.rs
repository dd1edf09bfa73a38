//! Snapshots of real instances, on real engines.

mod compact;
mod guests;
mod lockstep;
mod refused;
mod rig;
