//! `wfhost example`: workflows to start from, embedded in the program, so that there is something
//! to run when only the program is at hand.

use crate::cli::exit::Exit;
use crate::cli::report::error::{CommandError, UserError, kind};
use crate::cli::report::invocation::shell_quoted;
use crate::cli::terminal::{print, print_json, say};
use crate::workflow::diagnostics::closest;
use clap::{Args, ValueHint};
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost example
  wfhost example hello
  wfhost example weather some/folder

Without a name the examples are listed. Existing files are never overwritten.")]
pub(in crate::cli) struct Arguments {
    /// Name of the example.
    pub(in crate::cli) name: Option<String>,
    /// The folder to write to, created if it does not exist [default: the example's name].
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(in crate::cli) folder: Option<PathBuf>,
    /// Print the list, or what was written and the commands to run it, as JSON.
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

/// A workflow with what it needs.
struct Sample {
    name: &'static str,
    /// What it shows.
    about: &'static str,
    /// The workflow first.
    files: &'static [File],
    /// The commands that run it: `{}` is the path of its folder and a slash.
    commands: &'static [&'static str],
}

struct File {
    name: &'static str,
    bytes: &'static [u8],
}

macro_rules! workflow {
    ($path:literal, $name:literal) => {
        File { name: $name, bytes: include_bytes!(concat!("../../../workflows/", $path)) }
    };
}

macro_rules! guest {
    ($name:literal) => {
        File { name: $name, bytes: include_bytes!(concat!("../../../guests/built/", $name)) }
    };
}

const SAMPLES: &[Sample] = &[
    Sample {
        name: "hello",
        about: "one step: a component that greets",
        files: &[
            workflow!("hello.yaml", "hello.yaml"),
            workflow!("hello.test.yaml", "hello.test.yaml"),
            guest!("hello.wasm"),
        ],
        commands: &["wfhost run {}hello.yaml --input name=Ann"],
    },
    Sample {
        name: "orders",
        about: "HTTP calls, for-each and an approval, without a component",
        files: &[
            workflow!("orders/workflow.yaml", "workflow.yaml"),
            workflow!("orders/workflow.test.yaml", "workflow.test.yaml"),
            workflow!("orders/open.json", "open.json"),
            workflow!("orders/order-17.json", "order-17.json"),
            workflow!("orders/order-18.json", "order-18.json"),
            workflow!("orders/order-19.json", "order-19.json"),
        ],
        commands: &[
            "python3 -m http.server 8000 --directory {}. &",
            "wfhost run {}workflow.yaml --run-id monday --allow-address localhost &",
            "wfhost signal monday approve '{\"by\": \"Ann\"}'",
        ],
    },
    Sample {
        name: "approval",
        about: "waits for a person, even while no process executes it",
        files: &[
            workflow!("approval.yaml", "approval.yaml"),
            workflow!("approval.test.yaml", "approval.test.yaml"),
            guest!("fib.wasm"),
            guest!("hello.wasm"),
        ],
        commands: &[
            "wfhost run {}approval.yaml --run-id order-1 &",
            "wfhost status order-1",
            "wfhost signal order-1 approve '{\"by\": \"Ann\"}'",
        ],
    },
    Sample {
        name: "wordcount",
        about: "for-each: map and reduce",
        files: &[
            workflow!("wordcount.yaml", "wordcount.yaml"),
            workflow!("wordcount.test.yaml", "wordcount.test.yaml"),
            guest!("wordcount.wasm"),
        ],
        commands: &["wfhost run {}wordcount.yaml --input text=@{}wordcount.yaml"],
    },
    Sample {
        name: "fan-out",
        about: "HTTP calls, some at a time; one that fails does not stop the others",
        files: &[workflow!("fan-out.yaml", "fan-out.yaml"), workflow!("fan-out.test.yaml", "fan-out.test.yaml")],
        commands: &["python3 -m http.server 8000 &", "wfhost run {}fan-out.yaml --allow-address localhost"],
    },
    Sample {
        name: "failures",
        about: "timeouts, retries, and steps that react to failures",
        files: &[
            workflow!("failures.yaml", "failures.yaml"),
            workflow!("failures.test.yaml", "failures.test.yaml"),
            guest!("hostile.wasm"),
            guest!("hello.wasm"),
        ],
        commands: &["wfhost run {}failures.yaml"],
    },
    Sample {
        name: "weather",
        about: "statistics over a real data set",
        files: &[
            workflow!("weather/workflow.yaml", "workflow.yaml"),
            workflow!("weather/workflow.test.yaml", "workflow.test.yaml"),
            workflow!("weather/weather.csv", "weather.csv"),
            guest!("stats.wasm"),
        ],
        commands: &["wfhost run {}workflow.yaml --input csv=@{}weather.csv"],
    },
];

pub(in crate::cli) fn example(command: &Arguments) -> Result<Exit, CommandError> {
    let Some(name) = &command.name else { return list(command.json) };
    let Some(sample) = SAMPLES.iter().find(|sample| sample.name == name) else {
        let hint = match closest(name, SAMPLES.iter().map(|sample| sample.name)) {
            Some(meant) => format!("did you mean {meant}?"),
            None => "`wfhost example` lists them".to_owned(),
        };
        return Err(UserError::new(kind::USAGE, format!("there is no example `{name}`")).hint(hint).into());
    };
    let folder = command.folder.clone().unwrap_or_else(|| PathBuf::from(sample.name));
    let written = sample.write(&folder)?;
    let commands = sample.commands(&folder);
    if command.json {
        print_json(&json!({ "name": sample.name, "files": written, "commands": commands }))?;
        return Ok(Exit::Success);
    }
    for path in &written {
        say(&format!("wrote {}", path.display()));
    }
    say("to run it:");
    print(&commands.join("\n"))?;
    Ok(Exit::Success)
}

fn list(json: bool) -> Result<Exit, CommandError> {
    if json {
        let to_json = |sample: &Sample| json!({ "name": sample.name, "description": sample.about });
        print_json(&SAMPLES.iter().map(to_json).collect::<Vec<Value>>())?;
        return Ok(Exit::Success);
    }
    let width = SAMPLES.iter().map(|sample| sample.name.len()).max().unwrap_or(0);
    let lines = SAMPLES.iter().map(|Sample { name, about, .. }| format!("{name:width$}  {about}"));
    print(&lines.collect::<Vec<_>>().join("\n"))?;
    say("hint: wfhost example hello writes the first of them");
    Ok(Exit::Success)
}

impl Sample {
    /// Writes its files into a folder, created if missing. No existing file is changed.
    fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, UserError> {
        let paths: Vec<PathBuf> = self.files.iter().map(|file| folder.join(file.name)).collect();
        if let Some(there) = paths.iter().find(|path| path.symlink_metadata().is_ok()) {
            let title = format!("{} already exists, and nothing is overwritten", there.display());
            let hint = format!("name another folder: wfhost example {} DIR", self.name);
            return Err(UserError::new(kind::CONFLICT, title).hint(hint));
        }
        let refuse = |path: &Path, error: &io::Error| {
            UserError::new(kind::UNREADABLE, format!("cannot write {}: {error}", path.display()))
        };
        std::fs::create_dir_all(folder).map_err(|error| refuse(folder, &error))?;
        for (file, path) in self.files.iter().zip(&paths) {
            let written = OpenOptions::new().write(true).create_new(true).open(path);
            written.and_then(|mut to| to.write_all(&file.content())).map_err(|error| refuse(path, &error))?;
        }
        Ok(paths)
    }

    fn commands(&self, folder: &Path) -> Vec<String> {
        let folder = match folder.to_string_lossy() {
            dir if dir == "." => String::new(),
            dir => format!("{}/", shell_quoted(dir.trim_end_matches('/'))),
        };
        self.commands.iter().map(|command| command.replace("{}", &folder)).collect()
    }
}

impl File {
    /// The bytes to write: a workflow finds its components beside it, instead of where they are in
    /// the project.
    fn content(&self) -> Vec<u8> {
        match std::str::from_utf8(self.bytes) {
            Ok(text) if Path::new(self.name).extension().is_some_and(|ending| ending == "yaml") => {
                let text = text.replace("../../guests/built/", "./").replace("../guests/built/", "./");
                text.replace("workflows/weather/", "").replace("workflows/", "").into_bytes()
            }
            _ => self.bytes.to_vec(),
        }
    }
}
