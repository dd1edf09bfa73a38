//! Many readers of the events of one run, and many that take nothing.
//!
//! ```text
//! cargo bench --profile dev --bench streams [-- readers=1000 stuck=1000 seconds=15]
//! ```
//! A run of a service in a process of its own has a record each ten milliseconds. So many readers
//! follow it by Server-Sent Events; then as many more connect and read nothing. Of each stage: the
//! events that came, how long after the time of their record, and what the service used: resident
//! memory for each reader, and processor time. The readers share the machine with it.

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use wfhost::host::Host;
use wfhost::serve::access::Scope;
use wfhost::serve::{Service, ServiceOptions};

/// A step that waits, again and again, for some minutes: a record each time.
const FILE: &str = "\
name: ticks
steps: [{ id: tick, for-each: \"${ [range(5000)] }\", max-parallel: 1, wait: 10ms }]
";

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn main() {
    let (mut readers, mut stuck, mut seconds) = (1_000, 1_000, 15);
    for argument in std::env::args().skip(1).filter(|argument| argument != "--bench") {
        let (key, value) = argument.split_once('=').expect("key=value");
        let value = value.parse().expect("a number");
        match key {
            "readers" => readers = value,
            "stuck" => stuck = value,
            "seconds" => seconds = value,
            _ => panic!("there is no option {key}"),
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let workflows = tempfile::tempdir().expect("a folder");
    std::fs::write(workflows.path().join("ticks.yaml"), FILE).expect("a file");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("threads");
    let token = {
        let host = Host::builder().workers(1).data(folder.path()).runtime(runtime.handle().clone());
        let host = host.build().expect("a host");
        let service = Service::new(host.clone(), ServiceOptions::default()).expect("a service");
        let token = service.make_token("bench", &[Scope::Admin]).expect("a token");
        host.shutdown_blocking(Duration::from_secs(10));
        token
    };
    let address = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
    let mut program = Command::new(env!("CARGO_BIN_EXE_wfhost"));
    program.args(["serve", "--listen", &address.to_string(), "--workflows"]).arg(workflows.path());
    program.env("WFHOST_DATA", folder.path()).env("WFHOST_CONFIG", "").stdin(Stdio::null());
    let server = Server(program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a server"));
    let process = server.0.id();
    let bench = Arc::new(Bench { address, token });
    runtime.block_on(async {
        bench.starts().await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        println!("readers  stuck  events/s of each  p50      p99      max      KiB a reader  CPU");
        let idle = memory(process);
        stage(&bench, process, (readers, 0), seconds as u64, idle).await;
        let idle = memory(process);
        let mut held = Vec::new();
        for _ in 0..stuck {
            held.push(bench.opens(1).await);
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        stage(&bench, process, (readers.min(2_000 - stuck), stuck), seconds as u64, idle).await;
        drop(held);
    });
}

struct Bench {
    address: SocketAddr,
    token: String,
}

impl Bench {
    async fn starts(&self) {
        let body = r#"{"inputs":{},"run-id":"ticks"}"#;
        let request = format!(
            "POST /v1/workflows/ticks/runs HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        );
        for _ in 0..600 {
            if let Ok(mut stream) = TcpStream::connect(self.address).await {
                let mut answer = String::new();
                let _ = stream.write_all(request.as_bytes()).await;
                let _ = stream.read_to_string(&mut answer).await;
                if answer.starts_with("HTTP/1.1 201") {
                    return;
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the run does not start");
    }

    /// How many records the run has.
    async fn records(&self) -> u64 {
        let mut stream = TcpStream::connect(self.address).await.expect("a connection");
        let request =
            format!("GET /v1/runs/ticks HTTP/1.0\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\r\n", self.token);
        stream.write_all(request.as_bytes()).await.expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        let rest = answer.split_once("\"records\":").expect("a run").1;
        rest[..rest.find(|c: char| !c.is_ascii_digit()).expect("an end")].parse().expect("a number")
    }

    /// A stream of the run, from this record on.
    async fn opens(&self, from: u64) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.expect("a connection");
        let request = format!(
            "GET /v1/runs/ticks/events?from={from} HTTP/1.0\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\r\n",
            self.token
        );
        stream.write_all(request.as_bytes()).await.expect("a request");
        stream
    }

    /// Follows the run from this record on for so long; the lag of each event, in microseconds,
    /// after some seconds in which all come to the end.
    async fn follows(&self, from: u64, begin: Instant, end: Instant) -> Vec<u64> {
        let mut lines = BufReader::with_capacity(2_048, self.opens(from).await).lines();
        let mut lags = Vec::new();
        let until = tokio::time::Instant::from_std(end);
        while let Ok(Ok(Some(line))) = tokio::time::timeout_at(until, lines.next_line()).await {
            if let Some(data) = line.strip_prefix("data: ").filter(|_| Instant::now() > begin) {
                lags.extend(at(data).map(|at| micros().saturating_sub(at)));
            }
        }
        lags
    }
}

/// The time of a record, in microseconds since 1970: the first in its text.
fn at(data: &str) -> Option<u64> {
    let rest = data.split_once("\"at\":")?.1.trim_start_matches('"');
    rest[..rest.find(|c: char| !c.is_ascii_digit())?].parse().ok()
}

fn micros() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

/// One stage: readers beside stuck ones.
#[allow(clippy::cast_precision_loss, reason = "figures for people")]
async fn stage(bench: &Arc<Bench>, process: u32, (readers, stuck): (usize, usize), seconds: u64, idle: u64) {
    let from = bench.records().await.max(1);
    let begin = Instant::now() + Duration::from_secs(5);
    let end = begin + Duration::from_secs(seconds);
    let following: Vec<_> = (0..readers)
        .map(|_| {
            let bench = Arc::clone(bench);
            tokio::spawn(async move { bench.follows(from, begin, end).await })
        })
        .collect();
    tokio::time::sleep(begin - Instant::now()).await;
    let before = processor_time(process);
    tokio::time::sleep(end - Instant::now()).await;
    let used = processor_time(process).saturating_sub(before).as_secs_f64() / seconds as f64;
    let each = memory(process).saturating_sub(idle) as f64 / (readers + stuck) as f64;
    let mut lags = Vec::new();
    for reader in following {
        lags.extend(reader.await.expect("a reader ends"));
    }
    lags.sort_unstable();
    let of =
        |part: f64| lags.get((lags.len() as f64 * part) as usize).or(lags.last()).copied().unwrap_or(0) as f64 / 1e3;
    let rate = lags.len() as f64 / readers as f64 / seconds as f64;
    let (p50, p99, max) = (of(0.5), of(0.99), of(1.0));
    println!(
        "{readers:>7}  {stuck:>5}  {rate:>16.1}  {p50:>4.0} ms  {p99:>4.0} ms  {max:>4.0} ms  {each:>12.1}  {used:.2}"
    );
}

/// The resident memory of a process, in KiB.
fn memory(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).expect("a process");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// The processor time of a process, its threads included, in steps of 10 ms.
fn processor_time(process: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("a process");
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(ticks * 10)
}
