//! Webhooks and their deliveries.

use super::{micros, time};
use crate::journal::catalog::{Delivery, Expected, StoredWebhook, Webhook, WebhookWrite, Webhooks};
use crate::journal::sqlite::{Sqlite, StoreError};
use crate::process::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::BTreeSet;

const COLUMNS: &str = "name, origin, spec, author, revision, created, changed";

impl Webhooks for Sqlite {
    fn webhooks(&self) -> Result<Vec<StoredWebhook>, StoreError> {
        self.look(|db| {
            let mut select = db.prepare_cached(&format!("SELECT {COLUMNS} FROM webhook ORDER BY name"))?;
            select.query_map([], stored)?.collect()
        })
    }

    fn webhook(&self, name: &str) -> Result<Option<StoredWebhook>, StoreError> {
        self.look(|db| find(db, name))
    }

    fn put_webhook(&self, webhook: &Webhook, expected: Expected, now: Timestamp) -> Result<WebhookWrite, StoreError> {
        self.change(|db| {
            let found = find(db, &webhook.name)?;
            let revision = found.as_ref().map(|found| found.revision);
            if !fits(expected, revision) {
                return Ok(WebhookWrite::Mismatch(revision));
            }
            if let Some(found) = found.as_ref()
                && (&found.webhook.spec, &found.webhook.origin) == (&webhook.spec, &webhook.origin)
            {
                return Ok(WebhookWrite::Stored { webhook: found.clone(), is_new: false });
            }
            let created = found.as_ref().map_or(now, |found| found.created);
            // Above all that were: a description that was removed and written again is another one.
            let revision = revision.map_or(now.0, |revision| now.0.max(revision + 1));
            let Webhook { name, origin, spec, author } = webhook;
            db.prepare_cached(
                "INSERT OR REPLACE INTO webhook (name, origin, spec, author, revision, created, changed)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![
                name,
                origin,
                spec,
                author,
                revision.cast_signed(),
                micros(created),
                micros(now)
            ])?;
            let stored = StoredWebhook { webhook: webhook.clone(), revision, created, changed: now };
            Ok(WebhookWrite::Stored { webhook: stored, is_new: found.is_none() })
        })
    }

    fn remove_webhook(&self, name: &str, expected: Expected) -> Result<Result<bool, Option<u64>>, StoreError> {
        self.change(|db| {
            let revision = find(db, name)?.map(|found| found.revision);
            if !fits(expected, revision) {
                return Ok(Err(revision));
            }
            db.execute("DELETE FROM webhook WHERE name = ?1", [name])?;
            db.execute("DELETE FROM delivery WHERE webhook = ?1", [name])?;
            Ok(Ok(revision.is_some()))
        })
    }

    fn add_deliveries(&self, deliveries: &[Delivery], retained: u32) -> Result<(), StoreError> {
        self.change(|db| {
            let mut insert = db.prepare_cached(
                "INSERT INTO delivery (webhook, id, at, outcome, run, reason)
                 SELECT name, ?2, ?3, ?4, ?5, ?6 FROM webhook WHERE name = ?1",
            )?;
            for Delivery { webhook, id, at, outcome, run, reason } in deliveries {
                insert.execute(params![webhook, id, micros(*at), outcome, run, reason])?;
            }
            let mut trim = db.prepare_cached(
                "DELETE FROM delivery WHERE webhook = ?1 AND row <=
                 (SELECT row FROM delivery WHERE webhook = ?1 ORDER BY row DESC LIMIT 1 OFFSET ?2)",
            )?;
            let webhooks: BTreeSet<_> = deliveries.iter().map(|delivery| &delivery.webhook).collect();
            for webhook in webhooks {
                trim.execute(params![webhook, retained])?;
            }
            Ok(())
        })
    }

    fn deliveries(&self, webhook: &str, before: Option<u64>, limit: u32) -> Result<Vec<(u64, Delivery)>, StoreError> {
        let before = before.map_or(i64::MAX, |before| i64::try_from(before).unwrap_or(i64::MAX));
        self.look(|db| {
            let mut select = db.prepare_cached(
                "SELECT row, webhook, id, at, outcome, run, reason FROM delivery
                 WHERE webhook = ?1 AND row < ?2 ORDER BY row DESC LIMIT ?3",
            )?;
            let rows = select.query_map(params![webhook, before, limit], |row| {
                let delivery = Delivery {
                    webhook: row.get(1)?,
                    id: row.get(2)?,
                    at: time(row.get(3)?),
                    outcome: row.get(4)?,
                    run: row.get(5)?,
                    reason: row.get(6)?,
                };
                Ok((row.get::<_, i64>(0)?.cast_unsigned(), delivery))
            })?;
            rows.collect()
        })
    }
}

fn find(db: &Connection, name: &str) -> rusqlite::Result<Option<StoredWebhook>> {
    db.prepare_cached(&format!("SELECT {COLUMNS} FROM webhook WHERE name = ?1"))?.query_row([name], stored).optional()
}

fn stored(row: &Row<'_>) -> rusqlite::Result<StoredWebhook> {
    Ok(StoredWebhook {
        webhook: Webhook { name: row.get(0)?, origin: row.get(1)?, spec: row.get(2)?, author: row.get(3)? },
        revision: row.get::<_, i64>(4)?.cast_unsigned(),
        created: time(row.get(5)?),
        changed: time(row.get(6)?),
    })
}

fn fits(expected: Expected, revision: Option<u64>) -> bool {
    match expected {
        Expected::Any => true,
        Expected::Absent => revision.is_none(),
        Expected::Revision(expected) => revision == Some(expected),
    }
}
