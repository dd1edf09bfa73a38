//! Components in a registry: the registry of the OCI project itself, from Debian's package
//! `docker-registry`. Where it is not installed these tests say so; they fail if
//! `WFHOST_REGISTRY_MUST_RUN` is set.

use crate::support::{World, eventually};
use crate::{command_in, root, transcript};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};

/// The user `ann` with the password `secret`.
const PASSWORDS: &str = "ann:$2b$04$MWjzRHOm/JC9y5QFSgA1zecjS9gpjD7d/GdOp94CWupnhmENmDZ/e\n";

/// The header field of that user.
const ANN: &str = "YW5uOnNlY3JldA==";

struct Registry {
    child: Child,
    host: String,
    folder: tempfile::TempDir,
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Registry {
    /// Starts one with this section `auth`, in which `{}` is its folder; `None` if it is not
    /// installed.
    fn start(auth: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().display().to_string();
        std::fs::write(folder.path().join("passwords"), PASSWORDS).unwrap();
        let address = free_address();
        let config = format!(
            "version: 0.1\nlog: {{ level: error, accesslog: {{ disabled: true }} }}\n\
             storage: {{ filesystem: {{ rootdirectory: {at}/blobs }} }}\nhttp: {{ addr: \"{address}\" }}\n{}\n",
            auth.replace("{}", &at)
        );
        let file = folder.path().join("config.yaml");
        std::fs::write(&file, config).unwrap();
        let started =
            Command::new("docker-registry").arg("serve").arg(&file).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let Ok(child) = started else {
            assert!(std::env::var_os("WFHOST_REGISTRY_MUST_RUN").is_none(), "there is no docker-registry");
            eprintln!("skipped: docker-registry is not installed (apt-get install docker-registry)");
            return None;
        };
        eventually(|| TcpStream::connect(&address).ok());
        Some(Self { child, host: address, folder })
    }

    /// Writes a file of credentials.
    fn credentials(&self, auth: &str) -> std::path::PathBuf {
        let file = self.folder.path().join("credentials.json");
        std::fs::write(&file, format!("{{\"auths\": {{\"{}\": {{\"auth\": \"{auth}\"}}}}}}", self.host)).unwrap();
        file
    }
}

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// Runs a command with these credentials, and a cache of its own.
fn with(world: &World, credentials: &Path, arguments: &[&str]) -> Output {
    let mut command = command_in(&world.data, arguments);
    command.env("REGISTRY_AUTH_FILE", credentials).env("WFHOST_CACHE", world.data.with_extension("cache"));
    command.output().unwrap()
}

fn hello() -> String {
    root().join("guests/built/hello.wasm").display().to_string()
}

#[track_caller]
fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", transcript(output));
    String::from_utf8(output.stdout.clone()).unwrap().trim().to_owned()
}

#[test]
fn a_component_is_pushed_pulled_pinned_and_kept() {
    let Some(registry) = Registry::start("auth: { htpasswd: { realm: test, path: \"{}/passwords\" } }") else { return };
    let (host, credentials) = (&registry.host, registry.credentials(ANN));
    let world = World::new("");
    let tag = format!("oci://{host}/team/hello:1.0");
    let pinned = stdout(&with(&world, &credentials, &["push", &hello(), &tag]));
    assert!(pinned.starts_with(&format!("{tag}@sha256:")), "{pinned}");
    // A second push changes nothing.
    assert_eq!(stdout(&with(&world, &credentials, &["push", &hello(), &tag])), pinned);

    let flow = |source: &str| {
        std::fs::write(&world.file, format!("outputs: {{ said: \"${{ .steps.a.output.greeting }}\" }}\nsteps: [{{ id: a, uses: \"{source}\", with: {{ name: Ann }} }}]")).unwrap();
    };
    flow(&tag);
    let ran = with(&world, &credentials, &["run", "--quiet", "--run-id", "by-tag", &world.file]);
    assert!(stdout(&ran).contains("Hello, Ann!"), "{}", transcript(&ran));
    flow(&pinned);
    stdout(&with(&world, &credentials, &["validate", &world.file]));

    // Without the registry: what is pinned is kept, a tag is asked for again, and a run has its
    // components.
    drop(registry);
    let nobody = Path::new("/dev/null/none");
    let ran = with(&world, nobody, &["run", "--quiet", &world.file]);
    assert!(stdout(&ran).contains("Hello, Ann!"), "{}", transcript(&ran));
    stdout(&with(&world, nobody, &["verify", "by-tag"]));
    flow(&tag);
    let refused = with(&world, &credentials, &["validate", &world.file]);
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(text.contains("cannot be reached") && text.contains("flow.yaml:2:"), "{text}");
}

#[test]
fn a_lock_names_what_a_tag_is_wherever_it_moves() {
    let Some(registry) = Registry::start("") else { return };
    let (world, credentials) = (World::new(""), registry.credentials(ANN));
    let tag = format!("oci://{}/team/greeter:1.0", registry.host);
    stdout(&with(&world, &credentials, &["push", &hello(), &tag]));
    let flow = "steps: [{ id: a, uses: \"TAG\", with: { name: Ann } }]\noutputs: { a: \"${ .steps.a.output }\" }";
    std::fs::write(&world.file, flow.replace("TAG", &tag)).unwrap();
    stdout(&with(&world, &credentials, &["lock", &world.file]));
    // The tag moves to another component.
    let other = root().join("guests/built/wordcount.wasm").display().to_string();
    stdout(&with(&world, &credentials, &["push", &other, &tag]));
    let ran = with(&world, &credentials, &["run", "--quiet", "--locked", &world.file]);
    assert!(stdout(&ran).contains("Hello, Ann!"), "{}", transcript(&ran));
    stdout(&with(&world, &credentials, &["lock", "--check", &world.file]));
    // A lock that is written anew has what the tag is now.
    let told = stdout(&with(&world, &credentials, &["lock", "--json", &world.file]));
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let difference = &told[0]["differences"][0];
    assert!(difference["found"] != difference["locked"] && difference["name"] == tag.as_str(), "{told}");
    // A digest in the file that is not that of the lock.
    let locked = difference["locked"].as_str().unwrap();
    std::fs::write(&world.file, flow.replace("TAG", &format!("{tag}@{locked}"))).unwrap();
    stdout(&with(&world, &credentials, &["lock", &world.file]));
    let lock = world.file.replace("flow.yaml", "wfhost.lock");
    let text = std::fs::read_to_string(&lock).unwrap();
    std::fs::write(&lock, text.replace(&format!(": {locked}"), &format!(": sha256:{}", "0".repeat(64)))).unwrap();
    let refused = String::from_utf8(with(&world, &credentials, &["validate", &world.file]).stderr).unwrap();
    assert!(refused.contains("is not what wfhost.lock has") && refused.contains(locked), "{refused}");
}

#[test]
fn credentials_that_are_missing_or_wrong_are_told() {
    let Some(registry) = Registry::start("auth: { htpasswd: { realm: test, path: \"{}/passwords\" } }") else { return };
    let world = World::new("");
    let tag = format!("oci://{}/team/hello:1.0", registry.host);
    let missing = with(&world, Path::new("/no/such/file"), &["push", &hello(), &tag]);
    let text = String::from_utf8(missing.stderr).unwrap();
    assert!(text.contains("access is denied") && text.contains("hint: "), "{text}");
    // `ann` with another password.
    let wrong = with(&world, &registry.credentials("YW5uOm90aGVy"), &["push", "--json", &hello(), &tag]);
    let told: serde_json::Value = serde_json::from_slice(&wrong.stdout).unwrap();
    assert_eq!((wrong.status.code(), &told["problem"]["kind"]), (Some(2), &"registry".into()), "{told}");
    assert!(told["problem"]["hint"].as_str().unwrap().contains("do not suffice"), "{told}");
}

#[test]
fn tokens_come_from_the_server_that_the_registry_names() {
    // It answers each request with a token, and records what was asked.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let realm = format!("http://{}/token", listener.local_addr().unwrap());
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let record = Arc::clone(&asked);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
            let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            record.lock().unwrap().push(head.join("\n"));
            let body = r#"{"token": "for-this-repository"}"#;
            let _ =
                write!(stream, "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        }
    });
    let Some(registry) = Registry::start(&format!("auth: {{ silly: {{ realm: \"{realm}\", service: test }} }}")) else {
        return;
    };
    let world = World::new("");
    let tag = format!("oci://{}/team/hello:1.0", registry.host);
    let credentials = registry.credentials(ANN);
    let pinned = stdout(&with(&world, &credentials, &["push", &hello(), &tag]));
    let requests = std::mem::take(&mut *asked.lock().unwrap());
    assert!(requests[0].contains("service=test&scope=repository%3Ateam%2Fhello%3Apull%2Cpush"), "{requests:?}");
    assert!(
        requests[0].to_lowercase().contains(&format!("authorization: basic {}", ANN.to_lowercase())),
        "{requests:?}"
    );
    assert_eq!(requests.len(), 1, "one token serves a push: {requests:?}");
    std::fs::write(&world.file, format!("steps: [{{ id: a, uses: \"{pinned}\", with: {{ name: Ann }} }}]")).unwrap();
    stdout(&with(&world, &credentials, &["validate", &world.file]));
    let requests = std::mem::take(&mut *asked.lock().unwrap());
    assert!(requests[0].contains("hello%3Apull "), "{requests:?}");
}

#[test]
fn what_is_no_reference_or_no_component_is_not_pushed() {
    let world = World::new("steps: [{ id: a, uses: \"oci://registry.example.com\" }]");
    for (arguments, expected) in [
        (&["push", &hello(), "registry.example.com/a"][..], "begins with `oci://`"),
        (&["push", &hello(), "oci://registry.example.com/A"], "a repository has parts of a-z"),
        (&["push", "Cargo.toml", "oci://registry.example.com/a"], "not a component"),
        (&["push", "no.wasm", "oci://registry.example.com/a"], "No such file"),
    ] {
        let text = world.refuses(arguments);
        assert!(text.contains(expected), "{text}");
    }
    let text = world.refuses(&["validate", &world.file]);
    assert!(text.contains("it names no repository") && text.contains("flow.yaml:1:"), "{text}");
}
