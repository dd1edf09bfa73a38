//! Tests of the commit point.

mod desk;
mod support;

mod basics;
