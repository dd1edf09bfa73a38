//! Tests of the commit point.

mod backlog;
mod damage;
mod desk;
mod notices;
mod parking;
mod parking_races;
mod permits;
mod recovered;
mod signals;
mod snapshots;
mod stopping;
mod support;
mod timers;

mod acts;
mod awaited;
mod basics;
mod cancels;
mod effects;
mod ends;
mod foreign;
mod gone;
mod keys;
mod limits;
mod lives;
mod outbox;
mod parts;
mod paused;
mod prefixes;
mod reach;
mod records;
mod replay;
mod resume;
mod stored_acts;
