//! What the host keeps beside an instance: the data of its store.

use super::binding::Breach;
use super::metering::Limiter;
use super::wasi::{Wasi, WasiView};
use crate::process::{Birth, Json, Level, Limits, LogLine, Micros, Output, Problem, Random, Tag, problem::kind};
use std::sync::Arc;

/// The host's side of one guest. Whatever of it a guest can see is saved with a snapshot: see [`Saved`].
pub(crate) struct Context {
    birth: Arc<Birth>,
    now: Micros,
    next_tag: Tag,
    /// Made when it is first asked for: most guests never do.
    random: Option<Random>,
    log: Log,
    /// Calls of host functions. Any before instantiation has ended makes the guest unfit for snapshots.
    host_calls: u64,
    pub(crate) limiter: Limiter,
    wasi: Wasi,
}

/// What of the context a guest can see, and therefore goes with its snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(dead_code)]
pub(crate) struct Saved {
    /// How far the random stream has been read, if it has.
    pub(crate) random_position: Option<u128>,
    pub(crate) next_tag: u64,
}

/// The log lines of one step.
#[derive(Default)]
struct Log {
    lines: Vec<LogLine>,
    bytes: u64,
    dropped: u64,
}

#[allow(dead_code)]
impl Context {
    pub(crate) fn new(birth: Arc<Birth>, memory_bytes_max: u64) -> Self {
        Self {
            now: Micros(0),
            next_tag: birth.next_tag,
            random: None,
            log: Log::default(),
            host_calls: 0,
            limiter: Limiter::new(Arc::clone(&birth.limits), memory_bytes_max),
            wasi: Wasi::default(),
            birth,
        }
    }

    /// Sets what the coming step sees.
    pub(crate) fn begin_step(&mut self, now: Micros) {
        self.now = now;
        self.limiter.begin_step();
    }

    pub(crate) fn birth(&self) -> &Birth {
        &self.birth
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.birth.limits
    }

    pub(crate) fn now(&self) -> Micros {
        self.now
    }

    pub(crate) fn next_tag(&self) -> Tag {
        self.next_tag
    }

    /// A step has used tags up to `tag`.
    pub(crate) fn tag_used(&mut self, tag: Tag) {
        self.next_tag = self.next_tag.max(Tag(tag.0 + 1));
    }

    pub(crate) fn count_host_call(&mut self) {
        self.host_calls += 1;
    }

    pub(crate) fn host_calls(&self) -> u64 {
        self.host_calls
    }

    /// Fills `bytes` from the process's stream.
    pub(crate) fn random(&mut self, bytes: &mut [u8]) {
        self.count_host_call();
        let birth = &self.birth;
        self.random.get_or_insert_with(|| Random::new(&birth.seed, birth.pid)).fill(bytes);
    }

    /// Writes a line of the guest's.
    ///
    /// # Errors
    /// Where `fields` is not a JSON object: a breach of the contract.
    pub(crate) fn log(&mut self, level: Level, text: String, fields: Option<String>) -> wasmtime::Result<()> {
        let fields = fields.map(parse_fields).transpose().map_err(Breach)?;
        for line in self.wasi.take_lines() {
            self.log_line(line);
        }
        self.log_line(LogLine { level, text, fields });
        Ok(())
    }

    /// Writes a line, or counts it as dropped where the step has no room for it.
    pub(crate) fn log_line(&mut self, line: LogLine) {
        self.count_host_call();
        let fields_bytes = line.fields.as_ref().map_or(0, |fields| fields.as_bytes().len());
        // Each line has a cost of its own, so that empty ones are bounded too.
        let bytes = self.log.bytes + (line.text.len() + fields_bytes + LINE_BYTES) as u64;
        if bytes > u64::from(self.birth.limits.log_bytes_per_step) {
            self.log.dropped += 1;
            return;
        }
        self.log.bytes = bytes;
        self.log.lines.push(line);
    }

    /// Hands over what the step wrote.
    pub(crate) fn take_log(&mut self, output: &mut Output) {
        let (lines, dropped) = self.wasi.end_step();
        for line in lines {
            self.log_line(line);
        }
        self.log.dropped += dropped;
        output.log.append(&mut self.log.lines);
        output.log_dropped += std::mem::take(&mut self.log.dropped);
        self.log.bytes = 0;
        // An idle guest keeps no buffer.
        self.log.lines = Vec::new();
    }

    pub(crate) fn save(&self) -> Saved {
        Saved { random_position: self.random.as_ref().map(Random::position), next_tag: self.next_tag.0 }
    }

    pub(crate) fn restore(&mut self, saved: &Saved) {
        self.next_tag = Tag(saved.next_tag);
        self.random = saved.random_position.map(|position| {
            let mut random = Random::new(&self.birth.seed, self.birth.pid);
            random.resume(position);
            random
        });
    }
}

impl WasiView for Context {
    fn wasi(&mut self) -> &mut Wasi {
        &mut self.wasi
    }

    fn now(&self) -> Micros {
        self.now
    }

    fn fill_random(&mut self, bytes: &mut [u8]) {
        self.random(bytes);
    }

    fn count_host_call(&mut self) {
        self.host_calls += 1;
    }
}

/// What a log line counts beside its text. Arbitrary.
const LINE_BYTES: usize = 16;

fn parse_fields(text: String) -> Result<Json, Problem> {
    let bad = |detail: String| {
        Problem::new(kind::BAD_JSON, "The fields of a log line are no JSON object").with_detail(detail)
    };
    let json = Json::parse(text).map_err(|error| bad(error.to_string()))?;
    if json.as_str().trim_start().starts_with('{') { Ok(json) } else { Err(bad("they must be an object".into())) }
}
