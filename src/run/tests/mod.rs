//! Tests of the commit point.

mod desk;
mod parking;
mod permits;
mod signals;
mod snapshots;
mod support;

mod acts;
mod basics;
mod effects;
mod limits;
mod lives;
mod prefixes;
mod records;
mod replay;
mod resume;
