//! Following the state of all runs.

use super::{Event, Following, Server};
use crate::serve::access::Scope;
use serde_json::json;
use std::sync::Arc;

/// Reads until a run has a state, and returns all events.
async fn until(stream: &mut Following, run: &str, state: &str) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        let is_it = event.data["run"] == run && event.data["state"] == state;
        events.push(event);
        if is_it {
            return events;
        }
    }
    panic!("no event says that `{run}` is `{state}`: {events:?}");
}

fn number(event: &Event) -> u64 {
    event.id.as_ref().unwrap().rsplit_once('.').unwrap().1.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_runs_are_followed_and_a_reader_that_comes_back_misses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    let mut stream = server.follows(None, "/v1/events", &[]).await;
    let open = stream.next().await.unwrap();
    assert_eq!((open.name.as_str(), number(&open)), ("open", 0));
    server.begins("review", "one", json!({})).await;
    let seen = until(&mut stream, "one", "waiting").await;
    let _ = server.posts("/v1/runs/one/pause", json!({})).await.is(200);
    let paused = until(&mut stream, "one", "paused").await;
    drop(stream);

    let _ = server.posts("/v1/runs/one/cancel", json!({})).await.is(200);
    server.ends("one").await;
    server.begins("flaky", "two", json!({ "ok": true })).await;
    server.ends("two").await;
    let last = paused.last().unwrap().id.clone().unwrap();
    let mut stream = server.follows(None, "/v1/events", &[("last-event-id", &last)]).await;
    let open = stream.next().await.unwrap();
    assert_eq!((open.name.as_str(), open.id.as_ref()), ("open", Some(&last)));
    let mut missed = until(&mut stream, "two", "succeeded").await;
    let _ = server.asks(axum::http::Method::DELETE, "/v1/runs/two", &[], None).await.is(204);
    missed.extend(until(&mut stream, "two", "removed").await);
    assert!(missed.iter().any(|event| event.data["run"] == "one" && event.data["state"] == "cancelled"), "{missed:?}");
    // No number is left out, and none comes twice.
    let all: Vec<u64> = seen.iter().chain(&paused).chain(&missed).map(number).collect();
    assert_eq!(all, (1..=all.len() as u64).collect::<Vec<_>>());
    // A token for some workflows sees the runs of those.
    let token = server.token_of(&[Scope::RunsRead], &["review"]);
    let first = format!("{}.0", last.rsplit_once('.').unwrap().0);
    let mut some = server.follows(Some(&token), "/v1/events", &[("last-event-id", &first)]).await;
    let mut runs = 0;
    while let Some(event) = some.next().await {
        if event.name == "run" {
            assert_eq!((&event.data["run"], &event.data["workflow"]), (&json!("one"), &json!("review")));
            runs += 1;
        }
    }
    assert!(runs >= 3, "{runs}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_the_ring_does_not_reach_is_told_to_ask_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    for last in ["gone.7", "7", "", "x.y.z"] {
        let mut stream = server.follows(None, "/v1/events", &[("last-event-id", last)]).await;
        let told = stream.next().await.unwrap();
        assert_eq!((told.name.as_str(), number(&told)), ("resync", 0), "{last}");
    }
    // A number that was not given yet is another server's.
    let mut stream = server.follows(None, "/v1/events", &[]).await;
    let boot = stream.next().await.unwrap().id.unwrap();
    let later = boot.replace(".0", ".9");
    let mut stream = server.follows(None, "/v1/events", &[("last-event-id", &later)]).await;
    assert_eq!(stream.next().await.unwrap().name, "resync");
    server.service.drain();
    assert_eq!(stream.next().await.unwrap().name, "drain");
    assert!(stream.next().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_counters_of_the_scheduler_are_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    server.begins("flaky", "one", json!({ "ok": true })).await;
    server.ends("one").await;
    let host = server.gets("/v1/host").await.is(200);
    assert!(host["scheduler"]["steps"].as_u64().unwrap() > 0, "{host}");
    assert_eq!(host["workers"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_that_take_nothing_hold_up_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    // Several pages.
    let secret = "x".repeat(300_000);
    server.begins("flaky", "large", json!({ "ok": true, "secret": secret })).await;
    server.ends("large").await;
    let mut stuck = Vec::new();
    for _ in 0..100 {
        stuck.push(server.follows(None, "/v1/runs/large/events", &[]).await);
    }
    let mut reader = server.follows(None, "/v1/runs/large/events", &[]).await;
    let mut names = Vec::new();
    // Each event within a second, long before those who are stuck are left.
    while let Some(event) = reader.next().await {
        names.push(event.name);
    }
    assert_eq!(names.last().map(String::as_str), Some("end"), "{names:?}");
    // They find all that waits for them when they go on.
    for mut stream in stuck.into_iter().take(3) {
        let mut found = Vec::new();
        while let Some(event) = stream.next().await {
            found.push(event.name);
        }
        assert_eq!(found, names);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_end_with_their_token() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(folder.path());
    server.begins("review", "open", json!({})).await;
    let token = server.token_of(&[Scope::RunsRead, Scope::RunsPayloads], &[]);
    let mut streams = Vec::new();
    for path in ["/v1/events", "/v1/runs/open/events"] {
        let mut stream = server.follows(Some(&token), path, &[]).await;
        while stream.next().await.is_some() {}
        streams.push(stream);
    }
    let id = token.split('_').nth(1).unwrap();
    let path = format!("/v1/tokens/{id}");
    let _ = server.asks(axum::http::Method::DELETE, &path, &[], None).await.is(204);
    tokio::time::sleep(std::time::Duration::from_millis(2_100)).await;
    let _ = server.posts("/v1/runs/open/signals/approve", json!("yes")).await.is(200);
    for mut stream in streams {
        let told = stream.next().await.expect("an event");
        assert_eq!((told.name.as_str(), &told.data["kind"]), ("problem", &json!("unauthenticated")), "{told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_one_run_in_step_or_not_miss_and_repeat_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = Arc::new(Server::new(folder.path()));
    let ticks = "name: ticks\nsteps: [{ id: tick, for-each: \"${ [range(300)] }\", max-parallel: 1, wait: 2ms }]\n";
    server.deploys(ticks);
    server.begins("ticks", "ticks", json!({})).await;
    let mut readers = tokio::task::JoinSet::new();
    for number in 0..40_u64 {
        let server = Arc::clone(&server);
        readers.spawn(async move {
            // They come one after the other, and some begin in the middle, or want only some.
            tokio::time::sleep(std::time::Duration::from_millis(number * 5)).await;
            let path = match number % 4 {
                3 => "/v1/runs/ticks/events?from=20".to_owned(),
                2 => "/v1/runs/ticks/events?kind=started,died".to_owned(),
                _ => "/v1/runs/ticks/events".to_owned(),
            };
            let mut stream = server.follows(None, &path, &[]).await;
            let (mut ids, mut kinds) = (Vec::new(), Vec::new());
            while let Some(event) = stream.next_within(std::time::Duration::from_mins(1)).await {
                kinds.push(event.data["kind"].as_str().unwrap_or_default().to_owned());
                ids.extend(event.id.map(|id| id.parse::<u64>().unwrap()));
                if event.name == "end" {
                    return (number, ids, kinds);
                }
            }
            panic!("reader {number} has no end after {:?}", ids.last());
        });
    }
    let all = readers.join_all().await;
    let last = server.gets("/v1/runs/ticks").await.is(200)["records"].as_u64().unwrap();
    for (number, ids, kinds) in all {
        match number % 4 {
            2 => assert!(kinds.iter().all(|kind| ["started", "died", ""].contains(&kind.as_str())), "{kinds:?}"),
            3 => assert_eq!(ids, (20..=last).collect::<Vec<_>>(), "reader {number}"),
            _ => assert_eq!(ids, (1..=last).collect::<Vec<_>>(), "reader {number}"),
        }
    }
}
