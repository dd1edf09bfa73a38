//! Checks the records of a simulated run once it has ended.

use super::{Runs, SimulatedRun};
use crate::process::{Action, Micros, Pid, Status};
use crate::run::{Arrived, Decided, News, Record, RunHandle, rebuild};
use std::collections::{BTreeMap, BTreeSet};

impl Runs {
    pub(super) fn verify_run(&self, run: &SimulatedRun) -> Result<(), String> {
        let records = match (&run.disk, &run.handle) {
            (Some(disk), _) if disk.lock().is_over() => disk.lock().records(),
            (Some(disk), _) => {
                let (durable, written) = disk.lock().progress();
                return Err(format!("it did not end: {durable} of {written} records are durable"));
            }
            (None, handle) => handle.as_ref().and_then(RunHandle::records).ok_or("its log has lost records")?,
        };
        if std::env::var_os("WFHOST_SIM_RECORDS").is_some() {
            records.iter().enumerate().for_each(|(number, record)| eprintln!("{} {} {record:?}", run.id, number + 1));
        }
        for record in &records {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            if Record::decode(bytes.into()).as_ref() != Ok(record) {
                return Err(format!("it decodes to another record: {record:?}"));
            }
        }
        verify_exits(&records)?;
        verify_acts(&records, run)?;
        if self.crashes.is_none() {
            verify_sleeps(&records)?;
        }
        let rebuilt = rebuild(&records, &self.root, &self.programs).map_err(|error| format!("{error}: {error:?}"))?;
        let outcome = run
            .handle
            .as_ref()
            .map(|run| run.outcome().ok_or_else(|| format!("it did not end: {:?}", run.processes())));
        let outcome = outcome.transpose()?;
        let result = outcome.as_ref().map(|outcome| &outcome.result).or(run.reported.as_ref());
        if !rebuilt.is_finished() || result.is_some_and(|result| rebuilt.result() != Some(result)) {
            return Err(format!("rebuilt, its result is {:?} instead of {result:?}", rebuilt.result()));
        }
        if run.reported.is_some() && run.reported.as_ref() != rebuilt.result() {
            return Err(format!("its result was reported as {:?}, and it is {:?}", run.reported, rebuilt.result()));
        }
        if let Some(outcome) = outcome
            && rebuilt.steps != outcome.counts.steps
        {
            return Err(format!("rebuilt, it took {} steps instead of {}", rebuilt.steps, outcome.counts.steps));
        }
        // The rebuilt players have checked their events, too.
        self.table.breaches.lock().first().map_or(Ok(()), |breach| Err(breach.clone()))
    }
}

/// Checks that every acknowledged act is in the records, and none twice.
fn verify_acts(records: &[Record], run: &SimulatedRun) -> Result<(), String> {
    let mut known: BTreeMap<&str, u64> = BTreeMap::new();
    for record in records {
        if let Record::Arrived(arrived) = record
            && let Some(act) = &arrived.act
        {
            *known.entry(&act.id).or_default() += 1;
        }
    }
    for (number, (act, acknowledged)) in &run.acts {
        match known.get(&*number.to_string()) {
            Some(1) => {}
            None if !acknowledged => {}
            times => return Err(format!("the records have the act {number} {times:?} times: {act:?}")),
        }
    }
    Ok(())
}

/// How far from its due time a sleep may end. Workers may have no turn for some milliseconds of the
/// storm, the recovery of a parked run may wait as long, and a batch may have the time of a worker
/// that is ahead of the one that measures the sleep.
const SLEEP_OFF_MAX: Micros = Micros(100_000);

/// Checks that sleeps end when they are due, in a world without crashes.
fn verify_sleeps(records: &[Record]) -> Result<(), String> {
    let mut dues = BTreeMap::new();
    for record in records {
        match record {
            Record::Stepped(stepped) => {
                for Decided { command, .. } in &stepped.decided {
                    if let Action::Sleep(duration) = command.action {
                        dues.insert((stepped.pid, command.tag), stepped.at.saturating_add(duration));
                    }
                }
            }
            Record::Arrived(arrived) => {
                let Arrived { at, news: News::Due { pid, tag }, .. } = &**arrived else { continue };
                let due = dues.get(&(*pid, *tag)).ok_or("a sleep ends that was never begun")?;
                if at.0.abs_diff(due.0) > SLEEP_OFF_MAX.0 {
                    return Err(format!("the sleep {tag} of process {pid} was due at {due:?} and ended at {at:?}"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks that every process ends once and is not stepped afterwards.
fn verify_exits(records: &[Record]) -> Result<(), String> {
    let mut ended = BTreeSet::new();
    let mut seen = BTreeSet::from([Pid::ROOT]);
    for record in records {
        let (pid, ends) = match record {
            Record::Stepped(stepped) => {
                (stepped.pid, matches!(stepped.status, Status::Complete(_) | Status::Failed(_)))
            }
            Record::Died(died) => (died.pid, true),
            _ => continue,
        };
        seen.insert(pid);
        if ended.contains(&pid) {
            return Err(format!("process {pid} continues after its end"));
        }
        if ends {
            ended.insert(pid);
        }
    }
    match seen.difference(&ended).next() {
        Some(pid) => Err(format!("process {pid} has no end")),
        None => Ok(()),
    }
}
