//! A copy of the project that has all mutants in it, and its test binaries.

use super::list::{self, Mutant, Tests};
use super::weave;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Tiers and how `cargo` builds them.
const LOOM: [&str; 4] = ["--no-default-features", "--release", "--lib", "--target-dir"];
const SHUTTLE: [&str; 5] = ["--no-default-features", "--release", "--test", "shuttle", "--target-dir"];

pub(crate) struct Project {
    /// The root of the copy.
    pub(crate) root: PathBuf,
}

impl Project {
    /// Copies what is tracked or new, and weaves the mutants in. Files that have not changed since
    /// the last copy are not touched, so that they are not built again.
    pub(crate) fn copy(from: &Path, mutants: &[Mutant]) -> std::io::Result<Self> {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../mutants/project");
        std::fs::create_dir_all(&root)?;
        let root = root.canonicalize()?;
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(from)
            .stderr(Stdio::inherit())
            .output()?;
        let of_file = list::by_file(mutants);
        let mut copied = BTreeSet::new();
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        for name in listed.split('\0').filter(|name| from.join(name).is_file()) {
            let (source, target) = (from.join(name), root.join(name));
            let mut bytes = std::fs::read(&source)?;
            if let Some(mutants) = of_file.get(name) {
                let woven = weave::weave(&String::from_utf8_lossy(&bytes), mutants);
                bytes = woven.map_err(|why| std::io::Error::other(why.join("\n")))?.into_bytes();
            }
            match name {
                "src/base/mod.rs" => bytes.extend_from_slice(weave::SWITCH.as_bytes()),
                // Switches are in places where nobody would write an `if`, and some of what they
                // switch off is then unused.
                "src/lib.rs" => bytes.splice(..0, *b"#![allow(unused)]\n").for_each(drop),
                _ => {}
            }
            copied.insert(target.clone());
            if std::fs::read(&target).is_ok_and(|there| there == bytes) {
                continue;
            }
            std::fs::create_dir_all(target.parent().expect("a file is in a folder"))?;
            std::fs::write(&target, bytes)?;
            std::fs::set_permissions(&target, source.metadata()?.permissions())?;
        }
        remove_others(&root, &copied)?;
        Ok(Self { root })
    }

    /// Builds what these tests need. Returns each tier's program.
    pub(crate) fn build(&self, tests: &BTreeSet<Tests>) -> Result<BTreeMap<String, PathBuf>, String> {
        let folder = |name: &str| self.root.with_file_name(name).display().to_string();
        let mut programs = BTreeMap::new();
        let tiers: BTreeSet<&str> = tests.iter().map(|tests| tests.tier.as_str()).collect();
        let plain: Vec<&str> = tiers.iter().copied().filter(|tier| !["loom", "shuttle"].contains(tier)).collect();
        if !plain.is_empty() {
            let mut arguments = vec!["--target-dir".to_owned(), folder("build")];
            arguments.extend(features(tests).iter().map(ToString::to_string));
            for tier in plain {
                match tier {
                    "unit" => arguments.push("--lib".to_owned()),
                    tier => arguments.extend(["--test".to_owned(), tier.to_owned()]),
                }
            }
            programs.extend(self.cargo("", &arguments)?);
        }
        let checked = |tier: &str, arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).chain([folder(tier)]).collect();
            let built = self.cargo(&format!("--cfg {tier}"), &arguments)?;
            built.into_values().next().map(|program| (tier.to_owned(), program)).ok_or(format!("{tier}: no program"))
        };
        if tiers.contains("loom") {
            programs.extend([checked("loom", &LOOM)?]);
        }
        if tiers.contains("shuttle") {
            programs.extend([checked("shuttle", &SHUTTLE)?]);
        }
        Ok(programs)
    }

    fn cargo(&self, flags: &str, arguments: &[String]) -> Result<BTreeMap<String, PathBuf>, String> {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["test", "--no-run", "--message-format=json-render-diagnostics"]).args(arguments);
        cargo.current_dir(&self.root).stdin(Stdio::null()).stderr(Stdio::inherit());
        // The outer cargo's settings are for the outer project.
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CARGO_") && name != "CARGO_HOME") {
            cargo.env_remove(name);
        }
        if !flags.is_empty() {
            cargo.env("RUSTFLAGS", flags);
        }
        let built = cargo.output().map_err(|error| format!("cargo: {error}"))?;
        if !built.status.success() {
            return Err(format!("the copy in {} cannot be built", self.root.display()));
        }
        let messages = String::from_utf8_lossy(&built.stdout).into_owned();
        let messages = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let programs = messages.filter(|message| message["profile"]["test"] == true).filter_map(|message| {
            let is_lib = message["target"]["kind"][0] != "test";
            let name = if is_lib { "unit" } else { message["target"]["name"].as_str()? };
            Some((name.to_owned(), message["executable"].as_str()?.into()))
        });
        Ok(programs.collect())
    }
}

/// The part of the project that these tests need: without guests it is built in seconds.
fn features(tests: &BTreeSet<Tests>) -> &'static [&'static str] {
    let is_of = |tests: &Tests, rooms: &[&str]| match tests.tier.as_str() {
        "unit" => {
            let is_of = |filter: &String| rooms.iter().any(|room| filter.starts_with(room));
            !tests.filters.is_empty() && tests.filters.iter().all(is_of)
        }
        tier => ["scheduler", "sim", "loom", "shuttle"].contains(&tier),
    };
    if tests.iter().all(|tests| is_of(tests, &["run", "scheduler"])) {
        &["--no-default-features"]
    } else if tests.iter().all(|tests| is_of(tests, &["run", "scheduler", "journal"])) {
        &["--no-default-features", "--features=sqlite"]
    } else {
        &[]
    }
}

/// Removes files of an earlier copy that are no longer in this one.
fn remove_others(folder: &Path, copied: &BTreeSet<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let is_built = ["target", "node_modules"].iter().any(|name| path.ends_with(name));
        if path.is_dir() && !path.is_symlink() && !is_built {
            remove_others(&path, copied)?;
        } else if !is_built && !copied.contains(&path) && path.extension().is_some_and(|extension| extension == "rs") {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}
