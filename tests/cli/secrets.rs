//! Secrets of workflows: a whole program that uses one, and where its value is afterwards.

use super::command_in;
use super::support::{Going, World, eventually};
use base64::Engine as _;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Output;
use std::sync::{Arc, Mutex};

/// A value with characters that JSON, URLs and base64 write in other ways.
pub(super) const VALUE: &str = "Zq7/distinctive+value&of\"tests";

/// A server on loopback that says what it was sent.
pub(super) struct Echo {
    pub(super) port: u16,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Echo {
    /// `/fail…` is answered 500, `/deny` with 401.
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, seen) = (listener.local_addr().unwrap().port(), Arc::new(Mutex::new(Vec::new())));
        let all = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let all = Arc::clone(&all);
                std::thread::spawn(move || {
                    let mut reader = BufReader::new(stream);
                    let mut head = String::new();
                    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).is_ok_and(|read| read > 0) {}
                    let length = head
                        .to_lowercase()
                        .split_once("content-length: ")
                        .map_or(0, |(_, rest)| rest.split("\r\n").next().unwrap().parse().unwrap());
                    let mut body = vec![0; length];
                    reader.read_exact(&mut body).unwrap();
                    let seen = format!("{head}{}", String::from_utf8_lossy(&body));
                    all.lock().unwrap().push(seen.clone());
                    let status = match head.split(' ').nth(1).unwrap_or_default() {
                        path if path.starts_with("/fail") => "500 Broken",
                        "/deny" => "401 Unauthorized",
                        _ => "200 OK",
                    };
                    let echo = json!({ "you": seen, "base64": base64(&seen) }).to_string();
                    let bearer = head.lines().find_map(|line| line.strip_prefix("authorization: ")).unwrap_or("none");
                    let answer = format!(
                        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nx-echo: {bearer}\r\nconnection: close\r\n\
                         content-length: {}\r\n\r\n{echo}",
                        echo.len()
                    );
                    let _ = reader.get_mut().write_all(answer.as_bytes());
                });
            }
        });
        Self { port, seen }
    }

    pub(super) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

fn base64(text: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// The value in each way in which something could have written it.
fn spellings() -> Vec<String> {
    let mut all = vec![
        VALUE.to_owned(),
        json!(VALUE).to_string().trim_matches('"').to_owned(),
        json!(json!(VALUE).to_string()).to_string().replace('"', ""),
        "Zq7%2Fdistinctive%2Bvalue%26of%22tests".to_owned(),
        // What all of them have.
        "distinctive".to_owned(),
    ];
    for before in ["", "x", "xx"] {
        let text = base64(&format!("{before}{VALUE}"));
        all.push(text[4..text.len() - 8].to_owned());
    }
    all
}

/// Finds the value in bytes.
pub(super) fn found(bytes: &[u8]) -> Option<String> {
    spellings().into_iter().find(|text| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
}

/// Checks all files below a folder. Returns how many there are.
pub(super) fn search(folder: &Path) -> usize {
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            files += search(&path);
        } else if entry.file_type().unwrap().is_file() {
            files += 1;
            // A process that ends takes its files along.
            let bytes = std::fs::read(&path).unwrap_or_default();
            assert_eq!(found(&bytes), None, "{}", path.display());
        }
    }
    files
}

/// A value in a file, and the flags of a command that may use it.
struct Given {
    _folder: tempfile::TempDir,
    flag: String,
}

impl Given {
    fn new(value: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, format!("{value}\n")).unwrap();
        Self { flag: format!("KEY=file:{}", path.display()), _folder: folder }
    }

    fn flags(&self) -> [&str; 5] {
        ["--allow-address", "127.0.0.1", "--plain-secrets", "--secret", &self.flag]
    }
}

fn workflow(port: u16) -> String {
    format!(
        "
secrets: {{ KEY: {{ from: env, hosts: [ \"127.0.0.1:{port}\" ] }} }}
steps:
  - id: echo
    call: http
    with: {{ url: \"http://127.0.0.1:{port}/echo\", auth: {{ bearer: \"${{ .secrets.KEY }}\" }} }}
    allow: {{ http: [ \"GET http://127.0.0.1:{port}\" ] }}
    secrets: [ KEY ]
  - id: script
    with: {{ key: \"${{ .secrets.KEY }}\", url: \"http://127.0.0.1:{port}\" }}
    allow: {{ http: [ \"* http://127.0.0.1:{port}\" ] }}
    secrets: [ KEY ]
    script: |
      const headers = {{ cookie: `a=${{input.key}}` }};
      const answer = await ctx.call(\"http\", {{ url: `${{input.url}}/script`, headers }});
      ctx.log(JSON.stringify(answer));
      let failure = null;
      try {{
        await ctx.call(\"http\", {{ url: `${{input.url}}/fail-in-script`, method: \"POST\", headers }});
      }} catch (problem) {{
        failure = problem;
        ctx.log(`${{problem}} ${{JSON.stringify(problem)}}`);
      }}
      return {{ answer, key: input.key, failure: JSON.stringify(failure) }};
  - {{ id: logged, call: log, with: {{ message: \"${{ .steps.echo.output.body | tojson }}\" }} }}
  - {{ id: asks, needs: [ script, logged ], wait: {{ signal: go }} }}
  - id: basic
    needs: asks
    call: http
    with:
      url: http://127.0.0.1:{port}/basic
      auth: {{ basic: {{ user: ann, password: \"${{ .secrets.KEY }}\" }} }}
    allow: {{ http: [ \"GET http://127.0.0.1:{port}\" ] }}
    secrets: [ KEY ]
  - id: fails
    needs: basic
    call: http
    with: {{ url: \"http://127.0.0.1:{port}/fail\", headers: {{ x-api-key: \"${{ .secrets.KEY }}\" }} }}
    allow: {{ http: [ \"GET http://127.0.0.1:{port}\" ] }}
    retry: {{ max: 1, backoff: 1ms }}
    secrets: [ KEY ]
outputs: {{ all: \"${{ .steps }}\" }}
"
    )
}

/// Success, failure, messages that repeat headers, a kill, a resume, a retry, a fork; the folder,
/// the cache, the logs and all that is printed.
#[test]
fn nothing_of_a_value_is_ever_on_disk_or_printed() {
    let echo = Echo::start();
    let world = World::new(&workflow(echo.port));
    let given = Given::new(VALUE);
    let mut said: Vec<Output> = Vec::new();
    let cache = tempfile::tempdir().unwrap();
    let cached = ["--cache", cache.path().to_str().unwrap()];

    // The variable of the flag, and a crash at the signal.
    let mut flags = given.flags().to_vec();
    flags.extend(cached);
    let going = world.begin("one", "asks", &flags);
    assert!(found(echo.seen().join("\n").as_bytes()).is_some(), "{:?}", echo.seen());
    let (core, limits) = (Path::new("/proc").join(going.id().to_string()), "Max core file size        0 ");
    let shown = std::fs::read_to_string(core.join("limits")).unwrap();
    assert!(shown.contains(limits), "{shown}");
    going.kill();
    let files = search(&world.data);
    assert!(files > 3, "{files}");
    let resumed = world.spawn(&[&["resume", "one", "--json"], &flags[..]].concat());
    eventually(|| world.does(&["signal", "one", "go", "1"]).status.success().then_some(()));
    said.push(resumed.output());
    assert_eq!(said[0].status.code(), Some(1), "{}", super::transcript(&said[0]));

    // It has failed, and is retried from there, by the variable of the environment.
    let mut retry = command_in(&world.data, &["retry", "one", "--run-id", "two", "--allow-address", "127.0.0.1"]);
    retry.args(["--plain-secrets", "--secret", "KEY"]).args(cached).env("KEY", VALUE);
    said.push(retry.output().unwrap());
    assert_eq!(said[1].status.code(), Some(1), "{}", super::transcript(&said[1]));
    let history = world.says(&["history", "one"]);
    let line = history.lines().find(|line| line.contains(" signal go: 1")).unwrap();
    let at = (line.split_whitespace().next().unwrap().parse::<usize>().unwrap() - 1).to_string();
    let fork = world.spawn(&[&["fork", "one", "--at", &at, "--run-id", "three"], &flags[..]].concat());
    eventually(|| world.does(&["signal", "three", "go", "1"]).status.success().then_some(()));
    said.push(fork.output());
    for id in ["one", "two", "three"] {
        for command in
            [&["history", "--json"][..], &["history"], &["logs"], &["status", "--json"], &["status"], &["trace"]]
        {
            said.push(world.does(&[&command[..1], &[id], &command[1..]].concat()));
        }
    }
    for command in [&["verify", "one"][..], &["plan", &world.file], &["plan", "--json", &world.file], &["ls", "--json"]]
    {
        said.push(world.does(command));
    }
    for output in &said {
        assert_eq!(found(&output.stdout), None, "{}", super::transcript(output));
        assert_eq!(found(&output.stderr), None, "{}", super::transcript(output));
    }
    // It was there to be found, and its place is kept.
    let all: String = said.iter().map(super::transcript).collect();
    assert!(all.contains("[secret KEY]") && all.contains("wfhost-secret-KEY-"), "{all}");
    assert!(
        echo.seen()
            .iter()
            .any(|seen| seen.starts_with("GET /basic") && seen.contains(&base64(&format!("ann:{VALUE}"))))
    );
    let verified = &said[said.len() - 4];
    assert!(verified.status.success(), "{}", super::transcript(verified));
    search(&world.data);
    search(cache.path());
    same_placeholder(&world);
}

/// A retry and a fork have the placeholders of the run that they come from.
fn same_placeholder(world: &World) {
    let key = |id: &str| {
        let history = String::from_utf8(world.does(&["history", id, "--json"]).stdout).unwrap();
        let from = history.find("wfhost-secret-KEY-").unwrap_or_else(|| panic!("{id}: {history}"));
        history[from..from + 50].to_owned()
    };
    assert_eq!((key("one"), key("one")), (key("two"), key("three")));
}

/// Dies as a crash of the program would.
#[test]
fn a_process_with_secrets_leaves_no_core_dump() {
    let echo = Echo::start();
    let world = World::new(&workflow(echo.port));
    let given = Given::new(VALUE);
    let folder = tempfile::tempdir().unwrap();
    let program = env!("CARGO_BIN_EXE_wfhost");
    let words = [&["run", "--run-id", "one", &world.file], &given.flags()[..]].concat();
    let script = format!("ulimit -c unlimited; exec {program} \"$@\"");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script, "sh"]).args(words).current_dir(folder.path());
    shell.env("WFHOST_CACHE", super::cache()).env("WFHOST_DATA", &world.data).env("WFHOST_CONFIG", "");
    shell.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut child = shell.spawn().unwrap();
    eventually(|| world.is_at("one", "asks").then_some(()));
    std::process::Command::new("kill").args(["-ABRT", &child.id().to_string()]).status().unwrap();
    let status = child.wait().unwrap();
    assert!(!std::os::unix::process::ExitStatusExt::core_dumped(&status), "{status}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// A script that wants the value to go elsewhere, or to come back; and a step that has no secret.
fn hostile(port: u16, there: u16) -> String {
    format!(
        r#"
secrets:
  KEY: {{ hosts: [ "127.0.0.1:{port}" ] }}
  OTHER: {{ hosts: [ "127.0.0.1:{port}" ] }}
inputs: {{ old: string }}
steps:
  - id: tries
    with: {{ key: "${{ .secrets.KEY }}", old: "${{ .inputs.old }}", here: "http://127.0.0.1:{port}", there: "http://127.0.0.1:{there}" }}
    allow: {{ http: [ "* http://127.0.0.1:{port}", "* http://127.0.0.1:{there}" ] }}
    secrets: [ KEY ]
    script: |
      const {{ key, old, here, there }} = input;
      const bearer = (text) => ({{ authorization: `Bearer ${{text}}` }});
      const other = key.replace("-KEY-", "-OTHER-");
      const attempts = {{
        path: {{ url: `${{here}}/${{key}}` }},
        query: {{ url: here, query: {{ k: key }} }},
        body: {{ url: here, method: "POST", body: {{ json: {{ a: [key] }} }} }},
        text: {{ url: here, method: "POST", body: {{ text: `x${{key}}` }} }},
        header: {{ url: here, headers: {{ "x-other": key }} }},
        name: {{ url: here, headers: {{ [key]: "x" }} }},
        host: {{ url: there, headers: bearer(key) }},
        guess: {{ url: here, headers: bearer(other) }},
        old: {{ url: here, headers: bearer(old) }},
        split: {{ url: here, headers: {{ authorization: key.slice(0, 20), "x-api-key": key.slice(20) }} }},
        encoded: {{ url: here, query: {{ k: encodeURIComponent(key).replace("w", "%77") }} }},
        echo: {{ url: here, headers: bearer(key) }},
        error: {{ url: `${{here}}/fail`, headers: bearer(key) }},
      }};
      const out = {{}};
      for (const [name, args] of Object.entries(attempts)) {{
        try {{
          out[name] = {{ answer: await ctx.call("http", args) }};
        }} catch (problem) {{
          out[name] = {{ kind: problem.kind, text: `${{problem}} ${{JSON.stringify(problem)}}` }};
        }}
        ctx.log(`${{name}} ${{JSON.stringify(out[name])}}`);
      }}
      return {{ out, key }};
  - id: takes
    with: {{ key: "${{ .steps.tries.output.key }}", here: "http://127.0.0.1:{port}" }}
    allow: {{ http: [ "* http://127.0.0.1:{port}" ] }}
    script: |
      try {{
        return await ctx.call("http", {{ url: input.here, headers: {{ authorization: input.key }} }});
      }} catch (problem) {{
        return problem.kind;
      }}
outputs: {{ tries: "${{ .steps.tries.output.out }}", takes: "${{ .steps.takes.output }}", key: "${{ .steps.tries.output.key }}" }}
"#
    )
}

#[test]
fn a_hostile_step_gets_the_value_nowhere_else() {
    let echo = Echo::start();
    let elsewhere = Echo::start();
    let world = World::new(&hostile(echo.port, elsewhere.port));
    let given = Given::new(VALUE);
    let other = Given::new("another-value-of-tests");
    let other = other.flag.replace("KEY=", "OTHER=");
    let run = |old: &str| {
        let old = format!("old={old}");
        let mut flags = vec!["run", "--json", &world.file, "--input", &old, "--secret", &other];
        flags.extend(given.flags());
        let output = world.does(&flags);
        assert_eq!(found(&[output.stdout.clone(), output.stderr.clone()].concat()), None);
        assert!(output.status.success(), "{}", super::transcript(&output));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["outputs"].take()
    };
    let first = run("none");
    let outputs = run(first["key"].as_str().unwrap());
    let tries = outputs["tries"].as_object().unwrap();
    for name in ["path", "query", "body", "text", "header", "name", "host", "guess", "old"] {
        assert_eq!(tries[name]["kind"], "secret-refused", "{name}: {}", tries[name]);
    }
    assert_eq!(outputs["takes"], "secret-refused");
    assert_eq!(tries["error"]["kind"], "http-status");
    assert!(tries["echo"]["answer"]["body"]["you"].as_str().unwrap().contains("Bearer [secret KEY]"));
    // The server got it in the one field, twice in each run, and the other one never.
    let seen = echo.seen();
    let got: Vec<_> = seen.iter().filter(|one| found(one.as_bytes()).is_some()).collect();
    assert_eq!(got.len(), 4, "{got:?}");
    assert!(got.iter().all(|one| one.contains(&format!("authorization: Bearer {VALUE}\r\n"))), "{got:?}");
    assert!(seen.iter().all(|one| !one.contains("another-value")), "{seen:?}");
    assert_eq!(elsewhere.seen().len(), 0);
    search(&world.data);
}

const FLOW: &str = r#"
secrets:
  KEY: { from: { env: SERVICE_KEY }, hosts: [ api.example.com ] }
  TOKEN: { from: { file: /run/secrets/token }, hosts: [ "*.example.com" ], headers: [ X-Token ] }
  VAULT: { from: { command: [ pass, show, api ] }, hosts: [ api.example.com ] }
steps:
  - id: a
    call: http
    with: { url: "https://api.example.com/", auth: { bearer: "${ .secrets.KEY }" }, headers: { x-token: "${ .secrets.TOKEN }" } }
    allow: { http: [ "GET https://api.example.com" ] }
    secrets: [ KEY, TOKEN ]
  - id: group
    steps:
      - id: b
        call: http
        with: { url: "https://api.example.com/", auth: { bearer: "${ .secrets.VAULT }" } }
        allow: { http: [ "GET https://api.example.com" ] }
        secrets: [ VAULT, KEY ]
"#;

#[test]
fn a_plan_shows_who_may_send_which_secret_where() {
    let world = World::new(FLOW);
    let folder = Path::new(&world.file).parent().unwrap();
    super::assert_transcript_in(folder, "a_plan_with_secrets", &world.does(&["plan", &world.file]));
    let plan = world.tells(&["plan", "--json", &world.file]);
    assert_eq!(
        plan["secrets"][1],
        json!({
            "name": "TOKEN", "from": { "file": "/run/secrets/token" }, "hosts": ["*.example.com"],
            "headers": ["x-token"], "steps": ["a"],
        })
    );
    assert_eq!(plan["secrets"][0]["steps"], json!(["a", "group.b"]));
    // What is listed, and not sent.
    let checked = super::transcript(&world.does(&["validate", &world.file]));
    assert!(checked.contains("`b` lists the secret `KEY`, and its `with` does not read it"), "{checked}");
    let world = World::new("secrets: { KEY: { hosts: [ a.example.com ] } }\nsteps: [ { id: a, set: 1 } ]\n");
    let checked = super::transcript(&world.does(&["validate", &world.file]));
    assert!(checked.contains("no step lists the secret `KEY`") && checked.contains("exit 0"), "{checked}");
}

/// Before anything runs, and with the words that give it.
#[test]
fn a_missing_secret_is_told_before_anything_runs() {
    let world = World::new(FLOW);
    let refused = world.refuses(&["run", &world.file]);
    assert!(refused.contains("the secret KEY: the operator has not said where it is"), "{refused}");
    assert!(refused.contains("--secret KEY=env:SERVICE_KEY"), "{refused}");
    assert!(refused.contains("--secret 'TOKEN=file:/run/secrets/token'"), "{refused}");
    assert!(refused.contains("--secret 'VAULT=command:pass show api'"), "{refused}");
    let json = world.does(&["run", "--json", &world.file]);
    let told: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(told["problem"]["kind"], "missing-secrets");
    // The file alone reads no variable, no file, and runs no command.
    let mut command = command_in(&world.data, &["run", &world.file]);
    let output = command.env("SERVICE_KEY", VALUE).env("KEY", VALUE).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(world.says(&["ls"]).lines().count(), 0, "nothing has begun");
    let short = Given::new("short");
    let refused = world.refuses(&["run", &world.file, "--secret", &short.flag, "--secret", "TOKEN=env:NONE_SUCH"]);
    assert!(refused.contains("at least 8 bytes, and this one has 5"), "{refused}");
    assert!(refused.contains("the variable \"NONE_SUCH\": it is not set in the environment"), "{refused}");
    for (flag, why) in [("KEY=hunter2hunter2", "a secret comes from `env:NAME`"), ("a-b", "the name of a secret")] {
        let output = world.does(&["run", &world.file, "--secret", flag]);
        let text = super::transcript(&output);
        assert!(text.contains(why) && text.contains("exit 2"), "{text}");
    }
}

fn killed_at_its_signal() -> (World, Echo) {
    let echo = Echo::start();
    let world = World::new(&workflow(echo.port));
    let given = Given::new(VALUE);
    world.begin("one", "asks", &given.flags()).kill();
    (world, echo)
}

/// The value is loaded anew by the next process, and it may be another one then.
#[test]
fn a_run_whose_secret_is_gone_stays_until_it_is_there_again() {
    let (world, echo) = killed_at_its_signal();
    let refused = world.refuses(&["resume", "one", "--allow-address", "127.0.0.1", "--plain-secrets"]);
    assert!(refused.contains("the secret KEY: the operator has not said where it is"), "{refused}");
    let status = world.tells(&["status", "--json", "one"]);
    assert_eq!(status["status"], "suspended", "{status}");
    let given = Given::new("a-rotated-value");
    let resumed = world.spawn(&[&["resume", "one"], &given.flags()[..]].concat());
    eventually(|| world.does(&["signal", "one", "go", "1"]).status.success().then_some(()));
    ended(resumed);
    let basic = base64("ann:a-rotated-value");
    assert!(echo.seen().iter().any(|seen| seen.contains(&basic)), "{:?}", echo.seen());
}

fn ended(going: Going) {
    let output = going.output();
    assert_eq!(output.status.code(), Some(1), "{}", super::transcript(&output));
}

/// The configuration file of an operator has where they are, and who may receive them.
#[test]
fn secrets_are_given_by_the_configuration_file() {
    let echo = Echo::start();
    let world = World::new(&workflow(echo.port));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), VALUE).unwrap();
    let config = folder.path().join("config.yaml");
    let write = |secret: &str| {
        std::fs::write(&config, format!("allow-address: 127.0.0.1\nsecrets: {{ KEY: {secret} }}\n")).unwrap();
    };
    let run = || {
        let words = ["run", "--config", config.to_str().unwrap(), "--plain-secrets", "--json", &world.file];
        super::transcript(&world.does(&words))
    };
    write("{ from: file:key, hosts: [ other.example.com ] }");
    let text = run();
    assert!(text.contains("secret-refused") && text.contains("the operator does not let"), "{text}");
    for (secret, why) in [
        ("{ hosts: [ a.example.com ] }", "the secret `KEY` has no `from`"),
        ("hunter2hunter2", "this says of no secret where it is"),
        ("{ from: file:key, hosts: [ \"*\" ] }", "for hosts that are named"),
        ("{ from: file:key, value: x }", "a secret has no key `value`"),
    ] {
        write(secret);
        let text = run();
        assert!(text.contains(why) && text.contains("exit 2"), "{text}");
    }
    write("file:none");
    let text = run();
    assert!(text.contains("No such file") && text.contains("exit 2"), "{text}");
    assert_eq!(echo.seen().len(), 0);
}
