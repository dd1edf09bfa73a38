//! Runs that are parked and leave nothing in memory.

use super::desk::Desk;
use super::parking::{Parkable, collects, start, wait_long, waits};
use super::support::*;
use crate::process::{Problem, Program, problem::kind};
use crate::run::{Log as _, Record, RecoverySpec, Refused};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Records that outlive their log, of which nothing stays in memory.
fn going() -> Parkable {
    let mut log = Parkable::default();
    log.goes = true;
    log
}

/// A desk whose kernel recovers the run that is gone from its records.
fn recovering(root: &Arc<dyn Program>, log: &Parkable) -> Desk {
    let desk = Desk::new(1);
    let (kernel, root, log) = (desk.kernel.downgrade(), Arc::clone(root), log.clone());
    desk.kernel.recover_by(Some(Arc::new(move |id: &str| {
        let records = log.memory.lock().records().unwrap();
        if id == "run" && !records.is_empty() {
            let spec = RecoverySpec { log: Box::new(log.clone()), ..recovery_spec(&root, &Arc::default(), &[]) };
            let kernel = kernel.upgrade().unwrap();
            if kernel.recover(spec, &Record::decode_run(records).unwrap()).is_ok() {
                log.recovered.fetch_add(1, Relaxed);
            }
        }
    })));
    desk
}

#[test]
fn a_run_that_is_gone_is_recovered_for_whoever_asks_for_it() {
    let root = collects(|| vec![waits("a"), waits("b")], 2);
    let log = going();
    let mut desk = recovering(&root, &log);
    let run = start(&desk.kernel, "run", &root, &log);
    let weak = Arc::downgrade(&run.run().unwrap());
    let is_gone =
        |desk: &Desk| desk.kernel.parked().is_empty() && desk.kernel.runs().is_empty() && desk.kernel.resident() == 0;
    wait_long(&mut desk);
    assert!(is_gone(&desk) && desk.kernel.run("run").is_none());
    assert_eq!((desk.living(), weak.strong_count()), (0, 0), "nothing of the run is left");

    // By a handle that was there.
    run.signal("b", number(2)).unwrap();
    assert_eq!(desk.kernel.runs().len(), 1);
    wait_long(&mut desk);
    assert!(is_gone(&desk), "it waits again");
    // By its id.
    let other = desk.kernel.find("run").unwrap();
    other.signal("a", number(1)).unwrap();
    desk.settle();
    assert_eq!(output(&run.outcome().unwrap()), r#"["2 2","1 1"]"#);
    assert_eq!(other.outcome(), run.outcome());
    assert_eq!(log.recovered.load(Relaxed), 2);
    assert_eq!(run.signal("a", number(1)), Err(Refused::Ended));
    assert_eq!(log.recovered.load(Relaxed), 2, "it has ended");
}

#[test]
fn who_waits_for_a_run_that_is_gone_hears_that_the_host_stops() {
    let root = collects(|| vec![waits("a")], 1);
    let log = going();
    let mut desk = recovering(&root, &log);
    let run = start(&desk.kernel, "run", &root, &log);
    wait_long(&mut desk);
    assert!(desk.kernel.run("run").is_none() && run.outcome().is_none());
    desk.kernel.abandon(&Problem::new(kind::SUSPENDED, "The host stops"));
    assert_eq!(run.outcome().unwrap().result.as_ref().unwrap_err().kind, kind::SUSPENDED);
    assert_eq!(log.recovered.load(Relaxed), 0);
}
