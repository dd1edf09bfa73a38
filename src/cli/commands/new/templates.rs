//! The templates, which are folders of `guests/templates`, and the SDKs that go with them, as they
//! are in `guests`: all in the program.

use super::Language;
use crate::cli::report::error::{UserError, kind};

/// A folder to write.
pub(super) struct Template {
    language: Language,
    is_script: bool,
    folders: &'static [&'static [File]],
    /// The commands that build and run it.
    pub(super) commands: &'static [&'static str],
}

pub(super) struct File {
    /// Where it is in the new folder.
    pub(super) path: &'static str,
    pub(super) bytes: &'static [u8],
    /// Whether the project's name is put into it.
    pub(super) is_named: bool,
}

/// The files of a template: `"rust" => ["Cargo.toml", …]`.
macro_rules! template {
    ($folder:literal => [$($name:literal),* $(,)?]) => {
        &[
            $(File {
                path: $name,
                bytes: include_bytes!(concat!("../../../../guests/templates/", $folder, "/", $name)),
                is_named: true,
            },)*
            File {
                path: ".gitignore",
                bytes: include_bytes!(concat!("../../../../guests/templates/", $folder, "/gitignore")),
                is_named: true,
            },
        ]
    };
}

/// Files of an SDK, and where they go: `"sdk/src" => "wfhost-guest/src/": ["lib.rs", …]`.
macro_rules! sdk {
    ($from:literal => $to:literal: [$($name:literal),* $(,)?]) => {
        &[$(File {
            path: concat!($to, $name),
            bytes: include_bytes!(concat!("../../../../guests/", $from, "/", $name)),
            is_named: false,
        },)*]
    };
}

const BUILD_AND_RUN: &[&str] = &["wfhost build", "wfhost run workflow.yaml --input name=Ann"];

const INSTALL_BUILD_AND_RUN: &[&str] = &["npm install", "wfhost build", "wfhost run workflow.yaml --input name=Ann"];

/// The package `wfhost`, as npm would unpack it.
const NODE_PACKAGE: &[&[File]] = &[
    sdk!("javascript" => "wfhost/": ["package.json", "blobs.d.ts", "wfhost.d.ts", "bin/wfhost-js.js", "src/blobs.js",
    "src/component-host.js", "src/component.js", "src/core.js", "src/engine.js", "src/globals.js", "src/host.js", "src/own.js", "src/show.js",
    "testing/index.d.ts", "testing/index.js", "testing/process.js", "testing/resolve.js"]),
    sdk!("../wit" => "wfhost/wit/": ["process.wit"]),
];

const RUN: &[&str] = &["wfhost run workflow.yaml"];

const TEMPLATES: &[Template] = &[
    Template {
        language: Language::Rust,
        is_script: false,
        folders: &[
            template!("rust" => ["Cargo.toml", "Cargo.lock", "README.md", "src/lib.rs", "workflow.test.yaml", "workflow.yaml",
            "wfhost-guest/Cargo.toml"]),
            sdk!("sdk/src" => "wfhost-guest/src/": ["answer.rs", "bindings.rs", "blobs.rs", "call.rs", "combine.rs", "core.rs",
            "ctx.rs", "describe.rs", "describing.rs", "executor.rs", "heap.rs", "host.rs", "lib.rs", "message.rs",
            "payload.rs", "problem.rs", "process.rs", "schema.rs", "slots.rs", "tasks.rs", "testing.rs", "tests.rs",
            "tests/blobs.rs"]),
        ],
        commands: BUILD_AND_RUN,
    },
    Template {
        language: Language::Python,
        is_script: false,
        folders: &[
            template!("python" => ["README.md", "main.py", "pyproject.toml", "test_main.py", "workflow.test.yaml", "workflow.yaml"]),
            sdk!("python/wfhost" => "wfhost/": ["__init__.py", "__main__.py", "blobs.py", "component.py", "core.py", "inputs.py", "problem.py",
            "process.wit", "py.typed", "stubs.py", "testing.py", "world.py"]),
        ],
        commands: BUILD_AND_RUN,
    },
    Template {
        language: Language::Go,
        is_script: false,
        folders: &[
            template!("go" => ["README.md", "go.mod", "main.go", "main_test.go", "workflow.test.yaml", "workflow.yaml"]),
            sdk!("go" => "wfhost/": ["go.mod", "wf/component.go", "wf/component.s", "wf/contract.go", "wf/ctx.go", "wf/entries.go", "wf/future.go", "wf/problem.go", "wf/process.go", "wf/schema.go", "wftest/host.go"]),
        ],
        commands: BUILD_AND_RUN,
    },
    Template {
        language: Language::C,
        is_script: false,
        folders: &[
            template!("c" => ["Makefile", "README.md", "step.c", "step_test.c", "workflow.test.yaml", "workflow.yaml"]),
            sdk!("c" => "": ["wfhost.h", "wfhost_test.h"]),
        ],
        commands: BUILD_AND_RUN,
    },
    Template {
        language: Language::Zig,
        is_script: false,
        folders: &[
            template!("zig" => ["Makefile", "README.md", "step.zig", "step_test.zig", "workflow.test.yaml", "workflow.yaml"]),
            sdk!("zig" => "wfhost/": ["component.zig", "component_type.zig", "contract.zig", "process.zig", "testing.zig", "wfhost.zig"]),
        ],
        commands: BUILD_AND_RUN,
    },
    Template {
        language: Language::Js,
        is_script: false,
        folders: &[
            template!("js" => ["README.md", "main.js", "main.test.js", "package.json", "workflow.test.yaml", "workflow.yaml"]),
            NODE_PACKAGE[0],
            NODE_PACKAGE[1],
        ],
        commands: INSTALL_BUILD_AND_RUN,
    },
    Template {
        language: Language::Ts,
        is_script: false,
        folders: &[
            template!("ts" => ["README.md", "main.ts", "main.test.js", "package.json", "tsconfig.json", "workflow.test.yaml", "workflow.yaml"]),
            NODE_PACKAGE[0],
            NODE_PACKAGE[1],
        ],
        commands: INSTALL_BUILD_AND_RUN,
    },
    Template {
        language: Language::Js,
        is_script: true,
        folders: &[
            template!("script-js" => ["README.md", "jsconfig.json", "order.js", "wfhost.d.ts", "workflow.test.yaml", "workflow.yaml"]),
        ],
        commands: RUN,
    },
    Template {
        language: Language::Python,
        is_script: true,
        folders: &[template!("script-python" => ["README.md", "order.py", "workflow.test.yaml", "workflow.yaml"])],
        commands: &["wfhost engine python", "wfhost run workflow.yaml"],
    },
    Template {
        language: Language::Ts,
        is_script: true,
        folders: &[
            template!("script-ts" => ["README.md", "order.ts", "tsconfig.json", "workflow.test.yaml", "workflow.yaml"]),
            sdk!("templates/script-js" => "": ["wfhost.d.ts"]),
        ],
        commands: RUN,
    },
];

/// The template of a language.
pub(super) fn find(language: Option<Language>, is_script: bool) -> Result<&'static Template, UserError> {
    let language = language.unwrap_or(Language::Js);
    let found = TEMPLATES.iter().find(|template| template.language == language && template.is_script == is_script);
    found.ok_or_else(|| {
        let hint = "omit --script: the template is then a program that is built";
        UserError::new(kind::USAGE, "there are no scripts in this language").hint(hint)
    })
}

impl Template {
    pub(super) fn files(&self) -> impl Iterator<Item = &'static File> {
        self.folders.iter().flat_map(|files| files.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// All files below a folder.
    fn below(folder: &Path, into: &mut BTreeSet<String>, prefix: &str) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
            if entry.path().is_dir() && !name.ends_with("__pycache__") {
                below(&entry.path(), into, &format!("{name}/"));
            } else if entry.path().is_file() {
                into.insert(name);
            }
        }
    }

    fn on_disk(folder: &str, to: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("guests").join(folder), &mut found, to);
        found
    }

    #[track_caller]
    fn is_whole(language: Language, is_script: bool, folders: &[(&str, &str)]) {
        let template = find(Some(language), is_script).ok().unwrap();
        let expected: BTreeSet<String> = folders
            .iter()
            .flat_map(|(folder, to)| on_disk(folder, to))
            .map(|name| name.replace("gitignore", ".gitignore"))
            .collect();
        let found: BTreeSet<String> = template.files().map(|file| file.path.to_owned()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_template_has_all_files_of_its_folders() {
        is_whole(Language::Rust, false, &[("templates/rust", ""), ("sdk/src", "wfhost-guest/src/")]);
        let of_go = on_disk("templates/go", "").len() + on_disk("go", "").len() - 1;
        assert_eq!(find(Some(Language::Go), false).ok().unwrap().files().count(), of_go, "all but its README");
        is_whole(Language::Python, true, &[("templates/script-python", "")]);
        let python = on_disk("templates/python", "").len() + on_disk("python/wfhost", "").len();
        let found = find(Some(Language::Python), false).ok().unwrap().files().count();
        assert_eq!(found, python - 1, "all but the engine of scripts");
        let of_zig = on_disk("templates/zig", "").len() + on_disk("zig", "").len() - 1;
        assert_eq!(find(Some(Language::Zig), false).ok().unwrap().files().count(), of_zig, "all but its README");
        is_whole(Language::Js, true, &[("templates/script-js", "")]);
        for (language, folder) in [(Language::Js, "templates/js"), (Language::Ts, "templates/ts")] {
            let package = ["bin", "src", "testing"].map(|one| on_disk(&format!("javascript/{one}"), "").len());
            let of_package = package.iter().sum::<usize>() + 4;
            let found = find(Some(language), false).ok().unwrap().files().count();
            assert_eq!(
                found,
                on_disk(folder, "").len() + of_package,
                "package.json, the types of two modules and the contract too"
            );
        }
        let types = [("templates/script-ts", "")];
        assert_eq!(find(Some(Language::Ts), true).ok().unwrap().files().count(), on_disk(types[0].0, "").len() + 1);
        // Of the folder of an SDK only what a project needs is taken.
        let (c, own) = (find(Some(Language::C), false).ok().unwrap(), on_disk("templates/c", ""));
        assert_eq!(c.files().count(), own.len() + 2);
    }
}
