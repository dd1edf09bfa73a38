//! `wfhost run` of a hello, durable and not, whole process, against the smallest program that runs
//! the same component on the same wasmtime: both with their compiled code cached, run by turns.
//!
//! ```text
//! cargo bench --bench startup [-- RUNS]
//! ```

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use wasmtime::component::{Component, Linker};
use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store};

#[allow(missing_docs, unreachable_pub, clippy::pedantic)]
mod bindings {
    wasmtime::component::bindgen!({ path: "wit", world: "process", exports: { default: async } });
}

use bindings::wfhost::process::host::{Host, Identity, Level};
use bindings::wfhost::process::types::Payload;

struct Silent;
impl bindings::wfhost::process::types::Host for Silent {}
impl Host for Silent {
    fn log(&mut self, _: Level, _: String, _: Option<String>) {}
    fn whoami(&mut self) -> Identity {
        Identity { run: String::new(), pid: 1, next_tag: 1 }
    }
    fn now(&mut self) -> u64 {
        0
    }
    fn random(&mut self, len: u32) -> Vec<u8> {
        vec![0; len as usize]
    }
}

/// The floor: engine, cached code, instance, init, one step, output.
#[expect(unsafe_code, reason = "the code was written by this program a moment ago")]
async fn floor(component: &Path, code: &Path) -> wasmtime::Result<()> {
    // The pool that `wfhost run` takes: its size is part of the cost of a start.
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(64)
        .total_core_instances(64 * 64)
        .total_memories(64)
        .total_tables(64 * 40)
        .total_stacks(64)
        .linear_memory_keep_resident(64 << 10)
        .async_stack_keep_resident(16 << 10);
    let mut config = Config::new();
    config.consume_fuel(true).allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    let engine = Engine::new(&config)?;
    if !code.exists() {
        std::fs::write(code, engine.precompile_component(&std::fs::read(component)?)?)?;
    }
    let component = unsafe { Component::deserialize_file(&engine, code)? };
    let mut linker = Linker::new(&engine);
    bindings::Process::add_to_linker::<_, wasmtime::component::HasSelf<_>>(&mut linker, |silent: &mut Silent| silent)?;
    let mut store = Store::new(&engine, Silent);
    store.set_fuel(1_000_000_000)?;
    let guest = bindings::Process::instantiate_async(&mut store, &component, &linker).await?;
    let guest = guest.wfhost_process_guest();
    let input = Payload::Json("{\"name\":\"Ann\"}".to_owned());
    guest.call_init(&mut store, "run", &input).await?.map_err(|problem| wasmtime::format_err!("{}", problem.title))?;
    let outcome = guest.call_step(&mut store, &[]).await?;
    println!("{:?}", outcome.status);
    Ok(())
}

fn median(mut times: Vec<Duration>) -> (Duration, Duration, Duration) {
    times.sort();
    (times[0], times[times.len() / 2], times[times.len() - 1])
}

fn timed(command: &mut Command) -> Duration {
    let start = Instant::now();
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("the program starts");
    assert!(status.success(), "{command:?} failed");
    start.elapsed()
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, word, component, code] = &arguments[..]
        && word == "floor"
    {
        let mut future = std::pin::pin!(floor(Path::new(component), Path::new(code)));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        loop {
            if let std::task::Poll::Ready(done) = future.as_mut().poll(&mut context) {
                return done.expect("the floor runs");
            }
        }
    }
    let runs = arguments.iter().skip(1).find_map(|word| word.parse().ok()).unwrap_or(21);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = std::env::temp_dir().join(format!("wfhost-startup-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let code: PathBuf = folder.join("hello.cwasm");
    let this = std::env::current_exe().expect("this program");
    let (mut floors, mut ours, mut durables) = (Vec::new(), Vec::new(), Vec::new());
    let hello = |durability: &str| {
        timed(
            Command::new(env!("CARGO_BIN_EXE_wfhost"))
                .args(["run", "-q", "--input", "name=Ann", "--durability", durability])
                .arg(root.join("workflows/hello.yaml"))
                .env("WFHOST_CACHE", folder.join("cache"))
                .env("WFHOST_DATA", folder.join("data")),
        )
    };
    for run in 0..=runs {
        let floor = timed(Command::new(&this).arg("floor").arg(root.join("guests/built/hello.wasm")).arg(&code));
        let (our, durable) = (hello("none"), hello("journal"));
        if run > 0 {
            floors.push(floor);
            ours.push(our);
            durables.push(durable);
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    let (floor, our, durable) = (median(floors), median(ours), median(durables));
    println!("hello, whole process, warm cache, {runs} runs in turn: median (min..max)");
    println!("floor   {:?} ({:?}..{:?})", floor.1, floor.0, floor.2);
    println!("wfhost  {:?} ({:?}..{:?})", our.1, our.0, our.2);
    println!("durable {:?} ({:?}..{:?})", durable.1, durable.0, durable.2);
    println!("ratio   {:.2} (aim: at most 1.50)", our.1.as_secs_f64() / floor.1.as_secs_f64());
}
