//! What waits for a person, over all runs of a server.

use super::server_view::{time, unexpected};
use crate::cli::args::http::Server;
use crate::cli::report::error::CommandError;
use crate::journal::catalog::{InboxFilter, WaitingRun};
use crate::process::Json;
use crate::run::{Awaited, AwaitedKind};
use serde_json::{Map, Value};

/// Items of a page.
const PAGE: &str = "1000";

/// What fits the filter, the longest wait first.
pub(super) fn waiting(server: &Server, filter: &InboxFilter) -> Result<Vec<WaitingRun>, CommandError> {
    let mut all = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut query = vec![("limit", PAGE.to_owned())];
        query.extend(filter.kind.map(|kind| ("kind", kind.name().to_owned())));
        query.extend(cursor.map(|cursor| ("cursor", cursor)));
        let page = server.get(&["inbox"], &query)?;
        for item in page["items"].as_array().ok_or_else(|| unexpected("items"))? {
            let waiting = item_of(item).ok_or_else(|| unexpected("such item"))?;
            if filter.fits(&waiting) {
                all.push(waiting);
            }
        }
        cursor = page["next"].as_str().map(str::to_owned);
        if cursor.is_none() {
            all.sort_by_key(WaitingRun::place);
            return Ok(all);
        }
    }
}

fn item_of(item: &Value) -> Option<WaitingRun> {
    let detail = |keys: &[&str]| {
        let found = keys.iter().filter_map(|key| Some(((*key).to_owned(), item.get(*key)?.clone())));
        let found: Map<String, Value> = found.collect();
        (!found.is_empty()).then(|| Json::from_value(&Value::Object(found)))
    };
    let (kind, name, detail) = match item["kind"].as_str()? {
        "signal" => (AwaitedKind::Signal, item["name"].as_str()?.to_owned(), detail(&["title", "text", "schema"])),
        "uncertain" => {
            let name = format!("{}/{}", item["pid"].as_u64()?, item["call"].as_u64()?);
            (AwaitedKind::Uncertain, name, detail(&["handler", "key"]))
        }
        _ => return None,
    };
    let awaited = Awaited { kind, name: name.as_str().into(), since: time(item, "since")?, detail };
    Some(WaitingRun { run: item["run"].as_str()?.into(), workflow: item["workflow"].as_str()?.into(), awaited })
}
