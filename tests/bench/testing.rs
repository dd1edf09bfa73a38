//! What tests of workflows cost, in real time:
//!
//! ```sh
//! cargo bench --bench testing
//! ```
//!
//! *A week*: a case whose workflow calls, waits a week for a signal, and runs a guest. *Faults*:
//! the same case with a crash at each of its records in turn, a run replayed and recovered each
//! time.

use serde_json::json;
use std::time::{Duration, Instant};
use wfhost::host::Host;
use wfhost::testing::suite::{Options, Suite};

const FLOW: &str = "\
components: { hello: ./hello.wasm }
steps:
  - id: ask
    call: http
    with: { url: https://example.com/ }
    allow: { http: GET https://example.com }
  - { id: review, needs: ask, wait: { signal: approve, timeout: 30d } }
  - { id: greet, uses: hello, with: { name: \"${ .steps.review.output.by }\" } }
outputs: { greeting: \"${ .steps.greet.output.greeting }\" }
";

const CASES: &str = "\
cases:
  - name: a week
    answers: [ { call: http, answer: { body: { n: 1 } } } ]
    signals: [ { at: 7d, name: approve, body: { by: Ann } } ]
    expect: { outputs: { greeting: \"Hello, Ann!\" }, takes: 7d }
";

/// The median of the times of some executions.
fn median(rounds: usize, suite: &Suite, options: &Options) -> Duration {
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..rounds {
        let start = Instant::now();
        let result = suite.run(options);
        times.push(start.elapsed());
        assert_eq!(result.failed(), 0, "{:#}", result.to_json());
    }
    times.sort_unstable();
    times[times.len() / 2]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let host = Host::builder().workers(1).build()?;
    let guests = concat!(env!("CARGO_MANIFEST_DIR"), "/guests/built");
    let workflow = host.parse("flow.yaml", FLOW, guests)?;
    let suite = Suite::parse(&host, "flow.test.yaml", CASES, &workflow)?;
    let calm = Options::default();
    let first = suite.run(&calm);
    let records = first.cases[0].records;
    let week = median(200, &suite, &calm);
    let mut crashes = Duration::ZERO;
    for record in 1..=records {
        let faults = format!("crash@{record}").parse()?;
        crashes += median(20, &suite, &Options { faults, ..calm.clone() });
    }
    let told = json!({
        "a week, ms": week.as_secs_f64() * 1e3,
        "records": records,
        "with a crash, replayed, ms": crashes.as_secs_f64() * 1e3 / records as f64,
    });
    println!("{told:#}");
    Ok(())
}
