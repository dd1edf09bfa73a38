//! The service as a service manager starts it, and its folder restored from a backup.

use super::support::{Going, World, eventually};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

const GREETS: &str = "
name: greets
components: { hello: ./guests/hello.wasm }
steps:
  - { id: greet, uses: hello, with: { name: Ann } }
outputs: { greeting: \"${ .steps.greet.output.greeting }\" }
";

/// An address that nobody listens on.
fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Starts a run of the deployed workflow, and returns its outcome.
fn greeted(address: SocketAddr, token: &str) -> Value {
    let mut stream = TcpStream::connect(address).unwrap();
    let body = r#"{"inputs":{}}"#;
    write!(
        stream,
        "POST /v1/workflows/greets/runs?wait=30s HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    serde_json::from_str(body).unwrap()
}

fn received(manager: &UnixDatagram) -> String {
    let mut buffer = [0; 256];
    let length = manager.recv(&mut buffer).expect("a state within the time");
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

#[test]
fn a_service_reports_its_states_and_is_restored_with_what_is_deployed() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(GREETS);
    let made = world.does(&["token", "create", "--name", "ann", "--scope", "admin"]);
    let text = format!("{}{}", String::from_utf8_lossy(&made.stdout), String::from_utf8_lossy(&made.stderr));
    let token = text.split_whitespace().find(|word| word.starts_with("wfh_")).expect("a token").to_owned();
    let socket = folder.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let workflows = Path::new(&world.file).parent().unwrap().to_str().unwrap();
    let serve = |arguments: &[&str]| -> (Going, SocketAddr) {
        let address = free();
        let listen = address.to_string();
        let arguments = [&["serve", "--listen", &listen], arguments].concat();
        let going = world.spawn_by(&arguments, |command| {
            command.env("NOTIFY_SOCKET", &socket);
        });
        (going, address)
    };
    let (mut service, address) = serve(&["--workflows", workflows]);
    assert_eq!(received(&manager), "READY=1");
    assert_eq!(greeted(address, &token)["outputs"]["greeting"], "Hello, Ann!");
    let copy = folder.path().join("copy");
    world.says(&["backup", copy.to_str().unwrap()]);
    service.send("-TERM");
    assert!(received(&manager).starts_with("STOPPING=1\nEXTEND_TIMEOUT_USEC="));
    assert_eq!(service.ends(), Some(0));

    // The workflow is deployed in the copy, with its component, and the token is valid.
    std::fs::rename(&world.data, world.data.with_extension("away")).unwrap();
    world.says(&["restore", copy.to_str().unwrap()]);
    let (restored, address) = serve(&[]);
    assert_eq!(received(&manager), "READY=1");
    let outcome = eventually(|| Some(greeted(address, &token)));
    assert_eq!(outcome["outputs"]["greeting"], "Hello, Ann!");
    restored.kill();
}

#[test]
fn tokens_have_names_that_mislead_nobody() {
    let world = World::new(GREETS);
    let create = |name: &str, workflow: &str| {
        world.does(&["token", "create", "--name", name, "--scope", "runs:read", "--workflow", workflow])
    };
    assert!(create("ann", "orders-*").status.success());
    for (name, workflow) in [("", "a"), ("server", "a"), ("a\u{202e}b", "a"), ("a\nb", "a"), ("a", "b\u{1b}[0m")] {
        let refused = create(name, workflow);
        assert_eq!(refused.status.code(), Some(2), "{name:?} {workflow:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains("invalid value"));
    }
}
