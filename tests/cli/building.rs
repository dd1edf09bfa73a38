//! Projects: made by `new`, built by `build`, run.

use super::{command, transcript};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Output;

fn does(folder: &Path, arguments: &[&str]) -> Output {
    command(arguments).current_dir(folder).output().unwrap()
}

#[track_caller]
fn tells(folder: &Path, arguments: &[&str]) -> Value {
    let output = does(folder, arguments);
    assert!(output.status.success(), "{}", transcript(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Variables with which cargo finds a tool chain for WebAssembly; `None` if there is none here.
fn rust() -> Option<Vec<(String, String)>> {
    let libdir = ["--print", "target-libdir", "--target", "wasm32-unknown-unknown"];
    let library = std::process::Command::new("rustc").args(libdir).output().ok()?;
    if Path::new(String::from_utf8_lossy(&library.stdout).trim()).is_dir() {
        return Some(Vec::new());
    }
    // What `guests/toolchain/rust.sh` has unpacked, without its linker.
    let cache = tools().join("rust");
    if !cache.join("ready").exists() {
        eprintln!("SKIPPED: there is no Rust for WebAssembly here: guests/toolchain/rust.sh");
        return None;
    }
    let at = |path: &str| cache.join(path).to_str().unwrap().to_owned();
    Some(vec![
        ("LD_LIBRARY_PATH".to_owned(), at("usr/lib/x86_64-linux-gnu")),
        ("RUSTC".to_owned(), at("usr/bin/rustc")),
        ("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER".to_owned(), at("bin/wasm-component-ld")),
    ])
}

#[test]
fn a_project_in_rust_is_built_and_runs() {
    let Some(variables) = rust() else { return };
    let folder = tempfile::tempdir().unwrap();
    let told = tells(folder.path(), &["new", "first-step", "--lang", "rust", "--json"]);
    assert_eq!(told["commands"][0], "wfhost build");
    let project = folder.path().join("first-step");
    let output = command(&["build", "--json"]).current_dir(&project).envs(variables).output().unwrap();
    assert!(output.status.success(), "{}", transcript(&output));
    let built: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&built["component"], &built["language"]), (&"first-step.wasm".into(), &"Rust".into()));
    let told = tells(&project, &["run", "workflow.yaml", "--input", "name=Ann", "--json"]);
    assert_eq!(told["outputs"]["greeting"], "Hello, Ann!");
}

/// Where `guests/toolchain` keeps the tools of guests.
fn tools() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    cache.or_else(|| Some(std::env::home_dir()?.join(".cache"))).unwrap().join("wfhost-guests")
}

/// The PATH with zig in it; `None` if it is not installed.
fn zig() -> Option<String> {
    let path = std::env::var("PATH").unwrap();
    let zig = tools().join("tools/zig/bin");
    let is_there = |folder: PathBuf| ["zig", "python-zig"].iter().any(|name| folder.join(name).exists());
    if is_there(zig.clone()) {
        return Some(format!("{}:{path}", zig.display()));
    }
    if std::env::split_paths(&path).any(is_there) {
        return Some(path);
    }
    eprintln!("SKIPPED: there is no zig here: guests/toolchain/tools.sh");
    None
}

/// Makes, builds and runs a project; `test` is its README's command, which passes.
#[track_caller]
fn works(language: &str, path: &str, test: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    tells(folder.path(), &["new", "first-step", "--lang", language, "--json"]);
    let project = folder.path().join("first-step");
    let readme = std::fs::read_to_string(project.join("README.md")).unwrap();
    assert!(readme.contains(&test.join(" ")), "{readme}");
    let output = command(&["build", "--json"]).current_dir(&project).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{}", transcript(&output));
    let told = tells(&project, &["run", "workflow.yaml", "--input", "name=Ann", "--json"]);
    assert_eq!(told["outputs"]["greeting"], "Hello, Ann!");
    let mut command = std::process::Command::new(test[0]);
    let output = command.args(&test[1..]).current_dir(&project).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{}", transcript(&output));
}

#[test]
fn a_project_in_c_is_built_and_runs_and_its_tests_pass() {
    let Some(path) = zig() else { return };
    works("c", &path, &["make", "test"]);
}

#[test]
fn a_project_in_zig_is_built_and_runs_and_its_tests_pass() {
    let Some(path) = zig() else { return };
    works("zig", &path, &["make", "test"]);
}

#[test]
fn a_project_in_go_is_built_and_runs_and_its_tests_pass() {
    let path = std::env::var("PATH").unwrap();
    let own = tools().join("go/bin");
    if !own.join("go").exists() {
        eprintln!("SKIPPED: there is no Go here: guests/toolchain/go.sh");
        return;
    }
    works("go", &format!("{}:{path}", own.display()), &["go", "test"]);
}

#[test]
fn a_project_in_python_is_built_and_runs_and_its_tests_pass() {
    let path = std::env::var("PATH").unwrap();
    let own = tools().join("py/bin");
    if !own.join("componentize-py").exists() {
        eprintln!("SKIPPED: there is no componentize-py here: guests/toolchain/py.sh");
        return;
    }
    works("python", &format!("{}:{path}", own.display()), &["python3", "-m", "unittest"]);
}

#[test]
fn projects_for_node_are_built_and_run_and_their_tests_pass() {
    let path = std::env::var("PATH").unwrap();
    let own = tools().join("js/node_modules");
    if !own.join(".bin/componentize-js").exists() {
        eprintln!("SKIPPED: there is no componentize-js here: guests/toolchain/js.sh");
        return;
    }
    for language in ["js", "ts"] {
        let folder = tempfile::tempdir().unwrap();
        let told = tells(folder.path(), &["new", "first-step", "--lang", language, "--json"]);
        assert_eq!(told["commands"][0], "npm install");
        let project = folder.path().join("first-step");
        let output = does(&project, &["build", "--json"]);
        assert_eq!(output.status.code(), Some(2));
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(told["problem"]["kind"], "missing-tool", "{told}");
        // What `npm install` makes of what is here already.
        let bin = project.join("node_modules/.bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::os::unix::fs::symlink("../wfhost", project.join("node_modules/wfhost")).unwrap();
        std::fs::write(
            bin.join("wfhost-js"),
            "#!/bin/sh\nexec node \"$(dirname \"$0\")/../wfhost/bin/wfhost-js.js\" \"$@\"\n",
        )
        .unwrap();
        std::fs::set_permissions(bin.join("wfhost-js"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let path = format!("{}:{path}", own.join(".bin").display());
        let output = command(&["build", "--json"]).current_dir(&project).env("PATH", &path).output().unwrap();
        assert!(output.status.success(), "{}", transcript(&output));
        let told = tells(&project, &["run", "workflow.yaml", "--input", "name=Ann", "--json"]);
        assert_eq!(told["outputs"]["greeting"], "Hello, Ann!");
        let readme = std::fs::read_to_string(project.join("README.md")).unwrap();
        assert!(readme.contains("npm test"), "{readme}");
        // The types are checked where the compiler is installed.
        let mut test = std::process::Command::new("sh");
        let script = if language == "ts" {
            "esbuild main.ts --bundle --external:wfhost --format=esm --log-level=warning --outfile=build/main.js && node --test"
        } else {
            "node --test"
        };
        let output = test.args(["-c", script]).current_dir(&project).env("PATH", &path).output().unwrap();
        assert!(output.status.success(), "{}", transcript(&output));
    }
}

#[test]
fn engines_are_listed_and_taken_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let engine = |arguments: &[&str]| {
        let mut command = command(&[&["engine"], arguments].concat());
        command.current_dir(super::root()).env("WFHOST_ENGINES", folder.path().join("engines")).output().unwrap()
    };
    let listed = |output: Output| -> Value {
        assert!(output.status.success(), "{}", transcript(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let all = listed(engine(&["--json"]));
    assert_eq!((&all[0]["name"], &all[1]["digest"]), (&"javascript".into(), &Value::Null), "{all}");
    // Any engine of scripts is taken, and nothing else.
    let refused = engine(&["python", "--from", "guests/built/hello.wasm"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("this is no script engine"), "{}", transcript(&refused));
    assert!(!folder.path().join("engines").exists());
    let all = listed(engine(&["python", "--from", "guests/built/script-js.wasm", "--json"]));
    assert_eq!(all[0]["digest"], all[1]["digest"], "{all}");
    assert!(folder.path().join("engines/script-py.wasm").exists());
}

#[test]
fn a_script_in_python_runs_where_its_engine_is() {
    let engines = super::root().join("guests/built-on-demand");
    if !engines.join("script-py.wasm").exists() {
        eprintln!("SKIPPED: there is no engine of Python: guests/build.sh script-py");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let told = tells(folder.path(), &["new", "first", "--script", "--lang", "python", "--json"]);
    assert_eq!(told["commands"][0], "wfhost engine python");
    let mut run = command(&["run", "workflow.yaml", "--json"]);
    let output = run.current_dir(folder.path().join("first")).env("WFHOST_ENGINES", &engines).output().unwrap();
    assert!(output.status.success(), "{}", transcript(&output));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["outputs"]["total"], 10);
    // There are no files: Python says so, and does not trap.
    let text = "import os\nasync def run(input):\n    try:\n        os.listdir('/')\n    except OSError as error:\n        return repr(error)\n";
    let project = folder.path().join("first");
    std::fs::write(project.join("lists.py"), text).unwrap();
    std::fs::write(
        project.join("lists.yaml"),
        "steps: [{ id: a, uses: ./lists.py }]\noutputs: { a: '${ .steps.a.output }' }\n",
    )
    .unwrap();
    let output =
        command(&["run", "lists.yaml", "--json"]).current_dir(&project).env("WFHOST_ENGINES", engines).output();
    let told: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    assert_eq!(told["outputs"]["a"], "FileNotFoundError(44, 'No such file or directory')", "{told}");
}

#[test]
fn a_script_runs_as_it_is() {
    for (language, file) in [(None, "order.js"), (Some("ts"), "order.ts")] {
        let folder = tempfile::tempdir().unwrap();
        let words =
            [&["new", "first", "--script", "--json"][..], &language.map_or(vec![], |one| vec!["--lang", one])].concat();
        let told = tells(folder.path(), &words);
        let project = folder.path().join("first");
        assert!(project.join(file).exists() && project.join("wfhost.d.ts").exists(), "{told}");
        assert_eq!(told["commands"], serde_json::json!(["wfhost run workflow.yaml"]));
        let told = tells(&project, &["run", "workflow.yaml", "--json"]);
        assert_eq!(told["outputs"]["total"], 10, "{told}");
    }
    let folder = tempfile::tempdir().unwrap();
    for arguments in [&["new", "x", "--lang", "c", "--script"][..], &["new", "x", "--lang", "nothing"]] {
        assert_eq!(does(folder.path(), arguments).status.code(), Some(2));
    }
    assert!(!folder.path().join("x").exists());
}

#[test]
fn a_folder_is_made_and_nothing_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let output = does(folder.path(), &["new", "some/deep/name-2", "--lang", "rust"]);
    assert!(output.status.success(), "{}", transcript(&output));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(printed, "cd some/deep/name-2\nwfhost build\nwfhost run workflow.yaml --input name=Ann\n");
    let project = folder.path().join("some/deep/name-2");
    let read = |name: &str| std::fs::read_to_string(project.join(name)).unwrap();
    assert!(read("Cargo.toml").contains("name = \"name-2\"") && read("workflow.yaml").contains("./name-2.wasm"));
    assert!(!project.join("gitignore").exists() && read(".gitignore").contains("/name-2.wasm"));
    std::fs::write(project.join("README.md"), "mine").unwrap();
    std::fs::remove_file(project.join("Cargo.toml")).unwrap();
    let output = does(folder.path(), &["new", "some/deep/name-2", "--lang", "rust"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("already exists, and nothing is overwritten"), "{said}");
    assert_eq!(read("README.md"), "mine");
    assert!(!project.join("Cargo.toml").exists());
    for name in ["Order", "1st", "a_b", "a-", "é", "..", "a/"] {
        let output = does(folder.path(), &["new", name, "--lang", "rust"]);
        let is_refused = String::from_utf8_lossy(&output.stderr).contains("cannot be the name of a project");
        assert_eq!(is_refused, name != "a/", "{name}: {}", transcript(&output));
    }
}

#[test]
fn what_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str], path: &str| {
        let output =
            command(arguments).current_dir(folder.path()).env("PATH", path).env_remove("RUSTC").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", transcript(&output));
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        told["problem"].clone()
    };
    let problem = refused(&["build", "--json"], "/usr/bin");
    assert_eq!(problem["kind"], "unreadable", "{problem}");
    assert!(problem["title"].as_str().unwrap().contains("there is no project in ."), "{problem}");
    assert!(does(folder.path(), &["new", "one", "--lang", "rust"]).status.success());
    let problem = refused(&["build", "one", "--json"], "/nowhere");
    assert_eq!((&problem["kind"], &problem["title"]), (&"missing-tool".into(), &"`rustc` is not installed".into()));
    assert!(problem["hint"].as_str().unwrap().contains("rustup.rs"), "{problem}");
}

/// A project of a mistake: the compiler's text is shown, and the file of the last build stays.
#[test]
fn a_build_that_fails_leaves_the_component() {
    let Some(variables) = rust() else { return };
    let folder = tempfile::tempdir().unwrap();
    assert!(does(folder.path(), &["new", "wrong", "--lang", "rust"]).status.success());
    let project = folder.path().join("wrong");
    std::fs::write(project.join("wrong.wasm"), "the last one").unwrap();
    std::fs::write(project.join("Cargo.toml"), "[package]\nname = 7\n").unwrap();
    let output = command(&["build", "wrong", "--json"]).current_dir(folder.path()).envs(variables).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["problem"]["kind"], "build-failed", "{told}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("name = 7"), "{said}");
    assert_eq!(std::fs::read_to_string(project.join("wrong.wasm")).unwrap(), "the last one");
}
