//! The same commands on a folder and on the server of this folder: they print the same, and end
//! alike.

use super::command_in;
use super::scheduled::{Server, prepared};
use super::support::eventually;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Output, Stdio};

const REVIEW: &str = "\
name: review
inputs: { text: string }
steps:
  - { id: count, set: \"${ .inputs.text | length }\" }
  - { id: decision, wait: { signal: decide, title: \"Publish?\" } }
outputs: { letters: \"${ .steps.count.output }\", decision: \"${ .steps.decision.output }\" }
";

const FAILS: &str = "\
name: fails
inputs: { n: { type: integer } }
steps: [{ id: it, set: \"${ error(\\\"no \\\\(.inputs.n)\\\") }\" }]
";

/// A folder, its server, and a user who has logged in to it.
struct Both {
    data: PathBuf,
    server: Server,
    token: String,
    home: tempfile::TempDir,
    files: tempfile::TempDir,
}

impl Both {
    fn new() -> Self {
        let (data, files, token) = prepared(REVIEW);
        std::fs::write(files.path().join("fails.yaml"), FAILS).unwrap();
        let none = tempfile::tempdir().unwrap();
        let server = Server::start(&data, none.path());
        let both = Self { data, server, token, home: tempfile::tempdir().unwrap(), files };
        let files = both.files.path().to_str().unwrap();
        let (flow, fails) = (format!("{files}/flow.yaml"), format!("{files}/fails.yaml"));
        let login = both.login(&both.token);
        assert!(login.status.success(), "{}", said(&login));
        let deployed = both.remote(&["deploy", &flow, &fails]);
        assert_eq!(String::from_utf8_lossy(&deployed.stdout), "review@1\nfails@1\n", "{}", said(&deployed));
        both
    }

    fn login(&self, token: &str) -> Output {
        let mut command = command_in(&self.data, &["login", &self.server.url()]);
        command.env("XDG_CONFIG_HOME", self.home.path()).env_remove("WFHOST_TOKEN");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), format!("{token}\n").as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    fn by(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut command = command_in(&self.data, arguments);
        command.env("XDG_CONFIG_HOME", self.home.path()).env_remove("WFHOST_TOKEN").env_remove("WFHOST_SERVER");
        command.envs(variables.iter().copied()).stdin(Stdio::null()).output().unwrap()
    }

    fn local(&self, arguments: &[&str]) -> Output {
        self.by(arguments, &[])
    }

    fn remote(&self, arguments: &[&str]) -> Output {
        self.by(arguments, &[("WFHOST_SERVER", &self.server.url())])
    }

    /// Runs a command on both; both come to the same. Returns what the server's prints.
    #[track_caller]
    fn same(&self, arguments: &[&str]) -> String {
        let (local, remote) = (self.local(arguments), self.remote(arguments));
        assert_eq!(said(&remote), said(&local), "{arguments:?}");
        said(&remote)
    }

    /// Runs a command on a run by the folder, and on its twin by the server: their ids stand where
    /// the command has `RUN`.
    #[track_caller]
    fn twins(&self, arguments: &[&str]) -> String {
        let of = |run: &str| arguments.iter().map(|word| word.replace("RUN", run)).collect::<Vec<_>>();
        let (a, b) = (of("twin-a"), of("twin-b"));
        let local = self.local(&a.iter().map(String::as_str).collect::<Vec<_>>());
        let remote = self.remote(&b.iter().map(String::as_str).collect::<Vec<_>>());
        let remote = said(&remote).replace("twin-b", "twin-a");
        assert_eq!(remote, said(&local), "{arguments:?}");
        remote
    }

    /// Starts a run through the API, and waits until it is in this state.
    fn start(&self, workflow: &str, id: &str, inputs: &Value, state: &str) {
        let body = json!({ "run-id": id, "inputs": inputs }).to_string();
        let path = format!("/v1/workflows/{workflow}/runs");
        let (status, run) = self.server.ask(&self.token, "POST", &path, "", &body).unwrap();
        assert_eq!(status, 201, "{run}");
        eventually(|| {
            let (_, run) = self.server.ask(&self.token, "GET", &format!("/v1/runs/{id}"), "", "")?;
            (run["state"] == state).then_some(())
        });
    }
}

/// Exit code and both streams; the folder and the server are called alike.
fn said(output: &Output) -> String {
    super::transcript(output)
}

#[test]
fn commands_print_the_same_of_a_folder_and_of_its_server() {
    let both = Both::new();
    for id in ["twin-a", "twin-b", "order-1"] {
        both.start("review", id, &json!({ "text": "abc" }), "waiting");
    }
    both.start("fails", "bad-1", &json!({ "n": 7 }), "failed");

    let listed = both.same(&["ls"]);
    assert!(listed.contains("twin-a") && listed.contains("waiting") && listed.contains("bad-1"), "{listed}");
    both.same(&["ls", "--json"]);
    both.same(&["ls", "--status", "failed"]);
    both.same(&["ls", "--status", "waiting", "--limit", "1"]);
    assert!(both.same(&["ls", "--limit", "2"]).contains("and 2 more: --limit 4 shows them"));
    both.same(&["ls", "--name", "fails", "--since", "1h"]);
    assert!(both.same(&["status", "order-1"]).contains("waits for signal decide"));
    // By a prefix that only one run has.
    assert!(both.same(&["status", "ord"]).contains("order-1"));
    both.same(&["status", "order-1", "--json"]);
    assert!(both.same(&["status", "bad-1"]).contains("no 7"));
    both.same(&["status", "bad-1", "--json"]);
    assert!(both.same(&["status", "tw"]).contains("several runs begin with `tw`"));
    assert!(both.same(&["status", "oder-1"]).contains("did you mean order-1?"));
    both.same(&["query", "order-1"]);
    assert!(both.same(&["query", "order-1", "nothing"]).starts_with("exit 2\n"));

    for arguments in [&["history"][..], &["history", "--json", "--tail", "3"], &["logs"], &["logs", "--json", "--all"]]
    {
        both.same(&[arguments, &["bad-1"]].concat());
    }
    assert!(both.same(&["logs", "-f", "bad"]).contains("the run failed"));
    both.same(&["history", "order-1", "--step", "decision"]);
    both.same(&["trace", "bad-1", "--perfetto", "-"]);
    assert!(both.same(&["rm", "bad"]).contains("is named by its full id"));
    assert!(both.same(&["rm", "order-1"]).contains("to end it: wfhost cancel order-1"));
    assert!(both.same(&["inbox"]).contains("Publish?"));
    both.same(&["inbox", "--json", "--kind", "signal"]);
    both.same(&["inbox", "--older-than", "1h"]);

    both.twins(&["pause", "RUN"]);
    assert!(both.same(&["ls", "--status", "paused"]).contains("twin-b"));
    let warned = both.twins(&["signal", "RUN", "decid", "1"]);
    assert!(warned.contains("nothing waits for decid now; the run waits for: decide"), "{warned}");
    both.twins(&["signal", "RUN", "decide", "{\"by\": \"Ann\"}", "--id", "one"]);
    let conflict = both.twins(&["signal", "RUN", "decide", "{\"by\": \"Bob\"}", "--id", "one"]);
    assert!(conflict.starts_with("exit 2\n"), "{conflict}");
    both.twins(&["resolve", "RUN", "7", "--again"]);
    both.twins(&["cancel", "RUN", "--reason", "withdrawn"]);
    assert!(both.twins(&["signal", "RUN", "decide"]).contains("the run twin-a has ended"));
    let mut follows = command_in(&both.data, &["logs", "-f", "order-1", "--server", &both.server.url()]);
    let follows = follows.env("WFHOST_TOKEN", &both.token).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    assert!(both.remote(&["signal", "order-1", "decide", "true"]).status.success());
    let followed = follows.unwrap().wait_with_output().unwrap();
    assert_eq!(followed.status.code(), Some(0));
    assert!(said(&followed).contains("the run succeeded"), "{}", said(&followed));
    eventually(|| said(&both.remote(&["status", "order-1"])).contains("succeeded").then_some(()));
    assert!(both.same(&["status", "order-1"]).contains(r#"outputs {"letters":3,"decision":true}"#));
    assert!(said(&both.remote(&["rm", "order-1"])).contains("removed 1 run: order-1"));
    assert!(said(&both.remote(&["rm", "order-1"])).contains("there is no run `order-1`"));
}

#[test]
fn a_login_is_checked_stored_and_removed() {
    let both = Both::new();
    let path = both.home.path().join("wfhost/servers.json");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let stored: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(stored["servers"][both.server.url()]["token"], both.token);
    assert_eq!(stored["last"], both.server.url());

    // One that the server does not know is not stored.
    let mut other = both.token.clone().into_bytes();
    other.reverse();
    let refused = both.login(&format!("wfh_{}", String::from_utf8(other).unwrap()));
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("does not accept the token"), "{}", said(&refused));
    assert_eq!(serde_json::from_slice::<Value>(&std::fs::read(&path).unwrap()).unwrap(), stored);

    assert_eq!(both.by(&["ls", "--server", &both.server.url()], &[]).status.code(), Some(0));
    let out = both.local(&["logout"]);
    assert!(out.status.success(), "{}", said(&out));
    let refused = both.by(&["ls", "--server", &both.server.url()], &[]);
    assert!(said(&refused).contains("there is no token for http://127.0.0.1"), "{}", said(&refused));
    assert_eq!(refused.status.code(), Some(2));
    let refused = both.local(&["logout"]);
    assert!(said(&refused).contains("there is no login"), "{}", said(&refused));
}

#[test]
fn what_cannot_be_done_on_a_server_says_so() {
    let both = Both::new();
    let url = both.server.url();
    for (arguments, why) in [
        (&["verify", "x", "--server", &url][..], "works on a data folder"),
        (&["ls", "--server", "http://10.1.2.3"], "would carry the token as plain text"),
        (&["ls", "--server", "https://127.0.0.1:1"], "does not answer"),
        (&["ls", "--server", &url.replace("http", "https")], "does not answer"),
        (&["ls", "--server", &url, "--data", "/tmp/x"], "cannot be used with"),
    ] {
        let output = both.by(arguments, &[("WFHOST_TOKEN", &both.token)]);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(why), "{arguments:?}: {}", said(&output));
    }
    let output = both.remote(&["backup", "/tmp/nowhere"]);
    assert!(said(&output).contains("`wfhost backup` works on a data folder, and WFHOST_SERVER names"));
    assert_eq!(output.status.code(), Some(2));
    // A folder that is named comes before the server of the environment.
    let data = both.data.to_str().unwrap();
    assert!(both.remote(&["verify", "x", "--data", data]).status.code() == Some(2));
    assert!(!said(&both.remote(&["verify", "x", "--data", data])).contains("WFHOST_SERVER"));

    // A token that lacks a scope.
    let made = both.local(&["token", "create", "--name", "reader", "--scope", "runs:read"]);
    let reader = String::from_utf8(made.stdout).unwrap();
    let refused = both.by(&["cancel", "x", "--server", &url], &[("WFHOST_TOKEN", reader.trim())]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("runs:act"), "{}", said(&refused));
    assert!(both.by(&["ls", "--server", &url], &[("WFHOST_TOKEN", reader.trim())]).status.success());
}

#[test]
fn deploying_sends_what_is_missing_and_activates_what_was_expected() {
    let both = Both::new();
    let folder = tempfile::tempdir().unwrap();
    let hello = super::root().join("guests/built/hello.wasm");
    std::fs::copy(hello, folder.path().join("hello.wasm")).unwrap();
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name).to_str().unwrap().to_owned()
    };
    let greets =
        "name: greets\ncomponents: { hello: ./hello.wasm }\nsteps:\n  - { id: it, uses: hello, with: { name: Ann } }\n";
    let file = write("greets.yaml", greets);
    let tells = |arguments: &[&str]| -> Value {
        let output = both.remote(&[&["deploy", "--json"], arguments].concat());
        assert!(output.status.success(), "{}", said(&output));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()[0].take()
    };
    assert_eq!(tells(&[&file, "--dry-run"]), json!({ "fits": true, "name": "greets" }));
    let first = tells(&[&file, "--note", "the first"]);
    assert_eq!((&first["version"], &first["active"], &first["note"]), (&json!(1), &json!(true), &json!("the first")));
    assert_eq!(tells(&[&file])["version"], 1);
    let elsewhere = write("again.yaml", greets);
    assert_eq!(tells(&[&elsewhere])["version"], 1);
    std::fs::remove_file(elsewhere).unwrap();
    both.start("greets", "greeted", &json!({}), "succeeded");
    write("greets.yaml", &greets.replace("Ann", "Bob"));
    let second = tells(&[&file, "--no-activate"]);
    assert_eq!((&second["version"], &second["active"]), (&json!(2), &json!(false)));
    let refused = both.remote(&["deploy", &file, "--expect-active", "7"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("version 1 of `greets` is active"), "{}", said(&refused));
    assert_eq!(tells(&[&file, "--expect-active", "1"])["active"], true);
    versions_change(&both);

    // If one file has a problem, none is sent.
    write("greets.yaml", &greets.replace("Ann", "Cid"));
    write("wrong.yaml", "name: wrong\nsteps: [{ id: it, stes: 1 }]\n");
    let refused = both.remote(&["deploy", folder.path().to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(said(&refused).contains("wrong.yaml"), "{}", said(&refused));
    let versions = both.server.ask(&both.token, "GET", "/v1/workflows/greets/versions", "", "").unwrap().1;
    assert_eq!(versions.as_array().unwrap().len(), 2);
}

/// Of two versions of `greets`, of which the second is active, and the first has a run.
fn versions_change(both: &Both) {
    let workflow = |arguments: &[&str]| both.remote(&[&["workflow"], arguments].concat());
    let does = |arguments: &[&str], expected: &str| {
        let output = workflow(arguments);
        assert!(output.status.success() && said(&output).contains(expected), "{}", said(&output));
    };
    let is_refused = |arguments: &[&str], expected: &str| {
        let output = workflow(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(said(&output).contains(expected), "{}", said(&output));
    };
    let active = || -> Value {
        let listed: Value = serde_json::from_slice(&workflow(&["ls", "--json"]).stdout).unwrap();
        listed.as_array().unwrap().iter().find(|one| one["name"] == "greets").unwrap()["active"].clone()
    };
    assert_eq!(active(), 2);
    does(&["rollback", "greets"], "version 1 of `greets` is active");
    assert_eq!(active(), 1);
    is_refused(&["rollback", "greets"], "has no version before");
    is_refused(&["activate", "greets", "2", "--expect-active", "2"], "version 1 of `greets` is active");
    does(&["activate", "greets", "2", "--expect-active", "1"], "version 2 of `greets` is active");
    let shown: Value = serde_json::from_slice(&workflow(&["show", "greets", "--json"]).stdout).unwrap();
    assert_eq!(
        (&shown[0]["version"], &shown[0]["active"], &shown[1]["note"]),
        (&json!(2), &json!(true), &json!("the first"))
    );
    is_refused(&["rm", "greets", "1"], "greets");
    is_refused(&["show", "nobody"], "nobody");
    does(&["activate", "greets", "2"], "is active");
}

#[test]
fn runs_are_started_made_anew_and_resumed_on_a_server() {
    let both = Both::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sums.yaml");
    let sums = "name: sums\ninputs: { n: { type: integer }, who: { type: string, default: x } }\nsteps:\n  \
        - { id: it, set: \"${ if .inputs.n > 5 then error(\\\"too much\\\") else .inputs.n + 1 end }\" }\n\
        outputs: { sum: \"${ .steps.it.output }\", who: \"${ .inputs.who }\" }\n";
    std::fs::write(&file, sums).unwrap();
    let file = file.to_str().unwrap();
    let done = both.twins(&["run", "-q", "--run-id", "RUN", file, "-i", "n=3", "-i", "who=7"]);
    assert!(done.starts_with("exit 0\n") && done.contains("\"sum\": 4") && done.contains("\"who\": \"7\""), "{done}");
    let failed = both.twins(&["run", "-q", "--run-id", "RUN-f", file, "-i", "n=7"]);
    assert!(failed.starts_with("exit 1\n") && failed.contains("too much"), "{failed}");
    let unfit = both.twins(&["run", "-q", "--run-id", "RUN-g", file, "-i", "n=1.5"]);
    assert!(unfit.starts_with("exit 2\n"), "{unfit}");
    let tells = |arguments: &[&str], code: i32| -> Value {
        let output = both.remote(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", said(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    // The same command again is the same run.
    let again = tells(&["run", "--json", "--run-id", "twin-b", file, "-i", "n=3", "-i", "who=7"], 0);
    assert_eq!((&again["run"], &again["outputs"]["sum"]), (&json!("twin-b"), &json!(4)));
    let refused = both.remote(&["run", "--run-id", "twin-b", file, "-i", "n=4"]);
    assert!(refused.status.code() == Some(2) && said(&refused).contains("twin-b"), "{}", said(&refused));

    // It was deployed for the run, and not activated.
    let refused = both.remote(&["run", "sums", "-i", "n=1"]);
    assert!(said(&refused).contains("has no workflow `sums`"), "{}", said(&refused));
    assert_eq!(tells(&["run", "sums@1", "--json", "-i", "n=1"], 0)["outputs"]["sum"], 2);
    let shown = both.remote(&["run", "fails", "-i", "n=2"]);
    assert!(shown.status.code() == Some(1) && said(&shown).contains("no 2"), "{}", said(&shown));
    for (arguments, why) in [
        (&["run", "sums@1", "--durability", "none"][..], "the runs of a server are durable"),
        (&["run", "sums@1", "--timeout", "5s"], "takes no --timeout"),
        (&["run", "sums@1", "--allow-address", "localhost"], "takes no --allow-address"),
        (&["run", "sums@9"], "has no workflow `sums@9`"),
        (&["resume", "--all"], "resumes its runs by itself"),
    ] {
        let refused = both.remote(arguments);
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
        assert!(said(&refused).contains(why), "{arguments:?}: {}", said(&refused));
    }

    let retried = tells(&["retry", "twin-b-f", "--json", "--input", "n=5", "--run-id", "second"], 0);
    assert_eq!((&retried["run"], &retried["outputs"]["sum"]), (&json!("second"), &json!(6)));
    assert!(said(&both.remote(&["retry", "twin-b-f", "--dry-run"])).contains("runs-again"));
    assert_eq!(tells(&["fork", "twin-b", "--at", "1", "--json"], 0)["outputs"]["sum"], 4);
    both.start("review", "order-2", &json!({ "text": "abc" }), "waiting");
    assert!(both.remote(&["pause", "order-2"]).status.success());
    assert!(said(&both.remote(&["resume", "order-2"])).contains("order-2 is resumed"));
    assert!(said(&both.remote(&["ls", "--status", "paused"])).contains("no runs of that kind in http://"));
}

#[test]
fn files_go_to_a_server_and_come_from_it() {
    let both = Both::new();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let file = path("file.yaml");
    let text = "name: file\ninputs: { data: { type: blob, maxBytes: 30MiB } }\nsteps: [{ id: it, set: \"${ .inputs.data.size }\" }]\n\
        outputs: { size: \"${ .steps.it.output }\", copy: \"${ .inputs.data }\" }\n";
    std::fs::write(&file, text).unwrap();
    let tells = |arguments: &[&str]| -> Value {
        let output = both.remote(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", said(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let refused = |arguments: &[&str], code: i32| -> String {
        let output = both.remote(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", said(&output));
        said(&output)
    };
    let data = path("data.csv");
    let input = format!("data=@{data}");
    // More than a body of JSON may have, and more than the inputs of a run.
    for bytes in [0, 4, 3_000_000, 20_000_000] {
        let content: Vec<u8> = (0..bytes).map(|at: u32| (at % 251) as u8).collect();
        std::fs::write(&data, &content).unwrap();
        let out = path(&format!("out-{bytes}"));
        let id = format!("of-{bytes}");
        let told = tells(&["run", "--json", "--run-id", &id, &file, "-i", &input, "--output-dir", &out]);
        assert_eq!(told["outputs"]["size"], bytes);
        assert_eq!(told["outputs"]["copy"]["media-type"], "text/csv");
        assert!(std::fs::read(format!("{out}/copy.csv")).unwrap() == content, "{bytes}");
        let fetched = both.remote(&["blob", "get", &id, "copy"]);
        assert!(fetched.stdout == content, "{bytes}");
    }
    let list = tells(&["blob", "ls", "of-4", "--json"]);
    assert_eq!((&list[0]["size"], &list[0]["places"]), (&json!(4), &json!(["inputs/data", "outputs/copy"])));
    std::fs::write(&data, "other").unwrap();
    for again in [&["retry", "of-4", "--from", "it"][..], &["fork", "of-4", "--at", "1"]] {
        let out = path(again[0]);
        let told = tells(&[again, &["--json", "-i", &input, "--output-dir", &out]].concat());
        assert_eq!(told["outputs"]["size"], 5, "{told}");
        assert_eq!(std::fs::read_to_string(format!("{out}/copy.csv")).unwrap(), "other");
    }
    // A file that is there is not replaced.
    std::fs::write(path("out-4/copy.csv"), "mine").unwrap();
    let told = refused(&["blob", "get", "of-4", "--output-dir", &path("out-4")], 1);
    assert!(told.contains("copy.csv exists, with other content"), "{told}");
    std::fs::File::create(&data).unwrap().set_len((30 << 20) + 1).unwrap();
    let told = refused(&["run", &file, "-i", &input], 2);
    assert!(told.contains("must have at most 31457280 bytes"), "{told}");
    let told = refused(&["run", &file, "-i", "data=@/does/not/exist"], 2);
    assert!(told.contains("/does/not/exist"), "{told}");
}
