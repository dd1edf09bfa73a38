//! `wfhost doctor`.

use super::Exit;
use super::arguments::Doctor;
use super::terminal::print;
use serde_json::{Value, json};

pub(super) fn doctor(command: &Doctor) -> anyhow::Result<Exit> {
    // The pool that a service would take, so that what the kernel refuses shows here.
    let mut arguments = command.host.clone();
    arguments.slots = arguments.slots.or(Some(crate::guest::slots_max()));
    let asked = arguments.slots.unwrap_or_default();
    let host = arguments.builder(asked)?.workers(1).build()?;
    let guests = host.guests();
    let capacity = guests.capacity();
    let cache = guests.cache();
    let folder = match cache.dir() {
        Ok(folder) => {
            json!({ "folder": folder, "bytes": cache.bytes(), "bytes-max": guests.options().cache_bytes_max })
        }
        Err(reason) => json!({ "off": reason }),
    };
    let report = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "processors": std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        "kernel": {
            "vm.max_map_count": read_number("/proc/sys/vm/max_map_count"),
            "vm.overcommit_memory": read_number("/proc/sys/vm/overcommit_memory"),
        },
        "pool": {
            "profile": guests.options().profile,
            "slots-asked": asked,
            "slots": guests.slots(),
            "core-instances": capacity.core_instances,
            "memories": capacity.memories,
            "tables": capacity.tables,
            "slice-fuel": guests.options().slice_fuel,
        },
        "snapshots": guests.options().snapshots,
        "cache": folder,
        "handlers": host.handlers(),
        "expressions": { "engine": "jq 1.8.2", "digest": host.expressions_digest() },
        "hints": hints(asked, guests.slots(), cache.dir().err()),
    });
    if command.json {
        print(&serde_json::to_string_pretty(&report)?)?;
    } else {
        let mut lines = String::new();
        describe(&mut lines, "", &report);
        print(&lines)?;
    }
    Ok(Exit::Success)
}

/// What a person could do.
fn hints(asked: u32, slots: u32, cache: Option<&str>) -> Vec<String> {
    let mut hints = Vec::new();
    if slots < asked {
        hints.push(format!(
            "the kernel gave {slots} of {asked} slots; more are to be had with: sysctl -w vm.max_map_count=1000000"
        ));
    }
    if let Some(reason) = cache {
        hints.push(format!(
            "compiled code is not kept ({reason}): every start compiles; set WFHOST_CACHE to a folder of your own"
        ));
    }
    hints
}

fn read_number(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// A tree as lines `name  value`.
fn describe(lines: &mut String, name: &str, value: &Value) {
    let join = |part: &str| if name.is_empty() { part.to_owned() } else { format!("{name}.{part}") };
    match value {
        Value::Object(members) => members.iter().for_each(|(key, value)| describe(lines, &join(key), value)),
        Value::Array(items) if items.is_empty() => {}
        Value::Array(items) => {
            let words: Vec<String> =
                items.iter().map(|item| item.as_str().map_or(item.to_string(), str::to_owned)).collect();
            lines.push_str(&format!("{name:<28} {}\n", words.join("; ")));
        }
        Value::String(text) => lines.push_str(&format!("{name:<28} {text}\n")),
        other => lines.push_str(&format!("{name:<28} {other}\n")),
    }
}
