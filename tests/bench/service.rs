//! Where the processor time of a run in the service goes, part by part.
//!
//! ```text
//! cargo bench --profile dev --bench service [-- runs=8000 rounds=3 clients=1,32 folder=DIR]
//! ```
//! The same three steps of WebAssembly, through more and more of the service: the engine alone,
//! with the journal, with the API (token, route, JSON) in the same process, and over HTTP in a
//! process of its own, whose generator is not counted. Each figure is the processor time of the
//! process that serves, user and system, divided by the runs; what a part adds is the difference to
//! the line before it. The stages take turns; the table has medians. Times are of this machine and
//! disk.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tower_service::Service as _;
use wfhost::host::{Host, Status, Workflow};
use wfhost::serve::access::Scope;
use wfhost::serve::{Service, ServiceOptions, router};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bench/peers/restate/workflows/guests.yaml");
const BODY: &str = r#"{"inputs":{"n":1}}"#;
const STAGES: [&str; 4] = ["the engine", "+ the journal", "+ the API", "+ HTTP"];

struct Options {
    runs: usize,
    rounds: usize,
    clients: Vec<usize>,
    folder: Option<std::path::PathBuf>,
}

fn main() {
    let mut options = Options { runs: 8_000, rounds: 3, clients: vec![1, 32], folder: None };
    for argument in std::env::args().skip(1).filter(|argument| argument != "--bench") {
        let (key, value) = argument.split_once('=').expect("key=value");
        match key {
            "runs" => options.runs = value.parse().expect("a number"),
            "rounds" => options.rounds = value.parse().expect("a number"),
            "clients" => options.clients = value.split(',').map(|count| count.parse().expect("a number")).collect(),
            "folder" => options.folder = Some(value.into()),
            _ => panic!("there is no option {key}"),
        }
    }
    println!("clients  stage           runs/s  CPU a run  this part adds");
    for &clients in &options.clients {
        // One client needs fewer runs for a figure of the same worth.
        let runs = if clients == 1 { options.runs / 4 } else { options.runs };
        let mut measured = vec![Vec::new(); STAGES.len()];
        for _ in 0..options.rounds {
            for (stage, figures) in measured.iter_mut().enumerate() {
                figures.push(measure(stage, clients, runs, &options));
            }
        }
        let mut before = 0.0;
        for (stage, figures) in STAGES.iter().zip(&mut measured) {
            figures.sort_by(|a, b| a.1.total_cmp(&b.1));
            let (rate, micros) = figures[figures.len() / 2];
            println!("{clients:>7}  {stage:<14}  {rate:>6.0}  {micros:>6.0} µs  {:>6.0} µs", micros - before);
            before = micros;
        }
    }
}

/// Runs a second, and microseconds of processor time of each.
fn measure(stage: usize, clients: usize, runs: usize, options: &Options) -> (f64, f64) {
    let folder = tempfile::Builder::new();
    let folder = match &options.folder {
        Some(within) => folder.tempdir_in(within),
        None => folder.tempdir(),
    };
    let folder = folder.expect("a folder");
    if stage == 3 {
        return over_http(folder.path(), clients, runs);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("threads");
    let mut host = Host::builder().workers(2).runtime(runtime.handle().clone());
    if stage > 0 {
        host = host.data(folder.path());
    }
    let host = host.build().expect("a host");
    let workflow = host.load(FILE).expect("the workflow");
    let figures = match stage {
        2 => through_the_api(&runtime, &host, workflow, clients, runs),
        _ => embedded(&runtime, &host, &workflow, clients, runs),
    };
    host.shutdown_blocking(Duration::from_secs(10));
    figures
}

/// So many clients start runs, one after the other each.
fn by_clients<F: Future<Output = ()> + Send + 'static>(
    runtime: &tokio::runtime::Runtime,
    (clients, runs): (usize, usize),
    one: impl Fn() -> F + Clone + Send + Sync + 'static,
) {
    let left = Arc::new(AtomicUsize::new(runs));
    let client = |left: Arc<AtomicUsize>| {
        let one = one.clone();
        async move {
            while left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() {
                one().await;
            }
        }
    };
    let clients: Vec<_> = (0..clients).map(|_| runtime.spawn(client(Arc::clone(&left)))).collect();
    for client in clients {
        runtime.block_on(client).expect("a client ends");
    }
}

fn embedded(
    runtime: &tokio::runtime::Runtime,
    host: &Host,
    workflow: &Workflow,
    clients: usize,
    runs: usize,
) -> (f64, f64) {
    let (host, workflow) = (host.clone(), workflow.clone());
    let inputs = serde_json::json!({ "n": 1 }).as_object().cloned().unwrap_or_default();
    let one = move || {
        let (host, workflow, inputs) = (host.clone(), workflow.clone(), inputs.clone());
        async move {
            let outcome = host.run(&workflow, inputs).await.expect("a run");
            assert_eq!(outcome.status, Status::Succeeded);
        }
    };
    timed(std::process::id(), runs, |runs| by_clients(runtime, (clients, runs), one.clone()))
}

fn through_the_api(
    runtime: &tokio::runtime::Runtime,
    host: &Host,
    workflow: Workflow,
    clients: usize,
    runs: usize,
) -> (f64, f64) {
    let service = Service::new(host.clone(), ServiceOptions::default()).expect("a service");
    let (deployed, _) = service.deploy(workflow, "bench", None).expect("a version");
    service.activate(&deployed.version.name, deployed.version.number, "bench", None).expect("an active version");
    let token = service.make_token("bench", &[Scope::Admin]).expect("a token");
    service.set_ready();
    let router = router(&service);
    let one = move || {
        let mut router = router.clone();
        let request = Request::post("/v1/workflows/guests/runs?wait=30s")
            .header("host", "localhost")
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json")
            .body(Body::from(BODY))
            .expect("a request");
        async move {
            let response = router.call(request).await.expect("an answer");
            assert_eq!(response.status(), StatusCode::OK);
            response.into_body().collect().await.expect("a body");
        }
    };
    timed(std::process::id(), runs, |runs| by_clients(runtime, (clients, runs), one.clone()))
}

/// The program in a process of its own, until it is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn over_http(folder: &Path, clients: usize, runs: usize) -> (f64, f64) {
    let program = |arguments: &[&str]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_wfhost"));
        program.args(arguments).env("WFHOST_DATA", folder).env("WFHOST_CONFIG", "").env_remove("WFHOST_SERVER");
        program.stderr(Stdio::null()).stdin(Stdio::null());
        program
    };
    let made = program(&["token", "create", "--name", "bench", "--scope", "admin"]).output().expect("a token");
    let token = String::from_utf8(made.stdout).expect("a text").trim().to_owned();
    let address = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
    let workflows = Path::new(FILE).parent().and_then(Path::to_str).expect("a folder");
    let serve = ["serve", "--listen", &address.to_string(), "--workflows", workflows, "--allow-address", "127.0.0.1"];
    let server = Server(program(&serve).stdout(Stdio::null()).spawn().expect("a server"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("threads");
    let request: Arc<str> = format!(
        "POST /v1/workflows/guests/runs?wait=30s HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{BODY}",
        BODY.len()
    )
    .into();
    runtime.block_on(ready(address, &request));
    timed(server.0.id(), runs, |runs| {
        let each = runs / clients;
        let client = |request: Arc<str>| async move {
            let mut stream = TcpStream::connect(address).await.expect("a connection");
            stream.set_nodelay(true).expect("an option");
            let mut buffer = Vec::new();
            for _ in 0..each {
                let status = ask(&mut stream, &request, &mut buffer).await.expect("an answer");
                assert_eq!(status, 200, "{}", String::from_utf8_lossy(&buffer));
            }
        };
        let clients: Vec<_> = (0..clients).map(|_| runtime.spawn(client(Arc::clone(&request)))).collect();
        for client in clients {
            runtime.block_on(client).expect("a client ends");
        }
    })
}

/// Waits until the server answers.
async fn ready(address: SocketAddr, request: &str) {
    for _ in 0..600 {
        if let Ok(mut stream) = TcpStream::connect(address).await
            && ask(&mut stream, request, &mut Vec::new()).await.is_ok_and(|status| status == 200)
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the server does not answer");
}

/// Sends a request on a connection that stays open, reads the answer, and returns its status.
async fn ask(stream: &mut TcpStream, request: &str, buffer: &mut Vec<u8>) -> std::io::Result<u16> {
    stream.write_all(request.as_bytes()).await?;
    buffer.clear();
    loop {
        if stream.read_buf(buffer).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let Some(head) = buffer.windows(4).position(|part| part == b"\r\n\r\n") else { continue };
        let text = String::from_utf8_lossy(&buffer[..head]).to_ascii_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse::<usize>().ok());
        if buffer.len() >= head + 4 + length.unwrap_or(0) {
            return Ok(text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0));
        }
    }
}

/// Runs a second and microseconds of processor time a run of that process, after a tenth as many
/// that are not counted.
#[allow(clippy::cast_precision_loss, reason = "figures for people")]
fn timed(process: u32, runs: usize, mut work: impl FnMut(usize)) -> (f64, f64) {
    work(runs / 10);
    let (begun, before) = (Instant::now(), processor_time(process));
    work(runs);
    let used = processor_time(process).saturating_sub(before);
    (runs as f64 / begun.elapsed().as_secs_f64(), used.as_secs_f64() * 1e6 / runs as f64)
}

/// The processor time of a process, its threads included, in steps of 10 ms.
fn processor_time(process: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("a process");
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(ticks * 10)
}
