//! Tests of webhooks.

mod mapping;
mod secrets;
mod verify;
