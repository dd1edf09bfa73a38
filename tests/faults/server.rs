//! A server on loopback that has effects, misbehaves, and keeps a ledger.
//!
//! `PUT` and `POST` of `/effects/…` are effects: each path is one. `GET /facts/N` is the square of
//! N. The first requests for an effect may be treated badly, drawn from the seed and the path.
//! After that the server is well behaved, so a run with enough retries comes to its end.

use crate::dice::Dice;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How often an effect is treated badly at most: less often than it is retried.
pub(crate) const BAD_MAX: u64 = 3;
/// Later than a call's timeout.
const LATE: Duration = Duration::from_millis(400);

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    ledger: Arc<Ledger>,
}

/// What was done.
struct Ledger {
    seed: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    requests: u64,
    /// For each effect by its path, for each key under which it was done, the bodies that came with
    /// it, and their number.
    effects: BTreeMap<String, BTreeMap<String, BTreeMap<Vec<u8>, u64>>>,
    /// The number of requests for each path.
    tries: BTreeMap<String, u64>,
}

/// How a request is treated.
#[derive(Clone, Copy, PartialEq)]
enum Treatment {
    /// Done and answered.
    Good,
    /// Not done; 503.
    Refused,
    /// Done, yet 500.
    Fails,
    /// Done, and answered when the client has stopped waiting.
    Late,
    /// Done, and the connection ends without an answer.
    Breaks,
    /// Done, and the connection ends within the answer.
    Half,
}

impl Server {
    pub(crate) fn start(seed: u64) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let ledger = Arc::new(Ledger { seed, state: Mutex::default(), changed: Condvar::new() });
        let shared = Arc::clone(&ledger);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let ledger = Arc::clone(&shared);
                std::thread::spawn(move || serve(&stream, &ledger));
            }
        });
        Self { address, ledger }
    }

    /// The number of requests.
    pub(crate) fn requests(&self) -> u64 {
        self.ledger.state().requests
    }

    /// Waits for this many requests in all. Returns whether they came in time.
    pub(crate) fn wait_for(&self, requests: u64, until: Instant) -> bool {
        let mut state = self.ledger.state();
        while state.requests < requests {
            let Some(left) = until.checked_duration_since(Instant::now()) else { return false };
            state = self.ledger.changed.wait_timeout(state, left).unwrap().0;
        }
        true
    }

    /// What the ledger shows to be wrong, if each of these paths must have happened.
    pub(crate) fn against(&self, expected: &[String]) -> Vec<String> {
        let state = self.ledger.state();
        let mut against = Vec::new();
        for path in expected.iter().filter(|path| !state.effects.contains_key(*path)) {
            against.push(format!("{path} never happened"));
        }
        let mut by_key: BTreeMap<&str, &str> = BTreeMap::new();
        for (path, keys) in &state.effects {
            if keys.len() > 1 {
                against.push(format!("{path} happened under {} keys: {:?}", keys.len(), keys.keys()));
            }
            for (key, bodies) in keys {
                if key.is_empty() {
                    against.push(format!("{path} happened without a key"));
                }
                if let Some(other) = by_key.insert(key, path) {
                    against.push(format!("{path} and {other} happened under one key, {key}"));
                }
                if bodies.len() > 1 {
                    let texts: Vec<_> = bodies.keys().map(|body| String::from_utf8_lossy(body)).collect();
                    against.push(format!("{path} came with different bodies under {key}: {texts:?}"));
                }
            }
        }
        against
    }

    /// The number of effects, and of those that happened more than once.
    pub(crate) fn effects(&self) -> (usize, usize) {
        let state = self.ledger.state();
        let times =
            |keys: &BTreeMap<String, BTreeMap<Vec<u8>, u64>>| -> u64 { keys.values().flat_map(BTreeMap::values).sum() };
        (state.effects.len(), state.effects.values().filter(|keys| times(keys) > 1).count())
    }
}

impl Ledger {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Records a request, and decides how it is treated.
    fn enter(&self, request: &Request) -> Treatment {
        let mut state = self.state();
        state.requests += 1;
        self.changed.notify_all();
        if request.method == "GET" {
            return Treatment::Good;
        }
        let tries = state.tries.entry(request.path.clone()).or_default();
        *tries += 1;
        let mut dice = Dice::of(self.seed, &request.path);
        let bad = dice.below(2 * BAD_MAX).saturating_sub(BAD_MAX);
        let treatment = if *tries > bad {
            Treatment::Good
        } else {
            use Treatment::*;
            let mut dice = Dice::of(self.seed ^ *tries, &request.path);
            [Refused, Refused, Fails, Late, Breaks, Half][dice.below(6) as usize]
        };
        if treatment != Treatment::Refused {
            let keys = state.effects.entry(request.path.clone()).or_default();
            *keys.entry(request.key.clone()).or_default().entry(request.body.clone()).or_default() += 1;
        }
        treatment
    }
}

struct Request {
    method: String,
    path: String,
    key: String,
    body: Vec<u8>,
}

/// The answer to an effect: the same for each of its requests.
fn answer(request: &Request) -> String {
    match request.path.strip_prefix("/facts/").map(str::parse::<u64>) {
        Some(Ok(number)) => format!("{{\"fact\":{}}}", number * number),
        _ => format!("{{\"done\":{:?}}}", request.path),
    }
}

fn response(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn serve(stream: &TcpStream, ledger: &Ledger) {
    let mut reader = BufReader::new(stream);
    while let Some(request) = read(&mut reader) {
        let treatment = ledger.enter(&request);
        let good = response("200 OK", &answer(&request));
        let text = match treatment {
            Treatment::Good => good,
            Treatment::Refused => response("503 Service Unavailable", "{}"),
            Treatment::Fails => response("500 Internal Server Error", "{}"),
            Treatment::Late => {
                std::thread::sleep(LATE);
                good
            }
            Treatment::Breaks => String::new(),
            Treatment::Half => good[..good.len() - 4].to_owned(),
        };
        let written = { stream }.write_all(text.as_bytes());
        if written.is_err() || matches!(treatment, Treatment::Breaks | Treatment::Half) {
            return;
        }
    }
}

/// A request; `None` if the other side has closed.
fn read(reader: &mut impl BufRead) -> Option<Request> {
    let line = line(reader)?;
    let mut words = line.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (mut key, mut length) = (String::new(), 0);
    loop {
        let line = self::line(reader)?;
        let Some((name, value)) = line.split_once(':') else { break };
        match &*name.to_lowercase() {
            "idempotency-key" => value.trim().clone_into(&mut key),
            "content-length" => length = value.trim().parse().ok()?,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, path, key, body })
}

fn line(reader: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    let read = reader.read_line(&mut line).ok()?;
    (read > 0).then(|| line.trim_end().to_owned())
}
