//! Files as inputs and as outputs, and what becomes of blobs with their runs.

use super::support::{World, eventually};
use super::transcript;
use serde_json::json;
use std::path::Path;

/// Takes a file, and gives it back whole, cut, and counted.
const FILES: &str = r#"
inputs:
  data: { type: blob, maxBytes: 1MiB }
steps:
  - { id: head, call: blob.get, with: { blob: "${ .inputs.data }", length: 4 } }
  - { id: upper, for-each: { lines: "${ .inputs.data }", window: 3 }, set: "${ .item | ascii_upcase }" }
  - { id: pairs, for-each: { lines: "${ .inputs.data }", batch: 2, window: 4 }, set: "${ .item | length }" }
outputs:
  head: "${ .steps.head.output }"
  lines: "${ .steps.upper.output.lines }"
  pairs: "${ .steps.pairs.output.lines }"
  data: "${ .inputs.data }"
  results: { upper: "${ .steps.upper.output.results }", pairs: "${ .steps.pairs.output.results }" }
"#;

/// The files of blobs in a data folder.
fn stored(data: &Path) -> usize {
    let below = |folder: &Path| -> Vec<_> {
        std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
    };
    below(&data.join("blobs")).iter().map(|folder| below(folder).len()).sum()
}

#[test]
fn a_file_goes_in_and_files_come_out() {
    let world = World::new(FILES);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("data.csv"), "one\ntwo\r\nthree\nfour\nfive\nsix\nseven").unwrap();
    let input = format!("data=@{}", path("data.csv"));
    let out = path("out");
    let run = ["run", "--json", "--run-id", "it", &world.file, "-i", &input, "--output-dir", &out];
    let told = world.tells(&run);
    let outputs = &told["outputs"];
    assert_eq!((&outputs["head"], &outputs["lines"], &outputs["pairs"]), (&json!("one\n"), &json!(7), &json!(7)));
    assert_eq!(outputs["data"]["media-type"], "text/csv");
    let written = |name: &str| std::fs::read_to_string(folder.path().join("out").join(name)).unwrap();
    assert_eq!(written("data.csv"), "one\ntwo\r\nthree\nfour\nfive\nsix\nseven");
    let upper = "\"ONE\"\n\"TWO\"\n\"THREE\"\n\"FOUR\"\n\"FIVE\"\n\"SIX\"\n\"SEVEN\"\n";
    assert_eq!(written("results/upper.jsonl"), upper);
    assert_eq!(written("results/pairs.jsonl"), "2\n2\n2\n1\n");
    assert_eq!(std::fs::read_dir(folder.path().join("out")).unwrap().count(), 2, "nothing else is left there");
    // The same run again: the files are there already. Others of that name are not replaced.
    world.says(&["run", &world.file, "-i", &input, "--output-dir", &out]);
    std::fs::write(folder.path().join("out/data.csv"), "mine").unwrap();
    let refused = world.does(&["run", &world.file, "-i", &input, "--output-dir", &out]);
    assert!(transcript(&refused).contains("data.csv exists, with other content"), "{}", transcript(&refused));
    assert_eq!(written("data.csv"), "mine");
    // What the runs held goes with the last of them.
    assert!(stored(&world.data) > 3);
    for run in world.tells(&["ls", "--json"]).as_array().unwrap() {
        world.says(&["rm", run["run"].as_str().unwrap_or_else(|| panic!("{run}"))]);
    }
    assert_eq!(stored(&world.data), 0);
}

#[test]
fn what_is_no_file_or_too_large_a_one_is_refused() {
    let world = World::new(FILES);
    let folder = tempfile::tempdir().unwrap();
    let large = folder.path().join("large.bin");
    std::fs::File::create(&large).unwrap().set_len((1 << 20) + 1).unwrap();
    let input = |value: &str| world.refuses(&["run", &world.file, "-i", &format!("data={value}")]);
    let refused = input(&format!("@{}", large.display()));
    assert!(refused.contains("must have at most 1048576 bytes; it has 1048577"), "{refused}");
    assert!(input("text").contains("must be a blob; it is \"text\""));
    assert!(input("@/does/not/exist").contains("/does/not/exist"));
    let foreign = format!(r#"{{"digest":"blake3:{}","size":1,"media-type":"a/b"}}"#, "0".repeat(64));
    assert!(input(&foreign).contains("was not uploaded for this run"));
    assert_eq!(stored(&world.data), 0, "what was not used is not left");
}

#[test]
fn a_backup_has_the_blobs_and_doctor_finds_what_is_wrong_with_them() {
    let world = World::new(FILES);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("data.csv"), "one\ntwo\n").unwrap();
    let input = format!("data=@{}", path("data.csv"));
    world.says(&["run", "--run-id", "it", &world.file, "-i", &input]);
    let (copy, data) = (path("copy"), path("data"));
    let manifest = world.tells(&["backup", "--json", &copy]);
    let digest = blake3::hash(b"one\ntwo\n").to_hex().to_string();
    assert_eq!(manifest["blobs"][&digest], 8);
    world.says(&["restore", &copy, "--data", &data]);
    assert_eq!(stored(Path::new(&data)), stored(&world.data));
    let healthy = world.tells(&["doctor", "--json", "--data", &data]);
    assert!(healthy["data"]["store"]["blobs"].as_u64().unwrap() > 2, "{healthy}");
    let blob = Path::new(&data).join("blobs").join(&digest[..2]).join(&digest);
    std::fs::write(&blob, "one\ntwi\n").unwrap();
    let damaged = transcript(&world.does(&["doctor", "--data", &data]));
    assert!(damaged.contains("its content is not that of its digest"), "{damaged}");
    std::fs::remove_file(&blob).unwrap();
    let missing = transcript(&world.does(&["doctor", "--data", &data]));
    assert!(missing.contains("a stored blob of runs cannot be used"), "{missing}");
}

/// Gives a file back, once it may.
const ASKS: &str = "
inputs: { data: { type: blob } }
steps:
  - { id: asks, wait: { signal: go } }
  - { id: after, needs: asks, set: 1 }
outputs: { copy: \"${ .inputs.data }\" }
";

#[test]
fn outputs_are_written_however_the_run_comes_to_its_end() {
    let world = World::new(ASKS);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("data.csv"), "a,b\n").unwrap();
    let input = format!("data=@{}", path("data.csv"));
    let ends = |id: &str, out: &str, arguments: &[&str]| {
        let to = path(out);
        let run = world.spawn(&[arguments, &["--json", "--output-dir", &to]].concat());
        eventually(|| world.does(&["signal", id, "go", "--id", out]).status.success().then_some(()));
        let (told, code) = run.told();
        assert_eq!(code, Some(0), "{told}");
        assert_eq!(std::fs::read_to_string(folder.path().join(out).join("copy.csv")).unwrap(), "a,b\n", "{out}");
    };
    world.begin("it", "asks", &["-i", &input]).kill();
    let again = ["run", &world.file, "--run-id", "it", "-i", &input];
    ends("it", "recovered", &again);
    // The run has ended.
    let ended = path("ended");
    let done = world.does(&[&again[..], &["--output-dir", &ended]].concat());
    assert!(transcript(&done).contains("ended/copy.csv (4 bytes)"), "{}", transcript(&done));
    assert_eq!(std::fs::read_to_string(path("ended/copy.csv")).unwrap(), "a,b\n");
    std::fs::write(path("ended/copy.csv"), "mine").unwrap();
    let done = world.does(&[&again[..], &["--output-dir", &ended]].concat());
    assert_eq!(done.status.code(), Some(1));
    assert!(transcript(&done).contains("copy.csv exists, with other content"), "{}", transcript(&done));
    // Another process runs it.
    let going = world.begin("left", "asks", &["-i", &input]);
    ends("left", "followed", &["run", &world.file, "--run-id", "left", "-i", &input]);
    assert_eq!(going.told().1, Some(0));
    world.begin("resumed", "asks", &["-i", &input]).kill();
    ends("resumed", "resumed", &["resume", "resumed"]);
    ends("forked", "forked", &["fork", "it", "--at", "1", "--run-id", "forked"]);
    let retried = path("retried");
    world.says(&["retry", "it", "--from", "after", "--output-dir", &retried]);
    assert_eq!(std::fs::read_to_string(path("retried/copy.csv")).unwrap(), "a,b\n");
    let refused = world.refuses(&["resume", "resumed", "--output-dir", &path("none")]);
    assert!(refused.contains("wfhost blob get resumed --output-dir DIR"), "{refused}");
    // A new run may have another file.
    std::fs::write(path("data.csv"), "other").unwrap();
    for (again, to) in
        [(&["retry", "it", "--from", "asks"][..], path("other")), (&["fork", "it", "--at", "1"], path("more"))]
    {
        let run = world.spawn(&[again, &["--run-id", again[0], "-i", &input, "--json", "--output-dir", &to]].concat());
        eventually(|| world.does(&["signal", again[0], "go"]).status.success().then_some(()));
        let (told, code) = run.told();
        assert_eq!((code, &told["outputs"]["copy"]["size"]), (Some(0), &json!(5)), "{told}");
        assert_eq!(std::fs::read_to_string(Path::new(&to).join("copy.csv")).unwrap(), "other");
    }
    // What is not waited for is not written.
    let _going = world.begin("elsewhere", "asks", &["-i", &input]);
    let refused = world.refuses(&["resume", "elsewhere", "--output-dir", &path("none")]);
    assert!(refused.contains("does not wait for its end") && refused.contains("wfhost blob get"), "{refused}");
    assert!(world.refuses(&["resume", "--all", "--output-dir", &path("none")]).contains("cannot be used with"));
}

#[test]
fn the_blobs_of_a_run_are_listed_and_fetched() {
    let world = World::new(FILES);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("data.csv"), "one\ntwo\n").unwrap();
    world.says(&["run", "--run-id", "it", &world.file, "-i", &format!("data=@{}", path("data.csv"))]);
    let list = world.tells(&["blob", "ls", "it", "--json"]);
    let digest = format!("blake3:{}", blake3::hash(b"one\ntwo\n").to_hex());
    let item = list.as_array().unwrap().iter().find(|item| item["digest"] == *digest).unwrap();
    let places = json!(["inputs/data", "outputs/data"]);
    assert_eq!(*item, json!({ "digest": digest, "size": 8, "media-type": "text/csv", "places": places }));
    let table = world.says(&["blob", "ls", "it"]);
    assert!(table.contains("outputs/results/upper") && table.contains(&digest[..19]), "{table}");
    for name in ["data", "inputs/data", "outputs/data", &digest, &digest[7..20]] {
        assert_eq!(world.says(&["blob", "get", "it", name]), "one\ntwo\n", "{name}");
    }
    assert_eq!(world.says(&["blob", "get", "i", "results/upper"]), "\"ONE\"\n\"TWO\"\n");
    let file = path("upper.jsonl");
    world.says(&["blob", "get", "it", "results/upper", "-o", &file]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "\"ONE\"\n\"TWO\"\n");
    assert!(world.refuses(&["blob", "get", "it", "data", "-o", &file]).contains("exists already"));
    world.says(&["blob", "get", "it", "--output-dir", &path("out")]);
    assert_eq!(std::fs::read_to_string(path("out/results/upper.jsonl")).unwrap(), "\"ONE\"\n\"TWO\"\n");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "nothing else is left there");
    let refused = world.refuses(&["blob", "get", "it", "dta"]);
    assert!(refused.contains("has no blob `dta`") && refused.contains("did you mean data?"), "{refused}");
    assert!(world.refuses(&["blob", "get", "it", "b"]).contains("`wfhost blob ls it` lists"), "a digest is longer");
    assert!(world.refuses(&["blob", "get", "it"]).contains("PLACE|DIGEST"));
    assert!(world.refuses(&["blob", "ls", "nope"]).contains("there is no run `nope`"));
    let blob = world.data.join("blobs").join(&digest[7..9]).join(&digest[7..]);
    std::fs::write(blob, "one\ntwi\n").unwrap();
    assert!(world.refuses(&["blob", "get", "it", "data"]).contains("damaged"));
}

/// Writes each line of a file in capitals, by the module for blobs of the SDK.
const CAPITALS: &str = r#"
import { Writer, lines, parts } from "./blobs.js";

export async function run(ctx, { data }) {
  const writer = new Writer("text/csv");
  for await (const line of lines(data)) await writer.write(`${line.toUpperCase()}\n`);
  let bytes = 0;
  for await (const part of parts(data)) bytes += part.length;
  return { copy: await writer.finish(), bytes };
}
"#;

#[test]
fn a_script_reads_and_writes_blobs_part_by_part() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::copy(super::root().join("guests/javascript/src/blobs.js"), path("blobs.js")).unwrap();
    std::fs::write(path("capitals.js"), CAPITALS).unwrap();
    let flow = "inputs: { data: { type: blob } }\n\
        steps: [{ id: it, uses: ./capitals.js, with: { data: \"${ .inputs.data }\" } }]\n\
        outputs: { copy: \"${ .steps.it.output.copy }\", bytes: \"${ .steps.it.output.bytes }\" }\n";
    std::fs::write(path("flow.yaml"), flow).unwrap();
    let text = "é\"a\" \u{1f600}, b\n".repeat(60_000);
    std::fs::write(path("data.csv"), &text).unwrap();
    let input = format!("data=@{}", path("data.csv"));
    let run = super::wfhost(&["run", "--json", &path("flow.yaml"), "-i", &input, "--output-dir", &path("out")]);
    assert!(run.status.success(), "{}", transcript(&run));
    let told: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(told["outputs"]["bytes"], text.len());
    assert_eq!(std::fs::read_to_string(path("out/copy.csv")).unwrap(), text.to_uppercase());
}

#[test]
fn the_example_finds_the_rainy_days() {
    let out = tempfile::tempdir().unwrap();
    let folder = out.path().to_str().unwrap();
    let data = "data=@workflows/weather/weather.csv";
    let output = super::wfhost(&["run", "--json", "workflows/rainy-days.yaml", "-i", data, "--output-dir", folder]);
    assert!(output.status.success(), "{}", transcript(&output));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = std::fs::read_to_string(super::root().join("workflows/weather/weather.csv")).unwrap();
    assert_eq!(told["outputs"]["lines"], text.lines().count());
    assert_eq!(told["outputs"]["columns"][2], "precipitation");
    let rain = |line: &&str| line.split(',').nth(2).unwrap().parse::<f64>().is_ok_and(|rain| rain > 20.0);
    let expected: Vec<&str> = text.lines().filter(rain).map(|line| line.split(',').nth(1).unwrap()).collect();
    let written = std::fs::read_to_string(out.path().join("days.jsonl")).unwrap();
    let batches = written.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let dates: Vec<String> = batches
        .flat_map(|batch| batch.as_array().unwrap().clone())
        .map(|day| day["date"].as_str().unwrap().to_owned())
        .collect();
    assert!(dates == expected && dates.len() > 100, "{} of {}", dates.len(), expected.len());
}

#[test]
fn a_full_disk_refuses_a_blob_and_leaves_nothing_of_it() {
    let world = World::new("inputs: { data: { type: blob } }\nsteps: [{ id: a, set: \"${ .inputs.data.size }\" }]");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.csv");
    std::fs::write(&path, "a line\n".repeat(40_000)).unwrap();
    let input = format!("data=@{}", path.display());
    world.says(&["run", "--durability", "journal", "workflows/hello.yaml"]);
    let shim = super::shim::Shim::of(&world.data);
    // After some of it, so that a part is there.
    shim.set("bytes", "100000");
    let mut command = super::command_in(&world.data, &["run", &world.file, "-i", &input]);
    let refused = shim.put(&mut command).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", transcript(&refused));
    assert!(transcript(&refused).contains("the disk is full"), "{}", transcript(&refused));
    assert_eq!(stored(&world.data), 0);
    world.says(&["run", &world.file, "-i", &input]);
    assert!(stored(&world.data) > 0);
}
