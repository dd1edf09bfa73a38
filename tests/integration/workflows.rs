//! Workflow files: the problems of bad ones, and that the examples are good.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use wfhost::dispatch::http::{Http, HttpConfig};
use wfhost::dispatch::{BlobGet, BlobPut, CallContext, Declaration, Log, Registry, from_inline_fn};
use wfhost::host::HandlerCatalog;
use wfhost::process::LogLine;
use wfhost::workflow::diagnostics::Diagnostics;
use wfhost::workflow::expression::{EngineConfig, Jq};
use wfhost::workflow::model::InlineScript;
use wfhost::workflow::plan::{Environment, GraphStyle, Handlers, Plan, ResolvedComponent, Unchecked, Unusable, load};
use wfhost::workflow::syntax::Source;

fn jq() -> &'static Jq {
    static JQ: OnceLock<Jq> = OnceLock::new();
    JQ.get_or_init(|| Jq::new(EngineConfig::default()).unwrap())
}

/// The handlers of a host that has none of its own.
fn callable() -> &'static HandlerCatalog<'static> {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    static CALLABLE: OnceLock<HandlerCatalog<'static>> = OnceLock::new();
    CALLABLE.get_or_init(|| {
        HandlerCatalog(REGISTRY.get_or_init(|| {
            let log = Log::new(|_: &CallContext, _: LogLine| {});
            let http = Http::new(HttpConfig::default()).unwrap();
            let registry = Registry::builder().handler("http", http).handler("log", log);
            registry.handler("blob.get", BlobGet).handler("blob.put", BlobPut).build().unwrap()
        }))
    })
}

/// A host that has all components.
struct Whole;

impl Environment for Whole {
    fn component(&self, _: &str) -> Result<ResolvedComponent, Unusable> {
        Ok(ResolvedComponent::default())
    }

    fn workflow(&self, path: &str) -> Result<Source, Unusable> {
        let text = std::fs::read_to_string(folder("tests/workflows/bad").join(path));
        let why = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::NotFound => "there is no such file",
            _ => "it is no file",
        };
        let text = text.map_err(|error| Unusable::from((why(error).to_owned(), None)))?;
        Ok(Source::new(path, &text))
    }

    fn handlers(&self) -> Option<&dyn Handlers> {
        Some(callable())
    }
}

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn files(path: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder(path)).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    let is_test = |file: &PathBuf| file.to_string_lossy().ends_with(".test.yaml");
    files.retain(|file| file.extension().is_some_and(|ending| ending == "yaml") && !is_test(file));
    files.sort();
    files
}

fn plan_of(file: &Path, environment: &dyn Environment) -> Result<Plan, Diagnostics> {
    let name = file.file_name().unwrap().to_str().unwrap();
    load(&Source::new(name, &std::fs::read_to_string(file).unwrap()), jq(), environment)
}

/// Each file of the folder has a snapshot of its problems beside it.
#[test]
fn every_problem_of_a_bad_file_is_reported_at_once() {
    let files = files("tests/workflows/bad");
    assert!(files.len() >= 30);
    for file in files {
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let Err(problems) = plan_of(&file, &Whole) else { panic!("{name} has no problem") };
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path(folder("tests/workflows/bad"));
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| insta::assert_snapshot!(name, problems.render(false)));
    }
}

#[test]
fn problems_are_reported_to_programs_too() {
    let text = "steps:\n  - { id: ä, uses: ./a.wasm }\n  - { id: b, use: ./a.wasm }\n";
    let problems = load(&Source::new("x.yaml", text), jq(), &Unchecked).unwrap_err();
    insta::assert_snapshot!(serde_json::to_string_pretty(&problems.to_json()).unwrap());
}

/// What a host finds is reported at its position in the file.
#[test]
fn the_environment_is_asked_for_components_and_handlers() {
    struct Known;
    impl Environment for Known {
        fn component(&self, source: &str) -> Result<ResolvedComponent, Unusable> {
            match source {
                "./good.wasm" => Ok(ResolvedComponent {
                    digest: Some("blake3:00".to_owned()),
                    entries: Some(vec!["run".to_owned(), "resize".to_owned()]),
                    ..ResolvedComponent::default()
                }),
                other => Err((format!("cannot read {other}"), Some("build it first".to_owned())).into()),
            }
        }

        fn handlers(&self) -> Option<&dyn Handlers> {
            Some(callable())
        }
    }
    let text = "
components: { good: ./good.wasm }
steps:
  - { id: a, uses: good, entry: resise }
  - { id: b, uses: ./missing.wasm }
  - { id: c, call: htp, with: { url: https://example.com }, allow: { http: 'GET https://example.com' } }
";
    let problems = load(&Source::new("x.yaml", text), jq(), &Known).unwrap_err();
    insta::assert_snapshot!(problems.render(false));
    let good = text.replace("resise", "resize").replace("missing", "good").replace("htp", "http");
    let plan = load(&Source::new("x.yaml", &good), jq(), &Known).unwrap();
    assert!(plan.components.iter().all(|component| component.digest.as_deref() == Some("blake3:00")));
    assert_eq!(plan.components.len(), 2);
}

/// What a host cannot load may be written as other tools want it.
#[test]
fn actions_and_other_languages_are_told_apart_from_what_is_missing() {
    struct Empty;
    impl Environment for Empty {
        fn component(&self, source: &str) -> Result<ResolvedComponent, Unusable> {
            Err((format!("there is no {source}"), None).into())
        }

        fn script(&self, _: &str, _: &InlineScript, _: &Source) -> Result<ResolvedComponent, Unusable> {
            Err(("Unexpected token".to_owned(), None).into())
        }

        fn handlers(&self) -> Option<&dyn Handlers> {
            None
        }
    }
    let text = "
steps:
  - { id: a, uses: actions/checkout@v4 }
  - { id: c, uses: ./build@2.wasm }
  - id: d
    script: |
      x = [i for i in range(3)]
      return x
  - { id: e, script: 'return input for x' }
  - { id: f, script: { py: 'return [x for x in' } }
";
    let problems = load(&Source::new("x.yaml", text), jq(), &Empty).unwrap_err();
    insta::assert_snapshot!(problems.render(false));
}

#[test]
fn a_plan_survives_its_json_and_its_digest_names_it() {
    let text = "steps: [{ id: a, set: 1 }, { id: b, needs: a, wait: 5s }]";
    let plan = load(&Source::new("x.yaml", text), jq(), &Unchecked).unwrap();
    let again = Plan::from_json(&plan.to_json()).unwrap();
    assert_eq!(plan, again);
    assert_eq!(plan.digest(), again.digest());
    let other = load(&Source::new("x.yaml", &text.replace("5s", "6s")), jq(), &Unchecked).unwrap();
    assert_ne!(plan.digest(), other.digest());
    let later = plan.to_json().replacen("\"version\":1", "\"version\":2", 1);
    assert!(Plan::from_json(&later).unwrap_err().contains("version 2"));
}

#[test]
fn graphs() {
    let text = "
steps:
  - { id: a, uses: ./a.wasm, entry: \"go\\\"<\" }
  - { id: b, call: http, for-each: [1, 2], needs: a }
  - { id: c, wait: 5s, needs: [a] }
  - { id: d, set: 1, needs: [b, c], when: failed }
";
    let plan = load(&Source::new("x.yaml", text), jq(), &Unchecked).unwrap();
    let all = [GraphStyle::Text, GraphStyle::Mermaid, GraphStyle::Dot].map(|style| plan.graph(style));
    insta::assert_snapshot!(all.join("\n"));
}

/// The files that people start from, with the components that they name.
#[test]
fn the_examples_are_good() {
    struct Files(PathBuf);
    impl Environment for Files {
        fn component(&self, source: &str) -> Result<ResolvedComponent, Unusable> {
            let bytes = std::fs::read(self.0.join(source)).map_err(|error| (format!("{source}: {error}"), None))?;
            Ok(ResolvedComponent {
                digest: Some(blake3::hash(&bytes).to_hex().to_string()),
                ..ResolvedComponent::default()
            })
        }

        fn handlers(&self) -> Option<&dyn Handlers> {
            Some(callable())
        }
    }
    let files = files("workflows");
    assert!(files.len() >= 5);
    let mut graphs = String::new();
    for file in files {
        let plan = plan_of(&file, &Files(folder("workflows"))).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(file.file_stem().unwrap().to_str(), Some(&*plan.name));
        graphs.push_str(&format!("{}\n{}\n", plan.name, plan.graph(GraphStyle::Text)));
    }
    insta::assert_snapshot!(graphs);
}

/// An embedder's handlers are checked like our own, by their declarations.
#[test]
fn calls_of_an_embedders_handlers_are_checked_too() {
    struct Mail(HandlerCatalog<'static>);
    impl Environment for Mail {
        fn component(&self, _: &str) -> Result<ResolvedComponent, Unusable> {
            Ok(ResolvedComponent::default())
        }

        fn handlers(&self) -> Option<&dyn Handlers> {
            Some(&self.0)
        }
    }
    let schema = serde_json::json!({
        "type": "object",
        "properties": { "to": { "type": "array", "items": { "type": "string", "minLength": 3 }, "minItems": 1 } },
        "required": ["to"],
        "dependentRequired": { "cc": ["to"] },
    });
    let mail = Declaration::new("Sends a mail").capability("mail").schema(schema);
    let shared = Declaration::new("Anything, by reference").schema(serde_json::json!({
        "$defs": { "n": { "type": "integer" } }, "properties": { "n": { "$ref": "#/$defs/n" } },
    }));
    let registry = Registry::builder()
        .handler("mail", from_inline_fn(mail, |args, _| Ok(args)))
        .handler("shared", from_inline_fn(shared, |args, _| Ok(args)))
        .build()
        .unwrap();
    let host = Mail(HandlerCatalog(Box::leak(Box::new(registry))));
    let text = r#"
inputs: { who: string }
steps:
  - { id: no-grant, call: mail, with: { to: [ ann@example.com ] } }
  - { id: no-star, call: mail, with: { to: [ ann@example.com ] }, allow: { mail: [ "ann@*" ] } }
  - { id: too-short, call: mail, with: { to: [ "${ .inputs.who }", a ] }, allow: { mail: "*" } }
  - { id: empty, call: mail, with: { to: [] }, allow: { mail: "*" } }
  - { id: open, call: mail, with: { to: [ "${ .inputs.who }" ], subject: hello }, allow: { mail: "*" } }
  - { id: good, call: mail, with: "${ .inputs.who }", allow: { mail: "*" } }
  - { id: refers, call: shared, with: { n: x } }
  - { id: refers-later, call: shared, with: { n: "${ .inputs.who }" } }
"#;
    let problems = load(&Source::new("x.yaml", text), jq(), &host).unwrap_err();
    insta::assert_snapshot!(problems.render(false));
}
