//! Blobs, read and written part by part.

use super::{commands, json_of};
use crate::testing::{Stepped, completed};
use crate::{Action, Ctx, Outcome, Payload, Problem, json, start};

const DIGEST: &str = "blake3:0000000000000000000000000000000000000000000000000000000000000000";

fn handle(size: u64) -> serde_json::Value {
    json!({ "digest": DIGEST, "size": size, "media-type": "text/csv" })
}

/// The arguments of the one call of a step.
fn arguments(outcome: &Outcome, handler: &str) -> Payload {
    let [command] = &outcome.commands[..] else { panic!("{:?}", commands(outcome)) };
    let Action::Call(call) = &command.action else { panic!("{:?}", commands(outcome)) };
    assert_eq!(call.handler, handler);
    call.args.clone()
}

#[test]
fn a_blob_is_read_part_by_part_to_its_end() {
    let mut guest = stepped!(|ctx| async move {
        let blob = serde_json::from_value(handle(600_000)).unwrap();
        let mut reader = ctx.read_blob(&blob);
        let mut lengths = Vec::new();
        while let Some(part) = reader.bytes().await? {
            lengths.push(part.len());
        }
        reader.seek(599_990);
        let last = reader.lines().await?;
        Ok((lengths, last, reader.lines().await?))
    });
    let of = |offset: u64| json_of(json!({ "blob": DIGEST, "offset": offset, "length": 524_288, "as": "bytes" }));
    assert_eq!(arguments(&guest.step(vec![]), "blob.get"), of(0));
    let second = guest.answer(1, Ok(Payload::Bytes(vec![0; 524_288])));
    assert_eq!(arguments(&second, "blob.get"), of(524_288));
    let lines = guest.answer(2, Ok(Payload::Bytes(vec![0; 75_712])));
    assert_eq!(arguments(&lines, "blob.get"), json_of(json!({ "blob": DIGEST, "offset": 599_990, "as": "lines" })));
    let ended = guest.answer(3, Ok(json_of(json!({ "lines": ["a", "b"], "next": null }))));
    assert_eq!(completed(&ended), Some(r#"[[524288,75712],["a","b"],null]"#));
}

#[test]
fn a_blob_is_written_in_parts_which_are_joined() {
    let mut guest = stepped!(|ctx| async move {
        let mut writer = ctx.write_blob("text/csv");
        writer.write(&[1; 500_000]).await?;
        writer.write(&[2; 100_000]).await?;
        writer.finish().await
    });
    let Payload::Bytes(first) = arguments(&guest.step(vec![]), "blob.put") else { panic!() };
    assert_eq!((first.len(), first[499_999], first[500_000]), (524_288, 1, 2));
    let Payload::Bytes(rest) = arguments(&guest.answer(1, Ok(json_of(handle(524_288)))), "blob.put") else { panic!() };
    assert_eq!(rest.len(), 75_712);
    let joined = guest.answer(2, Ok(json_of(handle(75_712))));
    assert_eq!(arguments(&joined, "blob.put"), json_of(json!({ "parts": [DIGEST, DIGEST], "media-type": "text/csv" })));
    let ended = guest.answer(3, Ok(json_of(handle(600_000))));
    let output: serde_json::Value = serde_json::from_str(completed(&ended).unwrap()).unwrap();
    assert_eq!(output, handle(600_000));
}

#[test]
fn an_empty_blob_is_one_part_without_bytes() {
    let mut guest = stepped!(|ctx| async move { ctx.write_blob("text/plain").finish().await });
    assert_eq!(arguments(&guest.step(vec![]), "blob.put"), Payload::Bytes(Vec::new()));
    let joined = guest.answer(1, Ok(json_of(handle(0))));
    assert_eq!(arguments(&joined, "blob.put"), json_of(json!({ "parts": [DIGEST], "media-type": "text/plain" })));
}
