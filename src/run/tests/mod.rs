//! Tests of the commit point.

mod backlog;
mod damage;
mod desk;
mod notices;
mod parking;
mod parking_races;
mod permits;
mod signals;
mod snapshots;
mod stopping;
mod support;
mod taken_up;
mod timers;

mod acts;
mod basics;
mod cancels;
mod effects;
mod ends;
mod foreign;
mod held;
mod keys;
mod leaving;
mod left;
mod limits;
mod lives;
mod parts;
mod prefixes;
mod reach;
mod records;
mod replay;
mod resume;
