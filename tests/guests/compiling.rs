//! Components are compiled in a process of its own, with bounds, if the host knows a program for
//! it.

use crate::slow;
use crate::support::{guests, wait_until};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use wfhost::guest::{
    CacheUse, Cancellation, CompileBound, CompileLimits, Compiler, Component, EngineOptions, GuestEngine, LoadError,
};
use wfhost::host::{CompileNotice, Host, LoadError as WorkflowError};

/// A program that can be the child. `None` if the binary was not built.
fn wfhost() -> Option<PathBuf> {
    let program = option_env!("CARGO_BIN_EXE_wfhost").map(PathBuf::from);
    if program.is_none() {
        eprintln!("SKIPPED: there is no wfhost without the feature `cli`");
    }
    program
}

fn options(program: &Path, cache: Option<&Path>) -> EngineOptions {
    EngineOptions {
        slots: Some(2),
        cache_dir: cache.map(Path::to_owned),
        compiler: Compiler::Program(program.to_owned()),
        ..EngineOptions::default()
    }
}

fn engine(options: EngineOptions) -> Arc<GuestEngine> {
    Arc::new(GuestEngine::new(options).unwrap())
}

fn hello() -> Vec<u8> {
    std::fs::read(guests("built").join("hello.wasm")).unwrap()
}

/// The processes that this one has started to compile a component of this many bytes.
fn children(bytes: usize) -> Vec<PathBuf> {
    let parent = format!("PPid:\t{}\n", std::process::id());
    let order = format!("\"bytes\":{bytes},");
    let is_ours = |process: &PathBuf| {
        let read = |name: &str| std::fs::read(process.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&read("status")).contains(&parent)
            && String::from_utf8_lossy(&read("cmdline")).contains(&order)
    };
    let processes = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    processes.filter(is_ours).collect()
}

#[test]
fn a_child_compiles_and_cached_code_needs_none() {
    let Some(program) = wfhost() else { return };
    let folder = tempfile::tempdir().unwrap();
    let first = engine(options(&program, Some(folder.path())));
    let compiled = Component::load(&first, &hello()).unwrap();
    assert_eq!(first.cache().usage(), CacheUse { hits: 0, misses: 1, damaged: 0 });
    // Stored code is loaded even if there is no compiler.
    let second = engine(options(Path::new("/nowhere"), Some(folder.path())));
    let kept = Component::load(&second, &hello()).unwrap();
    assert_eq!(second.cache().usage(), CacheUse { hits: 1, misses: 0, damaged: 0 });
    assert_eq!(compiled.survey(), kept.survey());
    let failed = Component::load(&engine(options(Path::new("/nowhere"), None)), &hello()).map(|_| ());
    assert!(failed.unwrap_err().to_string().contains("/nowhere cannot be started"));
}

#[test]
fn what_a_child_compiles_runs_without_a_cache() {
    let Some(program) = wfhost() else { return };
    let host = Host::builder().workers(1).guests(options(&program, None)).build().unwrap();
    let text =
        "{ steps: [{ id: x, uses: ./hello.wasm, with: { name: Ann } }], outputs: { x: \"${ .steps.x.output }\" } }";
    assert_eq!(crate::support::outputs(&crate::support::run(&host, text))["x"]["greeting"], "Hello, Ann!");
}

#[test]
fn a_component_that_takes_too_much_to_compile_is_refused() {
    let Some(program) = wfhost() else { return };
    let refused = |limits: CompileLimits, bytes: &[u8]| {
        let options = EngineOptions { compile_limits: limits, ..options(&program, None) };
        match Component::load(&engine(options), bytes).map(|_| ()).unwrap_err() {
            LoadError::CompileBound(bound) => bound,
            other => panic!("{other}"),
        }
    };
    let limits =
        CompileLimits { cpu_base: Duration::from_secs(1), cpu_per_mib: Duration::ZERO, ..CompileLimits::default() };
    assert_eq!(refused(limits, &slow::component()), CompileBound::Cpu(Duration::from_secs(1)));
    // A MiB of additions takes 500 MiB.
    let limits = CompileLimits { memory_base_bytes: 64 << 20, memory_per_mib_bytes: 0, ..CompileLimits::default() };
    let large = slow::of_bodies(&[slow::additions(1_000_000)]);
    assert_eq!(refused(limits, &large), CompileBound::Memory(64 << 20));
}

/// The files of a cache, with their content.
fn files(cache: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let paths = std::fs::read_dir(cache).unwrap().map(|entry| entry.unwrap().path());
    paths.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

#[test]
fn the_next_version_of_a_component_compiles_what_is_new() {
    let Some(program) = wfhost() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (cache, fresh) = (folder.path().join("cache"), folder.path().join("fresh"));
    let interpreter: Vec<Vec<u8>> =
        (0..8).map(|i| [slow::additions(60_000), slow::branches(3_200 + i)].concat()).collect();
    let version = |small: usize| slow::of_bodies(&[interpreter.clone(), vec![slow::additions(small)]].concat());
    let second = CompileLimits { cpu_base: Duration::from_secs(1), cpu_per_mib: Duration::ZERO, ..Default::default() };
    let load = |cache: &Path, bytes: &[u8], limits: Option<&CompileLimits>| {
        let mut options = options(&program, Some(cache));
        options.compile_limits = limits.cloned().unwrap_or(options.compile_limits);
        let engine = engine(options);
        // It has the exports of a guest by name only.
        let error = Component::load(&engine, bytes).map(|_| ()).unwrap_err();
        (matches!(error, LoadError::CompileBound(_)), engine.cache().usage().damaged)
    };
    assert_eq!(load(&cache, &version(30), Some(&second)), (true, 0), "it takes more than a second");
    assert_eq!(load(&cache, &version(30), None), (false, 0));
    let first = files(&cache);
    assert_eq!(first.len(), 2, "code and functions");
    assert_eq!(load(&cache, &version(60), Some(&second)), (false, 0), "most of it was compiled before");
    let second_code = files(&cache).into_iter().find(|file| !first.contains(file)).unwrap();
    load(&fresh, &version(60), None);
    assert!(files(&fresh).iter().any(|(_, bytes)| *bytes == second_code.1), "it is the same code");
    // What is damaged is compiled.
    for (path, mut bytes) in first {
        bytes[0] ^= 1;
        std::fs::write(path, bytes).unwrap();
    }
    assert_eq!(load(&cache, &version(90), Some(&second)), (true, 1));
    assert_eq!(load(&cache, &version(90), None), (false, 1));
    assert_eq!(load(&cache, &version(120), Some(&second)), (false, 0));
}

/// The problems are those of loading one after the other, in the order of the file.
#[test]
fn several_components_are_compiled_at_a_time() {
    let Some(program) = wfhost() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut text = "steps:\n".to_owned();
    for (index, name) in ["a", "b", "c"].into_iter().enumerate() {
        let component = slow::of_bodies(&[slow::branches(2_000 + index)]);
        std::fs::write(folder.path().join(format!("{name}.wasm")), component).unwrap();
        text += &format!("  - {{ id: {name}, uses: ./{name}.wasm }}\n");
    }
    text += "  - { id: gone, uses: ./gone.wasm }\n  - { id: again, uses: ./a.wasm }\n";
    let notices = Arc::new(std::sync::Mutex::new(Vec::new()));
    let heard = Arc::clone(&notices);
    let note = move |notice: &CompileNotice<'_>| {
        heard.lock().unwrap().push(match notice {
            CompileNotice::Begins { component, .. } => format!("begins {component}"),
            CompileNotice::Ended { component, .. } => format!("ended {component}"),
            _ => panic!("{notice:?}"),
        });
    };
    let host = Host::builder().workers(1).guests(options(&program, None)).on_compile(note).build().unwrap();
    let error = host.parse("flow.yaml", &text, folder.path()).map(|_| ()).unwrap_err().to_string();
    let heard = notices.lock().unwrap().clone();
    let count = |text: &str| heard.iter().filter(|notice| notice.starts_with(text)).count();
    assert_eq!((count("begins"), count("ended")), (3, 3), "each once: {heard:?}");
    if std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1) {
        assert!(heard[..2].iter().all(|notice| notice.starts_with("begins")), "two at a time: {heard:?}");
    }
    let at = |name: &str| error.find(&format!("./{name}.wasm")).unwrap_or_else(|| panic!("{name}: {error}"));
    assert!(at("a") < at("b") && at("b") < at("c") && at("c") < at("gone"), "{error}");
}

/// What a process has open that is not its own.
fn foreign(process: &Path) -> Vec<String> {
    let descriptors = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let targets = descriptors.filter_map(|descriptor| std::fs::read_link(descriptor.path()).ok());
    let is_its_own =
        |target: &String| ["pipe:", "/proc/", "/sys/", "/dev/null"].iter().any(|kind| target.starts_with(kind));
    targets.map(|target| target.to_string_lossy().into_owned()).filter(|target| !is_its_own(target)).collect()
}

/// The child has nothing of this process but its pipes, and ends with the load that it is for.
#[test]
fn a_load_that_is_cancelled_ends_its_child_which_has_nothing_but_its_pipes() {
    let Some(program) = wfhost() else { return };
    let folder = tempfile::tempdir().unwrap();
    // Its length is unlike any other test's.
    let component = slow::of_bodies(&vec![slow::branches(20_001); 9]);
    std::fs::write(folder.path().join("slow.wasm"), &component).unwrap();
    let file = folder.path().join("flow.yaml");
    std::fs::write(&file, "steps: [{ id: x, uses: ./slow.wasm }]").unwrap();
    let bytes = component.len();
    let host =
        Host::builder().workers(1).guests(options(&program, Some(&folder.path().join("cache")))).build().unwrap();
    let cancellation = Cancellation::new();
    let guard = cancellation.on_drop();
    let loading = std::thread::spawn(move || host.load_until(file, &cancellation).map(|_| ()));
    // Its program is this one until it has executed the other.
    let is_it = |child: &PathBuf| std::fs::read_link(child.join("exe")).is_ok_and(|exe| exe == program);
    wait_until(|| {
        assert!(!loading.is_finished(), "it was loaded before it could be cancelled");
        children(bytes).iter().any(is_it)
    });
    let child = children(bytes).pop().unwrap();
    assert_eq!(std::fs::read(child.join("environ")).unwrap(), b"");
    // Until it runs, its loader reads libraries.
    wait_until(|| {
        let foreign = foreign(&child);
        assert!(!loading.is_finished(), "to the end it had {foreign:?}");
        foreign.is_empty()
    });
    drop(guard);
    assert!(matches!(loading.join().unwrap(), Err(WorkflowError::Cancelled)));
    assert_eq!(children(bytes), Vec::<PathBuf>::new());
}

#[test]
fn a_program_that_is_no_compiler_is_named() {
    for (program, expected) in [("/bin/true", "it gave no answer"), ("/bin/false", "exit status: 1")] {
        let refused = Component::load(&engine(options(Path::new(program), None)), &hello()).map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains(expected), "{refused}");
    }
}
