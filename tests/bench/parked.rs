//! How long a service takes to be ready over a folder with many parked runs, and what memory.
//!
//! ```text
//! cargo bench --profile dev --bench parked [-- runs=1000000 naps=5m folder=DIR]
//! ```
//! A service starts two runs and is killed when both are parked. The row of one is then copied with
//! all that belongs to it, by SQL, as often as it takes: a copy has its own id and place, and waits
//! as the original does. The next service over that folder is measured: the time until it listens
//! and until `/readyz` answers 200, its memory, and the time from a signal to the outcome of the
//! original, and from its due time that of the other. The pages of the file are in the system's
//! memory as far as they fit there.

use rusqlite::Connection;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const ASKS: &str = "name: asks\nsteps: [{ id: asks, wait: { signal: answer } }]\n";

/// Longer than anything here takes.
const TIME_MAX: Duration = Duration::from_mins(20);

/// The service over a folder.
struct Server {
    child: Child,
    address: String,
    begun: Instant,
    listens: Duration,
}

fn wfhost(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wfhost"));
    command.args(arguments).env("WFHOST_DATA", folder.join("data")).env("HOME", folder);
    command
}

impl Server {
    fn start(folder: &Path) -> Self {
        let workflows = folder.join("workflows");
        let begun = Instant::now();
        let mut command =
            wfhost(folder, &["serve", "--listen", "127.0.0.1:0", "--workflows", workflows.to_str().expect("a path")]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines().map_while(Result::ok);
        let address = lines.find_map(|line| Some(line.split_once("http://")?.1.trim().to_owned()));
        let (address, listens) = (address.expect("it listens"), begun.elapsed());
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address, begun, listens }
    }

    fn ask(&self, token: &str, method: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        let body = if method == "GET" { String::new() } else { body.to_string() };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some((status, serde_json::from_str(body).unwrap_or_default()))
    }

    fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        while !is_so(self) {
            assert!(self.begun.elapsed() < TIME_MAX, "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn is_ready(&self) -> bool {
        self.ask("", "GET", "/readyz", &Value::Null).is_some_and(|(status, _)| status == 200)
    }

    fn has_ended(&self, token: &str, run: &str) -> bool {
        let run = self.ask(token, "GET", &format!("/v1/runs/{run}"), &Value::Null);
        run.is_some_and(|(_, run)| run["state"] == "succeeded")
    }

    /// Bytes of memory that it holds.
    fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it lives");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
    }

    fn kill(mut self) {
        self.child.kill().expect("it lives");
        self.child.wait().expect("it has ended");
    }
}

fn main() {
    let argument = |name: &str| std::env::args().find_map(|arg| Some(arg.strip_prefix(name)?.to_owned()));
    let runs: u64 = argument("runs=").map_or(1_000_000, |number| number.parse().expect("a number"));
    let within = argument("folder=").map(PathBuf::from);
    let folder = tempfile::tempdir_in(within.as_deref().unwrap_or(Path::new(env!("CARGO_TARGET_TMPDIR"))));
    let folder = folder.expect("a folder");
    let folder = folder.path();
    std::fs::create_dir(folder.join("workflows")).expect("a folder");
    // Longer than the copying takes.
    let naps = argument("naps=").unwrap_or_else(|| "5m".to_owned());
    let naps = format!("name: naps\nsteps: [{{ id: naps, wait: {naps} }}]\n");
    for (name, text) in [("asks", ASKS), ("naps", &naps)] {
        std::fs::write(folder.join(format!("workflows/{name}.yaml")), text).expect("a file");
    }
    let made = wfhost(folder, &["token", "create", "--name", "bench", "--scope", "admin", "--json"]).output();
    let made: Value = serde_json::from_slice(&made.expect("it runs").stdout).expect("JSON");
    let token = made["token"].as_str().expect("a token");

    let path = folder.join("data/journal.db");
    let naps_until = begin(folder, token, &path);
    let bytes = multiply(&path, runs);
    println!("{runs} runs, {bytes} bytes on disk each");

    let server = Server::start(folder);
    server.until("it is ready", Server::is_ready);
    let (listens, ready) = (server.listens.as_secs_f64(), server.begun.elapsed().as_secs_f64());
    println!("listens after {listens:.2} s, ready after {ready:.2} s; {} MiB of memory", server.memory() >> 20);
    let asked = Instant::now();
    server.ask(token, "POST", "/v1/runs/asks/signals/answer", &json!(7)).expect("an answer");
    server.until("it has its signal", |server| server.has_ended(token, "asks"));
    println!("a signal, until the run has ended: {:.0} ms", asked.elapsed().as_secs_f64() * 1e3);
    server.until("it is due", |server| server.has_ended(token, "naps"));
    let late = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").saturating_sub(naps_until);
    println!("a timer, until the run has ended: {:.0} ms", late.as_secs_f64() * 1e3);
    println!("{} MiB of memory", server.memory() >> 20);
    server.kill();
}

/// Starts both runs and kills their service when they are parked. Returns when the one is due.
fn begin(folder: &Path, token: &str, path: &Path) -> Duration {
    let server = Server::start(folder);
    server.until("it is ready", Server::is_ready);
    for name in ["asks", "naps"] {
        let started = server.ask(token, "POST", &format!("/v1/workflows/{name}/runs"), &json!({ "run-id": name }));
        assert!(matches!(started, Some((201, _))), "{started:?}");
    }
    let parked = |_: &Server| {
        let db = Connection::open(path).expect("a store");
        let count: i64 =
            db.query_row("SELECT count(*) FROM run WHERE wake IS NOT NULL", [], |row| row.get(0)).expect("a row");
        count == 2
    };
    server.until("they are parked", parked);
    server.kill();
    let due: i64 = Connection::open(path)
        .and_then(|db| db.query_row("SELECT wake FROM run WHERE id = 'naps'", [], |row| row.get(0)))
        .expect("a row");
    Duration::from_micros(due.cast_unsigned())
}

/// Copies the run `asks`, with all its rows. Returns the bytes that a run takes in the file.
fn multiply(path: &Path, runs: u64) -> u64 {
    let before = std::fs::metadata(path).expect("a file").len();
    let db = Connection::open(path).expect("a store");
    db.execute_batch("PRAGMA synchronous = OFF; PRAGMA cache_size = -200000; PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = OFF; BEGIN")
        .expect("it is not in use");
    let number = |question: &str| db.query_row(question, [], |row| row.get::<_, i64>(0)).expect("a number");
    let (source, last) = (number("SELECT run FROM run WHERE id = 'asks'"), number("SELECT max(run) FROM run"));
    let (rows, last_row) =
        (number(&format!("SELECT count(*) FROM log WHERE run = {source}")), number("SELECT max(id) FROM log"));
    let new_run = format!("{last} + n");
    let copy = |table: &str, from: &str, replaced: &[(&str, String)]| {
        let mut columns = db.prepare(&format!("SELECT name FROM pragma_table_info('{table}')")).expect("a table");
        let columns: Vec<String> =
            columns.query_map([], |row| row.get(0)).expect("rows").map(|name| name.expect("a name")).collect();
        let value = |name: &String| {
            let replaced = replaced.iter().find(|(column, _)| column == name);
            replaced.map_or_else(|| format!("one.{name}"), |(_, value)| value.clone())
        };
        let values: Vec<String> = columns.iter().map(value).collect();
        db.execute_batch(&format!(
            "WITH RECURSIVE copies(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM copies WHERE n < {runs})
             INSERT INTO {table} ({}) SELECT {} FROM copies, ({from}) AS one",
            columns.join(", "),
            values.join(", ")
        ))
        .expect("room");
    };
    let of_source = |table: &str| format!("SELECT * FROM {table} WHERE run = {source}");
    let id = "printf('asks-%d', n)".to_owned();
    let head = format!("{last_row} + n * {rows}");
    copy("run", &of_source("run"), &[("run", new_run.clone()), ("id", id), ("head", head)]);
    for table in ["about", "run_component", "waiting", "label"] {
        copy(table, &of_source(table), &[("run", new_run.clone())]);
    }
    // The rows of one run follow each other.
    for row in 0..rows {
        let from = format!("{} ORDER BY id LIMIT 1 OFFSET {row}", of_source("log"));
        let id = format!("{last_row} + (n - 1) * {rows} + {}", row + 1);
        let prev = if row == 0 { "0".to_owned() } else { format!("{id} - 1") };
        copy("log", &from, &[("id", id), ("run", new_run.clone()), ("prev", prev)]);
    }
    db.execute_batch("COMMIT; PRAGMA journal_mode = WAL").expect("room");
    drop(db);
    (std::fs::metadata(path).expect("a file").len() - before) / runs
}
