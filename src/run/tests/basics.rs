//! Fork and join, messages, calls, sleeps.

use super::desk::Desk;
use super::parking::Parkable;
use super::support::*;
use crate::process::{Action, Event, Micros, Payload, Pid, Status, Tag, Target};

/// Computes a Fibonacci number by spawning: the entry point is the argument.
fn fib(n: u64) -> Act {
    let mut sum = 0;
    let mut answered = 0;
    let mut begun = false;
    act(move |context, events| {
        if n < 2 {
            return Status::Complete(number(n));
        }
        if !begun {
            begun = true;
            context.command(spawns(&(n - 1).to_string()));
            context.command(spawns(&(n - 2).to_string()));
        }
        for (_, answer) in answers(events) {
            sum += text(&answer.unwrap()).parse::<u64>().unwrap();
            answered += 1;
        }
        if answered == 2 { Status::Complete(number(sum)) } else { Status::Blocked }
    })
}

#[test]
fn fork_and_join() {
    for seed in 0..20 {
        let setup = Setup { seed, ..Setup::default() };
        let bench = Bench::with(&setup, |entry| fib(entry.parse().unwrap_or(10)));
        let outcome = bench.finish();
        assert_eq!(output(&outcome), "55");
        assert_eq!(outcome.counts.processes, 177);
    }
}

#[test]
fn calls_are_answered_by_tag_in_any_order() {
    let mut bench = Bench::new(|_| {
        collect(|| vec![calls("safe", number(1)), calls("unsafe", number(2)), calls("inline", number(3))], 3)
    });
    bench.desk.drain();
    let mut waiting = std::mem::take(&mut *bench.handlers.waiting.lock());
    assert_eq!(waiting.len(), 2);
    for (call, reply) in waiting.drain(..).rev() {
        assert_eq!(&*call.idempotency_key, format!("run/{}", call.tag));
        reply.answer(Ok(call.args.clone()));
        assert!(reply.is_abandoned());
        reply.answer(Ok(number(9)));
    }
    let outcome = bench.finish();
    assert_eq!(output(&outcome), r#"["3 3","2 2","1 1"]"#);
    assert_eq!(outcome.counts.dropped, 2);
}

#[test]
fn a_sleep_is_over_at_its_time() {
    let mut bench = Bench::new(|_| {
        let mut begun = None;
        act(move |context, events| {
            let start = *begun.get_or_insert_with(|| {
                context.command(Action::Sleep(Micros(1_500_000)));
                context.now
            });
            if events.is_empty() { Status::Blocked } else { Status::Complete(number(context.now.0 - start.0)) }
        })
    });
    bench.desk.drain();
    assert!(bench.run.outcome().is_none());
    assert_eq!(output(&bench.finish()), "1500000");
}

#[test]
fn messages_go_to_pids_children_and_names() {
    let bench = Bench::new(|entry| match entry {
        "root" => {
            let child = || {
                let mut child = spawn("child");
                child.name = Some("kid".into());
                Action::Spawn(Box::new(child))
            };
            collect(
                move || {
                    vec![
                        child(),
                        sends(Target::Child(Tag(1)), number(1)),
                        sends(Target::Name("kid".into()), number(2)),
                        sends(Target::Process(Pid(2)), number(3)),
                        sends(Target::Name("nobody".into()), number(4)),
                        sends(Target::Run { run: "other".into(), name: "x".into() }, number(5)),
                    ]
                },
                6,
            )
        }
        _ => act(|context, events| {
            let mut count = 0;
            for event in events.drain(..) {
                let Event::Message(message) = event else { panic!("{event:?}") };
                count += 1;
                context.command(sends(Target::Process(Pid(1)), message.body));
            }
            if count == 3 { Status::Complete(Payload::NULL) } else { Status::Idle }
        }),
    });
    assert_eq!(
        output(&bench.finish()),
        r#"["5 no-process Definite","6 not-supported Definite","child 1: 1","child 1: 2","child 1: 3","1 null"]"#
    );
}

#[test]
fn a_run_that_is_refused_has_no_records() {
    let desk = Desk::with_places(1, 1);
    let root = program(|_| collect(Vec::new, 1));
    let start = |id: &str, log: &Parkable| {
        let mut spec = spec(std::sync::Arc::clone(&root), std::sync::Arc::default(), &Setup::default());
        (spec.id, spec.log) = (id.into(), Box::new(log.clone()));
        desk.kernel.start(spec).map(drop)
    };
    let [first, second] = [Parkable::default(), Parkable::default()];
    let records = |log: &Parkable| crate::run::Log::records(log).unwrap().len();
    assert_eq!((start("first", &first), records(&first)), (Ok(()), 1));
    assert_eq!((start("second", &second), records(&second)), (Err(crate::run::StartError::Refused), 0));
    assert!(desk.kernel.run("second").is_none());
}
