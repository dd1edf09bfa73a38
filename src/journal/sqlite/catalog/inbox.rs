//! What runs wait for from people. The rows of a run are written with what else it has gathered,
//! when it is parked and when it ends.

use super::{micros, time};
use crate::journal::catalog::{Inbox, InboxFilter, InboxPlace, WaitingRun};
use crate::journal::sqlite::{Sqlite, StoreError};
use crate::process::Json;
use crate::run::{Awaited, AwaitedKind};
use rusqlite::types::{Type, Value};
use rusqlite::{Connection, Row, params, params_from_iter};

impl Inbox for Sqlite {
    fn waiting(&self, filter: &InboxFilter) -> Result<Vec<WaitingRun>, StoreError> {
        // A run that was parked just now has left the memory, and its rows may not be written yet.
        self.0.flush_rows()?;
        let (clauses, values) = clauses(filter);
        let limit = filter.limit.map_or(-1, i64::from);
        self.look(|db| {
            let mut select = db.prepare_cached(&format!(
                "SELECT run.id, run.name, kind, waiting.name, since, detail FROM waiting JOIN run USING (run)
                 WHERE status IS NULL{clauses} ORDER BY since, id, kind, waiting.name LIMIT {limit}"
            ))?;
            select.query_map(params_from_iter(values), waiting)?.collect()
        })
    }
}

fn clauses(filter: &InboxFilter) -> (String, Vec<Value>) {
    let mut clauses = String::new();
    let mut values: Vec<Value> = Vec::new();
    let InboxFilter { run, kind, name, since_before, after, limit: _ } = filter;
    let given = [
        (" AND id = ?", run.as_ref().map(|run| run.to_string().into())),
        (" AND kind = ?", kind.map(|kind| kind.name().to_owned().into())),
        (" AND waiting.name = ?", name.clone().map(Value::from)),
        (" AND since < ?", since_before.map(|before| micros(before).into())),
    ];
    for (clause, value) in given {
        if let Some(value) = value {
            clauses.push_str(clause);
            values.push(value);
        }
    }
    if let Some(InboxPlace { since, run, kind, name }) = after {
        clauses.push_str(" AND since >= ? AND (since, id, kind, waiting.name) > (?, ?, ?, ?)");
        let since = Value::from(micros(*since));
        let texts = [&**run, kind.name(), &**name].map(|text| Value::from(text.to_owned()));
        values.extend([since.clone(), since].into_iter().chain(texts));
    }
    (clauses, values)
}

fn waiting(row: &Row<'_>) -> rusqlite::Result<WaitingRun> {
    let damaged = |column, why: String| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, why.into());
    let kind: String = row.get(2)?;
    let kind = AwaitedKind::named(&kind).ok_or_else(|| damaged(2, format!("{kind:?} is no kind")))?;
    let detail =
        row.get::<_, Option<String>>(5)?.map(|text| Json::parse(text).map_err(|error| damaged(5, error.to_string())));
    Ok(WaitingRun {
        run: row.get(0)?,
        workflow: row.get(1)?,
        awaited: Awaited { kind, name: row.get(3)?, since: time(row.get(4)?), detail: detail.transpose()? },
    })
}

/// Replaces what a run waits for.
pub(in crate::journal::sqlite) fn replace(change: &Connection, run: i64, awaited: &[Awaited]) -> rusqlite::Result<()> {
    change.prepare_cached("DELETE FROM waiting WHERE run = ?1")?.execute([run])?;
    let mut insert = change
        .prepare_cached("INSERT OR IGNORE INTO waiting (run, kind, name, since, detail) VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for Awaited { kind, name, since, detail } in awaited {
        let detail: Option<&str> = detail.as_ref().map(Json::as_str);
        insert.execute(params![run, kind.name(), name, micros(*since), detail])?;
    }
    Ok(())
}
