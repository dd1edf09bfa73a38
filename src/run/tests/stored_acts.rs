//! Acts that were stored for a run, applied when it is recovered.

use super::desk::Desk;
use super::support::*;
use crate::process::{Action, Body, Ending, Event, Micros, Payload, Pid, Problem, ProcessInit, Program, Status, Tag};
use crate::run::{Act, Mail, News, Record, RecoveryError, RecoverySpec, Resolution, RunHandle};
use std::sync::Arc;

/// Calls both handlers, and has a child that does. Asked to end, the root takes its child back and
/// ends when the child has ended.
fn caller() -> Arc<dyn Program> {
    program(|entry| {
        let is_root = entry == "root";
        let mut begun = false;
        let mut child = Tag(0);
        act(move |context, events| {
            if !std::mem::replace(&mut begun, true) {
                context.command(calls("safe", number(1)));
                context.command(calls("unsafe", number(2)));
                if is_root {
                    child = context.command(spawns("child"));
                }
            }
            for event in events.drain(..) {
                match event {
                    Event::Cancel { .. } if is_root => {
                        context.command(Action::Cancel(child));
                    }
                    Event::Cancel { .. } => return Status::Complete(Payload::NULL),
                    Event::Completed { tag, .. } if tag == child => return Status::Complete(Payload::NULL),
                    _ => {}
                }
            }
            Status::Blocked
        })
    })
}

fn in_flight(root: &Arc<dyn Program>) -> Vec<Record> {
    let bench = Bench::of(Desk::new(1), Arc::default(), &Setup::default(), root);
    bench.desk.clone().drain();
    bench.run.records().unwrap()
}

fn recovered(root: &Arc<dyn Program>, records: &[Record], left: &[(&str, Act)]) -> (Desk, Arc<Handlers>, RunHandle) {
    let (mut desk, handlers) = (Desk::new(1), Arc::<Handlers>::default());
    let left: Vec<Mail> = left.iter().map(|(id, act)| act.to_mail(id)).collect();
    let run = desk.kernel.recover(RecoverySpec { left, ..recovery_spec(root, &handlers, records) }, records).unwrap();
    desk.drain();
    (desk, handlers, run)
}

fn cancel(grace: Option<Micros>) -> Act {
    Act::Cancel { reason: "enough".into(), grace }
}

#[test]
fn no_call_is_sent_again_in_a_run_that_was_asked_to_end() {
    let root = caller();
    let records = in_flight(&root);
    // All calls that may be repeated are, if no act was stored.
    assert_eq!(recovered(&root, &records, &[]).1.waiting.lock().len(), 2);
    let again = Act::Resolve { pid: Pid::ROOT, tag: Tag(2), resolution: Resolution::Again };
    let acts = [("a", again.clone()), ("b", cancel(None))];
    for left in [vec![acts[1].clone()], acts.to_vec(), vec![acts[1].clone(), acts[0].clone()]] {
        let (mut desk, handlers, run) = recovered(&root, &records, &left);
        desk.settle();
        assert!(handlers.waiting.lock().is_empty(), "left: {left:?}");
        assert!(run.outcome().is_some());
    }
    // Nor if a host asked it that died, or without a grace.
    let (_, _, run) = recovered(&root, &records, &[("c", cancel(Some(Micros(0))))]);
    let asked: Vec<Record> = run.records().unwrap()[..=records.len()].to_vec();
    assert!(matches!(&asked.last(), Some(Record::Arrived(arrived)) if matches!(arrived.news, News::Cancel { .. })));
    let (mut desk, handlers, run) = recovered(&root, &asked, &[]);
    desk.settle();
    assert!(handlers.waiting.lock().is_empty());
    assert!(run.outcome().is_some());
}

/// Asked to end, it finishes its work, and waits for its calls.
#[test]
fn who_goes_on_when_it_was_asked_to_end_has_its_calls_sent_again() {
    let root = program(|_| collect(|| vec![calls("safe", number(1))], 2));
    let records = in_flight(&root);
    let (mut desk, handlers, run) = recovered(&root, &records, &[("a", cancel(None))]);
    let (_, reply) = handlers.waiting.lock().remove(0);
    reply.answer(Ok(number(7)));
    desk.settle();
    let outcome = run.outcome().unwrap();
    assert_eq!((&outcome.ending, &*output(&outcome)), (&Ending::Completed, r#"["cancel: enough","1 7"]"#));
}

#[test]
fn stored_acts_are_applied_once_and_in_order() {
    let root = program(|_| collect(|| vec![Action::Register("hub".into())], 6));
    let records = in_flight(&root);
    let signal = |number: u64| Act::Signal { name: "hub".into(), body: self::number(number) };
    let left: Vec<(&str, Act)> = vec![
        ("a", signal(1)),
        ("b", Act::Pause),
        ("a", signal(1)),
        ("c", signal(2)),
        ("a", signal(3)),
        ("d", Act::Resume),
    ];
    let (mut desk, _, run) = recovered(&root, &records, &left);
    for (id, number) in [("c", 2), ("e", 4), ("f", 5), ("g", 6)] {
        drop(run.act(signal(number), Some(id)));
    }
    desk.settle();
    let heard = output(&run.outcome().unwrap());
    assert_eq!(heard.matches("outside").count(), 5, "{heard}");
    let order: Vec<_> = [1, 2, 4, 5, 6].map(|number| heard.find(&format!(": {number}")).unwrap()).to_vec();
    assert!(order.is_sorted(), "{heard}");
}

/// A program that is known by name alone.
struct Absent(Arc<str>);

impl Program for Absent {
    fn digest(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }

    fn body(&self, _: ProcessInit) -> Result<Box<dyn Body>, Problem> {
        panic!("nothing of the run is stepped")
    }
}

#[test]
fn a_run_without_an_owner_is_ended_without_its_programs() {
    let root = caller();
    let records = in_flight(&root);
    let (mut desk, handlers) = (Desk::new(1), Arc::<Handlers>::default());
    let absent: Arc<dyn Program> = Arc::new(Absent(root.digest()));
    let whole = recovery_spec(&root, &handlers, &records);
    let programs = whole.programs.iter().map(|(name, program)| {
        let absent: Arc<dyn Program> = Arc::new(Absent(program.digest()));
        (Arc::clone(name), absent)
    });
    // An act that was stored for it is delivered all the same, and never read.
    let left = vec![Act::Pause.to_mail("p"), cancel(None).to_mail("c")];
    let spec = RecoverySpec { root: Arc::clone(&absent), programs: programs.collect(), left, ..whole };
    let run = desk.kernel.end(spec, &records, "no more").unwrap();
    desk.settle();
    let outcome = run.outcome().unwrap();
    assert_eq!(outcome.ending, Ending::Cancelled("enough".into()), "the first who asked is the reason");
    assert!(handlers.waiting.lock().is_empty() && desk.living() == 0);
    // Its records are those of a run like any other.
    let all = run.records().unwrap();
    let programs = recovery_spec(&root, &handlers, &all).programs;
    let rebuilt = crate::run::rebuild(&all, &root, &programs).unwrap();
    assert!(rebuilt.is_finished());
    assert_eq!(rebuilt.result(), Some(&outcome.result));
}

/// A run that is to be left alone if it is paused: by its records, or by acts that were stored for
/// it and are not yet recorded.
#[test]
fn a_run_is_left_alone_that_will_be_paused() {
    let root = caller();
    let mut bench = Bench::of(Desk::new(1), Arc::default(), &Setup::default(), &root);
    bench.desk.drain();
    let going = bench.run.records().unwrap();
    drop(bench.run.act(Act::Pause, Some("p")));
    let paused = bench.run.records().unwrap();
    drop(bench.run.act(Act::Resume, Some("r")));
    let unpaused = bench.run.records().unwrap();
    let is_left_alone = |records: &[Record], left: &[(&str, Act)]| {
        let left = left.iter().map(|(id, act)| act.to_mail(id)).collect();
        let handlers = Arc::default();
        let spec = RecoverySpec { left, unless_paused: true, ..recovery_spec(&root, &handlers, records) };
        match Desk::new(1).kernel.recover(spec, records) {
            Ok(_) => false,
            Err(RecoveryError::Paused(run)) => &*run == "run",
            Err(error) => panic!("{error}"),
        }
    };
    let (pause, resume) = (("p", Act::Pause), ("r", Act::Resume));
    assert!(!is_left_alone(&going, &[]) && is_left_alone(&going, std::slice::from_ref(&pause)));
    assert!(is_left_alone(&paused, &[]) && !is_left_alone(&paused, &[("x", cancel(None))]));
    assert!(!is_left_alone(&paused, &[pause.clone(), resume]));
    assert!(is_left_alone(&unpaused, &[("q", Act::Pause)]));
    assert!(!is_left_alone(&unpaused, &[pause]), "that act is recorded already");
}
