//! The executor and its futures, stepped natively.

#![allow(clippy::unnecessary_wraps, clippy::unchecked_time_subtraction, clippy::ignored_unit_patterns)]

use std::time::Duration;

use crate::testing::{Stepped, answer_to, completed};
use crate::{
    Action, Cancellation, Ctx, Either, Ending, Event, Exit, Level, Message, Outcome, Payload, Problem, Sender, Status,
    Target, join, join_all, json, select, select_all, start, try_join_all, try_map,
};

fn json_of(value: impl serde::Serialize) -> Payload {
    Payload::Json(serde_json::to_string(&value).unwrap())
}

fn null() -> Result<Payload, Problem> {
    Ok(Payload::null())
}

/// Starts an entry without input that runs an async block.
macro_rules! stepped {
    ($body:expr) => {{
        fn entry(ctx: Ctx, input: Payload) -> Result<crate::Task, Problem> {
            start(
                |ctx: Ctx, _: ()| {
                    let body: fn(Ctx) -> _ = $body;
                    body(ctx)
                },
                ctx,
                input,
            )
        }
        Stepped::start(entry, Payload::null()).unwrap()
    }};
}

mod blobs;

/// The commands of an outcome in a form that a test can read.
fn commands(outcome: &Outcome) -> Vec<String> {
    let text = |action: &Action| match action {
        Action::Sleep(micros) => format!("sleep {micros}"),
        Action::Cancel(tag) => format!("cancel {tag}"),
        Action::Call(call) => format!("call {} {:?} {:?}", call.handler, call.timeout, call.idempotency_key),
        Action::Spawn(spawn) => format!("spawn {}", spawn.entry),
        Action::Send(send) => format!("send {} to {:?}", send.topic, send.to),
        Action::Register(name) => format!("register {name}"),
        Action::Expose(expose) => format!("expose {}", expose.query),
        Action::Stop(target) => format!("stop {target:?}"),
        Action::Monitor(target) => format!("monitor {target:?}"),
        Action::Link(target) => format!("link {target:?}"),
        Action::Unlink(target) => format!("unlink {target:?}"),
    };
    outcome.commands.iter().map(|command| format!("{}: {}", command.tag, text(&command.action))).collect()
}

#[test]
fn a_sleep_blocks_until_it_is_answered() {
    let mut guest = stepped!(|ctx| async move {
        ctx.sleep(Duration::from_nanos(1_500)).await?;
        Ok(7)
    });
    let outcome = guest.step(vec![]);
    assert_eq!(outcome.status, Status::Blocked);
    assert_eq!(commands(&outcome), ["1: sleep 2"]);
    let outcome = guest.answer(1, null());
    assert_eq!(completed(&outcome), Some("7"));
    assert!(outcome.commands.is_empty());
}

#[test]
fn a_signal_is_waited_for_by_a_call_that_may_have_a_timeout() {
    let mut guest = stepped!(|ctx| async move {
        let early: u32 = ctx.signal("approve").await?;
        let late: Result<u32, Problem> = ctx.signal("approve").timeout(Duration::from_secs(1)).await;
        Ok((early, late.unwrap_err().kind))
    });
    let outcome = guest.step(vec![]);
    assert_eq!((commands(&outcome), outcome.status), (vec!["1: call signal None None".to_owned()], Status::Blocked));
    let Action::Call(call) = &outcome.commands[0].action else { unreachable!() };
    assert_eq!(call.args, json_of(json!({ "name": "approve" })));
    assert_eq!(commands(&guest.answer(1, Ok(json_of(5)))), ["2: call signal Some(1000000) None"]);
    let over = Problem::retryable("timed-out", "No signal came in time");
    assert_eq!(completed(&guest.answer(2, Err(over))), Some(r#"[5,"timed-out"]"#));
}

#[test]
fn a_future_starts_its_command_only_when_it_is_reached_unless_started() {
    let mut guest = stepped!(|ctx| async move {
        let lazy = ctx.call::<u32>("second", ());
        let eager = ctx.call::<u32>("first", ()).start();
        Ok(eager.await? + lazy.await?)
    });
    assert_eq!(commands(&guest.step(vec![])), ["1: call first None None"]);
    assert_eq!(commands(&guest.answer(1, Ok(json_of(1)))), ["2: call second None None"]);
    assert_eq!(completed(&guest.answer(2, Ok(json_of(2)))), Some("3"));
}

#[test]
fn a_call_carries_its_timeout_and_key() {
    let mut guest = stepped!(|ctx| async move {
        ctx.call::<Payload>("http", json!({})).timeout(Duration::from_millis(5)).idempotency_key("once").await
    });
    assert_eq!(commands(&guest.step(vec![])), [r#"1: call http Some(5000) Some("once")"#]);
    let problem = Problem { status: 503, ..Problem::retryable("unavailable", "Unavailable") };
    assert_eq!(guest.answer(1, Err(problem.clone())).status, Status::Failed(problem));
}

#[test]
fn answers_in_reverse_come_out_in_order() {
    let mut guest = stepped!(|ctx| async move {
        let children = (1..=3).map(|n| ctx.spawn::<u64>("child", n));
        try_join_all(children).await
    });
    assert_eq!(commands(&guest.step(vec![])), ["1: spawn child", "2: spawn child", "3: spawn child"]);
    assert_eq!(guest.answer(3, Ok(json_of(30))).status, Status::Blocked);
    assert_eq!(guest.answer(2, Ok(json_of(20))).status, Status::Blocked);
    assert_eq!(completed(&guest.answer(1, Ok(json_of(10)))), Some("[10,20,30]"));
}

#[test]
fn one_batch_can_answer_everything() {
    let mut guest = stepped!(|ctx| async move {
        let sleeps = (0..1000).map(|_| ctx.sleep(Duration::ZERO));
        Ok(join_all(sleeps).await.len())
    });
    assert_eq!(guest.step(vec![]).commands.len(), 1000);
    let events = (1..=1000).rev().map(|tag| answer_to(tag, null())).collect();
    assert_eq!(completed(&guest.step(events)), Some("1000"));
}

#[test]
fn the_first_failure_cancels_the_others() {
    let mut guest = stepped!(|ctx| async move {
        let all: Result<Vec<()>, Problem> = try_join_all((0..3).map(|_| ctx.sleep(Duration::from_secs(1)))).await;
        let problem = all.unwrap_err();
        ctx.sleep(Duration::ZERO).await?;
        Ok(problem.kind)
    });
    guest.step(vec![]);
    let outcome = guest.answer(2, Err(Problem::new("broken", "Broken")));
    assert_eq!(commands(&outcome), ["4: cancel 1", "5: cancel 3", "6: sleep 0"]);
    // The echoes of the cancels have no receiver, and change nothing.
    let cancelled = || Err(Problem::new("cancelled", "Cancelled"));
    let outcome = guest.step(vec![answer_to(1, cancelled()), answer_to(3, cancelled())]);
    assert_eq!((outcome.status, outcome.commands.len()), (Status::Blocked, 0));
    assert!(guest.host.logged.borrow().is_empty());
    assert_eq!(completed(&guest.answer(6, null())), Some("\"broken\""));
}

#[test]
fn a_limit_holds_and_the_outputs_keep_their_order() {
    let mut guest = stepped!(|ctx| async move {
        try_map(2, 0..4u64, |n| {
            let ctx = ctx.clone();
            async move {
                ctx.sleep(Duration::from_micros(n)).await?;
                Ok::<_, Problem>(n)
            }
        })
        .await
    });
    assert_eq!(commands(&guest.step(vec![])), ["1: sleep 0", "2: sleep 1"]);
    assert_eq!(commands(&guest.answer(2, null())), ["3: sleep 2"]);
    assert_eq!(commands(&guest.answer(1, null())), ["4: sleep 3"]);
    assert_eq!(guest.answer(4, null()).status, Status::Blocked);
    assert_eq!(completed(&guest.answer(3, null())), Some("[0,1,2,3]"));
}

#[test]
fn the_loser_of_a_select_is_cancelled() {
    let mut guest = stepped!(|ctx| async move {
        let first = select(ctx.sleep(Duration::from_secs(1)), ctx.call::<u32>("slow", ())).await;
        Ok(matches!(first, Either::Left(Ok(()))))
    });
    guest.step(vec![]);
    let outcome = guest.answer(1, null());
    assert_eq!(completed(&outcome), Some("true"));
    assert_eq!(commands(&outcome), ["3: cancel 2"]);
}

#[test]
fn the_first_of_many_is_known_by_its_index() {
    let mut guest = stepped!(|ctx| async move {
        let (index, _) = select_all((0..3).map(|_| ctx.sleep(Duration::ZERO))).await;
        Ok(index)
    });
    guest.step(vec![]);
    let outcome = guest.answer(2, null());
    assert_eq!(completed(&outcome), Some("1"));
    assert_eq!(commands(&outcome), ["4: cancel 1", "5: cancel 3"]);
}

#[test]
fn a_timeout_gives_up() {
    let mut guest = stepped!(|ctx| async move {
        let call = ctx.call::<u32>("slow", ());
        ctx.timeout(Duration::from_secs(1), call).await?
    });
    assert_eq!(commands(&guest.step(vec![])), ["1: sleep 1000000", "2: call slow None None"]);
    let outcome = guest.answer(1, null());
    let Status::Failed(problem) = &outcome.status else { panic!("{:?}", outcome.status) };
    assert_eq!(problem.kind, "timeout");
    assert_eq!(commands(&outcome), ["3: cancel 2"]);
}

fn message(topic: &str, sender: Sender, body: Payload) -> Event {
    Event::Message(Message { sender, topic: topic.to_owned(), body })
}

#[test]
fn a_receive_makes_it_idle_and_takes_what_it_wants() {
    let mut guest = stepped!(|ctx| async move {
        let b: u32 = ctx.receive().topic("b").await.parse()?;
        let a: u32 = ctx.receive().await.parse()?;
        Ok((b, a))
    });
    assert_eq!(guest.step(vec![]).status, Status::Idle);
    let from = Sender::Process(9);
    assert_eq!(guest.step(vec![message("a", from.clone(), json_of(1))]).status, Status::Idle);
    assert_eq!(completed(&guest.step(vec![message("b", from, json_of(2))])), Some("[2,1]"));
}

#[test]
fn unknown_news_of_the_host_is_heard_only_by_who_asks() {
    let mut guest = stepped!(|ctx| async move {
        let first = ctx.receive().await;
        let news = ctx.receive().topic("wfhost.weather").now();
        Ok((first.topic, news.is_some()))
    });
    let outside = || Sender::Outside("host".to_owned());
    assert_eq!(guest.step(vec![message("wfhost.weather", outside(), Payload::null())]).status, Status::Idle);
    assert_eq!(completed(&guest.step(vec![message("go", outside(), Payload::null())])), Some(r#"["go",true]"#));
}

#[test]
fn waiting_for_a_call_or_a_message_is_idle_and_for_the_call_alone_is_blocked() {
    let mut guest = stepped!(|ctx| async move {
        let mut call = ctx.call::<u32>("slow", ()).start();
        if let Either::Right(message) = select(&mut call, ctx.receive()).await {
            ctx.log(Level::Info, &message.topic);
        }
        call.await
    });
    assert_eq!(guest.step(vec![]).status, Status::Idle);
    let outcome = guest.step(vec![message("hurry", Sender::Process(2), Payload::null())]);
    assert_eq!(outcome.status, Status::Blocked);
    assert_eq!(*guest.host.logged.borrow(), [(Level::Info, "hurry".to_owned())]);
    assert_eq!(completed(&guest.answer(1, Ok(json_of(5)))), Some("5"));
}

#[test]
fn a_child_is_addressed_by_its_tag_and_cancelled_when_dropped() {
    let mut guest = stepped!(|ctx| async move {
        let child = ctx.spawn::<u32>("child", ()).name("kid").start()?;
        child.send("ping", 1)?;
        let pong = ctx.receive().sender(child.sender()).await;
        drop(child);
        Ok(pong.topic)
    });
    let outcome = guest.step(vec![]);
    assert_eq!(commands(&outcome), ["1: spawn child", "2: send ping to Target::Child(1)"]);
    assert_eq!(outcome.status, Status::Idle);
    assert_eq!(guest.step(vec![message("other", Sender::Child(8), Payload::null())]).status, Status::Idle);
    let outcome = guest.step(vec![message("pong", Sender::Child(1), Payload::null())]);
    assert_eq!(completed(&outcome), Some("\"pong\""));
    assert_eq!(commands(&outcome), ["3: cancel 1"]);
}

#[test]
fn a_detached_child_is_left_alone() {
    let mut guest = stepped!(|ctx| async move {
        drop(ctx.spawn::<u32>("child", ()).detached().start()?);
        Ok(())
    });
    let outcome = guest.step(vec![]);
    assert_eq!(commands(&outcome), ["1: spawn child"]);
}

#[test]
fn a_refused_message_is_seen_or_logged() {
    let mut guest = stepped!(|ctx| async move {
        let mut seen = ctx.send(Target::Process(5), "a", ())?;
        ctx.send(Target::Process(6), "b", ())?;
        ctx.sleep(Duration::ZERO).await?;
        Ok(seen.refusal().map(|problem| problem.kind))
    });
    let outcome = guest.step(vec![]);
    assert_eq!(commands(&outcome)[..2], ["1: send a to Target::Process(5)", "2: send b to Target::Process(6)"]);
    let refused = |kind: &str| Err(Problem::new(kind, "Refused"));
    let events =
        vec![answer_to(1, refused("no-such-process")), answer_to(2, refused("mailbox-full")), answer_to(3, null())];
    assert_eq!(completed(&guest.step(events)), Some("\"no-such-process\""));
    assert_eq!(*guest.host.logged.borrow(), [(Level::Warn, "command 2 failed unheard: mailbox-full".to_owned())]);
}

#[test]
fn an_exit_reaches_its_monitor_and_its_linked_child() {
    let mut guest = stepped!(|ctx| async move {
        let mut child = ctx.spawn::<u32>("child", ()).linked().start()?;
        let exited = child.exited().expect("it is linked");
        let (linked, monitored) = join(exited, ctx.monitor(Target::Name("peer".to_owned()))).await;
        Ok((linked.pid, monitored.pid))
    });
    let outcome = guest.step(vec![]);
    assert_eq!(outcome.status, Status::Blocked);
    assert_eq!(commands(&outcome), ["1: spawn child", r#"2: monitor Target::Name("peer")"#]);
    let exit = |pid, by| Event::Exited(Exit { pid, by, ending: Ending::Completed });
    assert_eq!(guest.step(vec![exit(12, 2)]).status, Status::Blocked);
    assert_eq!(completed(&guest.step(vec![exit(11, 1)])), Some("[11,12]"));
}

fn cancel() -> Event {
    Event::Cancel(Cancellation { reason: "enough".to_owned(), grace: 5_000_000 })
}

#[test]
fn a_cancel_that_nobody_listens_for_drops_everything() {
    let mut guest = stepped!(|ctx| async move { ctx.sleep(Duration::from_secs(1)).await });
    guest.step(vec![]);
    let outcome = guest.step(vec![cancel()]);
    let Status::Failed(problem) = &outcome.status else { panic!("{:?}", outcome.status) };
    assert_eq!((problem.kind.as_str(), problem.detail.as_deref()), ("cancelled", Some("enough")));
    assert_eq!(commands(&outcome), ["2: cancel 1"]);
}

#[test]
fn a_cancel_that_is_listened_for_is_the_guests_own_business() {
    let mut guest = stepped!(|ctx| async move {
        match select(ctx.cancelled(), ctx.sleep(Duration::from_secs(9))).await {
            Either::Left(cancellation) => {
                ctx.call::<()>("undo", ()).await?;
                Ok(cancellation.reason)
            }
            Either::Right(_) => Ok("slept".to_owned()),
        }
    });
    assert_eq!(guest.step(vec![]).status, Status::Blocked);
    // `select` has dropped the listener when the answer arrives; the cancel was still received.
    let outcome = guest.step(vec![cancel()]);
    assert_eq!(commands(&outcome), ["2: cancel 1", "3: call undo None None"]);
    assert_eq!(completed(&guest.answer(3, null())), Some("\"enough\""));
}

#[test]
fn waiting_for_a_cancel_alone_is_idle_and_for_nothing_is_blocked() {
    let mut listening = stepped!(|ctx| async move { Ok(ctx.cancelled().await.reason) });
    assert_eq!(listening.step(vec![]).status, Status::Idle);
    assert_eq!(completed(&listening.step(vec![cancel()])), Some("\"enough\""));
    let mut stuck = stepped!(|_| async move {
        std::future::pending::<()>().await;
        Ok(())
    });
    assert_eq!(stuck.step(vec![]).status, Status::Blocked);
}

#[test]
fn yielding_asks_for_another_step_at_once() {
    let mut guest = stepped!(|ctx| async move {
        ctx.yield_now().await;
        Ok(1)
    });
    assert_eq!(guest.step(vec![]).status, Status::Ready);
    assert_eq!(completed(&guest.step(vec![])), Some("1"));
}

#[test]
fn yielding_beside_others_ends_the_step_too() {
    let mut guest = stepped!(|ctx| async move {
        let yields = || async {
            for _ in 0..3 {
                ctx.yield_now().await;
            }
        };
        join_all([yields(), yields()]).await;
        Ok(1)
    });
    for _ in 0..3 {
        assert_eq!(guest.step(vec![]).status, Status::Ready);
    }
    assert_eq!(completed(&guest.step(vec![])), Some("1"));
}

#[test]
fn a_renewal_ends_this_instance() {
    let mut guest = stepped!(|ctx| async move { ctx.renew::<()>("run", 5).await });
    let Status::Renew(renewal) = guest.step(vec![]).status else { panic!("it did not renew") };
    assert_eq!((renewal.entry.as_str(), renewal.input), ("run", json_of(5)));
}

#[test]
fn input_that_does_not_fit_is_refused_at_the_start() {
    fn entry(ctx: Ctx, input: Payload) -> Result<crate::Task, Problem> {
        start(|_: Ctx, input: u32| async move { Ok(input) }, ctx, input)
    }
    let problem = Stepped::start(entry, json_of("text")).err().unwrap();
    assert_eq!(problem.kind, "bad-input");
    let problem = Stepped::start(entry, Payload::Bytes(vec![1])).err().unwrap();
    assert_eq!(problem.kind, "bad-input");
}

#[test]
fn an_unknown_entry_is_refused() {
    let problem =
        crate::Executor::start(crate::testing::Scripted::default(), &[], "nope", Payload::null()).err().unwrap();
    assert_eq!((problem.kind.as_str(), problem.detail.as_deref()), ("unknown-entry", Some("nope")));
}

#[test]
fn only_what_was_woken_is_polled() {
    use std::cell::Cell;
    use std::rc::Rc;
    fn entry(ctx: Ctx, input: Payload) -> Result<crate::Task, Problem> {
        start(
            |ctx: Ctx, _: ()| async move {
                let polls = Rc::new(Cell::new(0));
                let futures = (0..100).map(|_| {
                    let mut sleep = Box::pin(ctx.sleep(Duration::ZERO));
                    let polls = polls.clone();
                    std::future::poll_fn(move |context| {
                        polls.set(polls.get() + 1);
                        sleep.as_mut().poll(context)
                    })
                });
                join_all(futures).await;
                Ok(polls.get())
            },
            ctx,
            input,
        )
    }
    let mut guest = Stepped::start(entry, Payload::null()).unwrap();
    guest.step(vec![]);
    for tag in 1..100 {
        assert_eq!(guest.answer(tag, null()).status, Status::Blocked);
    }
    // Once when each started, once when each was answered.
    assert_eq!(completed(&guest.answer(100, null())), Some("200"));
}

#[test]
fn the_time_is_the_batchs() {
    let mut guest = stepped!(|ctx| async move {
        let before = ctx.now();
        ctx.sleep(Duration::ZERO).await?;
        Ok(u64::try_from((ctx.now() - before).as_micros()).unwrap())
    });
    guest.step(vec![]);
    *guest.host.now.borrow_mut() = 1234;
    assert_eq!(completed(&guest.answer(1, null())), Some("1234"));
}
