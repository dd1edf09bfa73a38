//! The code blocks of the documents. `CONTRIBUTING.md` has the convention: workflows are valid,
//! commands print what the pages show, blocks that name a file of the repository have its text.

mod names;
mod page;
mod post;
mod session;

use super::root;
use page::Page;
use std::path::PathBuf;

/// What a block may be. Rust is compiled by the doc-tests of the crates.
const LANGUAGES: &[&str] = &[
    "c", "console", "go", "js", "json", "mermaid", "python", "rust", "sh", "text", "toml", "ts", "wit", "yaml", "zig",
];

fn pages() -> Vec<Page> {
    let mut paths: Vec<PathBuf> = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(PathBuf::from).to_vec();
    paths.extend(
        [
            "workflows/README.md",
            "guests/README.md",
            "guests/sdk/README.md",
            "guests/suite/README.md",
            "docs/packaging/README.md",
        ]
        .map(PathBuf::from),
    );
    let docs = std::fs::read_dir(root().join("docs")).unwrap();
    paths.extend(docs.map(|entry| PathBuf::from("docs").join(entry.unwrap().file_name())));
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "md") && root().join(path).is_file());
    paths.into_iter().map(Page::read).collect()
}

fn fail_if_any(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}", problems.join("\n\n"));
}

#[test]
fn every_block_says_what_it_is() {
    let mut problems = Vec::new();
    for page in pages() {
        for block in &page.blocks {
            let at = page.at(block);
            let language = block.language();
            if !LANGUAGES.contains(&language) {
                problems.push(format!("{at}: `{}` is none of {}", block.words, LANGUAGES.join(", ")));
            }
            if language == "sh" && block.runs() && block.file().is_none() {
                problems.push(format!("{at}: what is run is `console`, with its output; anything else `sh not-run`"));
            }
            if language == "json"
                && block.runs()
                && let Err(error) = serde_json::from_str::<serde_json::Value>(&block.text)
            {
                problems.push(format!("{at}: {error}"));
            }
        }
    }
    fail_if_any(&problems);
}

/// Rust that is not compiled where it stands is compiled in another page, and each page with such
/// Rust is among the doc-tests of a crate.
#[test]
fn all_rust_is_compiled() {
    let pages = pages();
    let rust = |page: &Page, is_ignored: bool| {
        let blocks = page.blocks.iter().filter(|block| block.language() == "rust" && block.file().is_none());
        let blocks = blocks.filter(|block| block.words.contains("ignore") == is_ignored);
        blocks.map(|block| (page.at(block), block.text.clone())).collect::<Vec<_>>()
    };
    let compiled: Vec<String> = pages.iter().flat_map(|page| rust(page, false)).map(|(_, text)| text).collect();
    let crates =
        ["src/lib.rs", "guests/sdk/src/lib.rs"].map(|path| std::fs::read_to_string(root().join(path)).unwrap());
    let mut problems = Vec::new();
    for page in &pages {
        for (at, text) in rust(page, true) {
            if !compiled.contains(&text) {
                problems.push(format!("{at}: ignored, and compiled in no other page"));
            }
        }
        let path = page.path().display().to_string();
        let included = format!("../{}\")]", path.strip_prefix("guests/sdk/").unwrap_or(&path));
        if !rust(page, false).is_empty() && !crates.iter().any(|text| text.contains(&included)) {
            problems.push(format!("{}: it is in no doc-test: src/lib.rs includes such pages", page.path().display()));
        }
    }
    fail_if_any(&problems);
}

#[test]
fn a_block_that_names_a_file_has_its_text() {
    let mut problems = Vec::new();
    for page in pages() {
        for block in &page.blocks {
            let Some(path) = block.file() else { continue };
            let text = std::fs::read_to_string(root().join(path)).unwrap();
            if block.body().trim_end() != page::without_leading_comments(&text).trim_end() {
                problems.push(format!("{}: {path} has another text:\n{text}", page.at(block)));
            }
        }
    }
    fail_if_any(&problems);
}

#[test]
fn every_link_leads_somewhere() {
    fail_if_any(&pages().iter().flat_map(Page::broken_links).collect::<Vec<_>>());
}

#[test]
fn every_workflow_is_valid() {
    let mut problems = Vec::new();
    for page in pages() {
        let folder = session::folder("8000");
        for block in page.blocks.iter().filter(|block| block.is_workflow()) {
            let path = folder.path().join(block.name().unwrap_or("example.yaml"));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &block.text).unwrap();
            let output = super::wfhost(&["validate", path.to_str().unwrap()]);
            if !output.status.success() {
                problems.push(format!("{}: {}", page.at(block), String::from_utf8_lossy(&output.stderr)));
            }
        }
    }
    fail_if_any(&problems);
}

/// The commands of a page, in one shell. With `WFHOST_DOCUMENTS=update` the pages are written anew.
#[test]
fn every_command_prints_what_is_shown() {
    let update = std::env::var("WFHOST_DOCUMENTS").is_ok_and(|value| value == "update");
    let problems = std::thread::scope(|scope| {
        let run = |page: Page| {
            let printed = session::run(&page);
            if update {
                page.write(&printed);
            }
            page.differences(&printed)
        };
        let pages = pages().into_iter().filter(Page::has_commands);
        let threads: Vec<_> = pages.map(|page| scope.spawn(move || run(page))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<String>>()
    });
    assert!(update || problems.is_empty(), "\n{}", problems.join("\n\n"));
}

/// `docs/cli.md` has each command, and each option that its help has.
#[test]
fn every_command_and_option_is_described() {
    let page = std::fs::read_to_string(root().join("docs/cli.md")).unwrap();
    let help = |arguments: &[&str]| String::from_utf8(super::wfhost(arguments).stdout).unwrap();
    let all = help(&["--help"]);
    let commands = all.split("Commands:\n").nth(1).unwrap().lines().take_while(|line| !line.is_empty());
    let commands = commands.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let commands: Vec<&str> = commands.map(|line| line.split_whitespace().next().unwrap()).collect();
    assert!(commands.contains(&"run"), "{all}");
    for command in commands.into_iter().filter(|command| *command != "help") {
        assert!(page.contains(&format!("| `{command}")), "{command} is not in docs/cli.md");
        for line in help(&[command, "--help"]).lines().map(str::trim_start).filter(|line| line.starts_with('-')) {
            let options = line.split([' ', ',']).filter(|word| word.starts_with("--"));
            for option in options.filter(|option| !["--help", "--version"].contains(option)) {
                assert!(page.contains(option), "{option} of {command} is not in docs/cli.md");
            }
        }
    }
}
