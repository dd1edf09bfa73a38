//! A large value through a whole run: http → a program → http.
//!
//! ```text
//! cargo bench --profile dev --bench blobs [-- mib=1024]
//! ```
//! A process of `wfhost run` gets a blob from a server of this process, lets a program copy it from
//! standard input to standard output, and puts the copy. First with 1 MiB, for what the process
//! takes anyway. Printed are the peak of its resident memory, the time of each stage, and whether
//! what was put is what was got. Server and process share the machine, and its disk takes
//! everything twice.

#[path = "../integration/cat_program.rs"]
mod cat_program;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const FLOW: &str = r#"
name: copy
inputs: { server: string }
steps:
  - id: get
    call: http
    with: { url: "${ .inputs.server }/get", as: blob, timeout: 10m }
    allow: { http: "GET http://127.0.0.1:*" }
  - id: copy
    uses: ./cat.wasm
    with: { stdin: "${ .steps.get.output.body }", parse: blob }
  - id: put
    call: http
    with: { url: "${ .inputs.server }/put", method: PUT, body: { blob: "${ .steps.copy.output.stdout }" }, timeout: 10m }
    allow: { http: "PUT http://127.0.0.1:*" }
outputs: { size: "${ .steps.copy.output.stdout.size }" }
"#;

/// What the server has seen, since it was started.
#[derive(Default)]
struct Seen {
    /// When the last byte was sent, and when the first and the last one came back.
    sent: Option<Instant>,
    came: Option<(Instant, Instant)>,
    is_same: bool,
}

fn main() {
    let mut mib = 1_024;
    for argument in std::env::args().skip(1).filter(|argument| argument.contains('=')) {
        let (key, value) = argument.split_once('=').expect("key=value");
        assert_eq!(key, "mib", "there is no option {key}");
        mib = value.parse().expect("a number");
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("cat.wasm"), cat_program::cat()).expect("a file");
    std::fs::write(folder.path().join("copy.yaml"), FLOW).expect("a file");
    println!("  MiB  peak RSS MiB  get s  program s  put s  all s  MiB/s  same");
    run(folder.path(), 1);
    run(folder.path(), mib);
}

fn run(folder: &Path, mib: u64) {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let address = serve(mib << 20, Arc::clone(&seen));
    let begun = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_wfhost"));
    command.args(["run", "-q", "copy.yaml", "--allow-address", "127.0.0.1", "--input"]);
    command.arg(format!("server=http://{address}")).current_dir(folder);
    command.env("WFHOST_DATA", folder.join("data")).env("WFHOST_CACHE", folder.join("cache")).env("WFHOST_CONFIG", "");
    let mut process = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("the program");
    let mut peak = 0;
    let status = loop {
        peak = peak.max(peak_kib(process.id()));
        match process.try_wait().expect("a status") {
            Some(status) => break status,
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let all = begun.elapsed();
    assert!(status.success(), "the run failed");
    let seen = seen.lock().expect("no panic");
    let (sent, (first, last)) = (seen.sent.expect("it was got"), seen.came.expect("it was put"));
    println!(
        "{mib:5}  {:12.1}  {:5.1}  {:9.1}  {:5.1}  {:5.1}  {:5.0}  {}",
        peak as f64 / 1_024.0,
        (sent - begun).as_secs_f64(),
        (first - sent).as_secs_f64(),
        (last - first).as_secs_f64(),
        all.as_secs_f64(),
        mib as f64 / all.as_secs_f64(),
        seen.is_same
    );
}

/// The most resident memory that a process ever had.
fn peak_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok()).unwrap_or_default()
}

/// Bytes that repeat nowhere near.
fn chunk(number: u64) -> Vec<u8> {
    let mut chunk = vec![0; 1 << 20];
    blake3::Hasher::new().update(&number.to_le_bytes()).finalize_xof().fill(&mut chunk);
    chunk
}

fn serve(bytes: u64, seen: Arc<Mutex<Seen>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let seen = Arc::clone(&seen);
            std::thread::spawn(move || answer(&stream.expect("a connection"), bytes, &seen));
        }
    });
    address
}

fn answer(stream: &TcpStream, bytes: u64, seen: &Mutex<Seen>) {
    let mut reader = BufReader::with_capacity(1 << 16, stream);
    let mut writer = stream;
    let mut line = String::new();
    let mut method = String::new();
    while reader.read_line(&mut line).is_ok_and(|length| length > 0) {
        if method.is_empty() {
            line.split(' ').next().unwrap_or_default().clone_into(&mut method);
        }
        if line.trim().is_empty() {
            if method == "GET" {
                send(&mut writer, bytes, seen);
            } else {
                receive(&mut reader, bytes, seen);
                let _ = writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
            }
            method.clear();
        }
        line.clear();
    }
}

fn send(writer: &mut impl Write, bytes: u64, seen: &Mutex<Seen>) {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n");
    writer.write_all(head.as_bytes()).expect("it is read");
    for number in 0..bytes >> 20 {
        writer.write_all(&chunk(number)).expect("it is read");
    }
    seen.lock().expect("no panic").sent = Some(Instant::now());
}

fn receive(reader: &mut impl Read, bytes: u64, seen: &Mutex<Seen>) {
    let begun = Instant::now();
    let mut got = vec![0; 1 << 20];
    let mut is_same = true;
    for number in 0..bytes >> 20 {
        reader.read_exact(&mut got).expect("it is sent");
        is_same &= got == chunk(number);
    }
    let mut seen = seen.lock().expect("no panic");
    seen.came = Some((begun, Instant::now()));
    seen.is_same = is_same;
}
