//! Tests of webhooks.

mod links;
mod mapping;
mod secrets;
mod service;
mod verify;
