//! Scripts as steps: from files, inline, with modules; durable, evicted, restored from images.

mod cases;
mod durable;
mod hostile;
mod images;

use crate::support::builder;
use serde_json::{Map, Value, json};
use std::path::Path;
use wfhost::host::{Host, LoadError, Outcome, RunOptions, Workflow};

/// A folder with these files.
struct Project(tempfile::TempDir);

impl Project {
    fn new(files: &[(&str, &str)]) -> Self {
        let project = Self(tempfile::tempdir().unwrap());
        for (path, text) in files {
            project.write(path, text);
        }
        project
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn load(&self, host: &Host) -> Result<Workflow, LoadError> {
        let text = std::fs::read_to_string(self.path().join("flow.yaml")).unwrap();
        host.parse("flow.yaml", &text, self.path())
    }

    #[track_caller]
    fn workflow(&self, host: &Host) -> Workflow {
        self.load(host).unwrap_or_else(|error| panic!("{error}"))
    }

    #[track_caller]
    fn run(&self, host: &Host) -> Outcome {
        host.start(&self.workflow(host), Map::new(), RunOptions::default()).unwrap().wait()
    }

    /// The outputs of its run.
    #[track_caller]
    fn outputs(&self, host: &Host) -> Value {
        crate::support::outputs(&self.run(host))
    }

    /// Why it is not run.
    #[track_caller]
    fn problems(&self, host: &Host) -> String {
        match self.load(host) {
            Err(LoadError::Definition(problems)) => problems.render(false),
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("it is loaded"),
        }
    }
}

#[test]
fn a_file_and_an_inline_script_are_steps() {
    let project = Project::new(&[
        (
            "flow.yaml",
            "components: { order: { source: order.js, limits: { memory: 32MiB } } }
steps:
  - { id: order, uses: order, with: { lines: [ { price: 2, qty: 3 }, { price: 1, qty: 4 } ] } }
  - { id: other, uses: ./order.js, entry: count, with: [ 1, 2, 3 ] }
  - id: twice
    with: { sum: '${ .steps.order.output.sum }' }
    script: |
      // ${ this } is no expression
      return `${input.sum * 2}`;
outputs: { all: '${ [.steps.order.output, .steps.other.output, .steps.twice.output] }' }
",
        ),
        (
            "order.js",
            "import { total } from './lib/prices.js';
export async function run(ctx, input) {
  await ctx.sleep(1);
  return { sum: total(input.lines) };
}
export const count = (ctx, input) => input.length;
",
        ),
        (
            "lib/prices.js",
            "export const total = (lines) => lines.reduce((sum, line) => sum + line.price * line.qty, 0);",
        ),
    ]);
    let host = builder(2, 4).build().unwrap();
    assert_eq!(project.outputs(&host)["all"], json!([{ "sum": 10 }, 3, "20"]));
    let plan = project.workflow(&host);
    assert_eq!(plan.plan().node("twice").unwrap().action.key(), "script");
    // Another source is another digest, and what was not changed keeps its own.
    let digests = |workflow: &Workflow| -> Vec<_> {
        workflow.plan().components.iter().map(|component| component.digest.clone().unwrap()).collect()
    };
    let before = digests(&plan);
    project.write("lib/prices.js", "export const total = () => 7;");
    let after = digests(&project.workflow(&host));
    assert_eq!(project.outputs(&host)["all"], json!([{ "sum": 7 }, 3, "14"]));
    assert_ne!(before[0], after[0]);
    assert_eq!(before[2], after[2]);
}

#[test]
fn types_are_left_out_of_typescript() {
    let project = Project::new(&[
        (
            "flow.yaml",
            "steps:
  - { id: a, uses: ./a.ts, with: 3 }
  - { id: b, script: { ts: 'const x: number = input; return x + 1;' }, with: '${ .steps.a.output }' }
outputs: { b: '${ .steps.b.output }' }
",
        ),
        (
            "a.ts",
            "import { Kind, twice } from './b.ts';
interface Input { n: number }
export default async function (ctx: unknown, input: number): Promise<number> {
  return twice(input as number) + Kind.Large;
}
",
        ),
        (
            "b.ts",
            "export enum Kind { Small, Large }\nexport const twice = <T extends number>(n: T): number => n * 2;\n",
        ),
    ]);
    let host = builder(1, 2).build().unwrap();
    assert_eq!(project.outputs(&host)["b"], json!(8));
    project.write("b.ts", "export enum Kind { Small, Large }\nexport const twice = (n: number) => { let = ; };\n");
    let problems = project.problems(&host);
    assert!(problems.contains("b.ts:2:"), "{problems}");
}

#[test]
fn what_a_script_lacks_is_told_before_it_runs() {
    let project = Project::new(&[
        (
            "flow.yaml",
            "steps:
  - { id: a, uses: ./a.js, entry: rum }
  - { id: b, uses: ./missing.js }
  - { id: c, uses: ../c.js }
  - id: d
    script: |

      const ready = 1;
        return ready +;
  - { id: e, uses: ./e.mjs }
  - { id: f, script: ./a.js }
  - { id: g, script: { js: 'return 1', py: 'return 1' } }
  - { id: h, script: '' }
  - { id: i, uses: ./i.js }
",
        ),
        ("a.js", "export function run() {}\n"),
        ("e.mjs", "export function run() {\n  const x = ;\n}\n"),
        ("i.js", "import './none.js';\nexport function run() {}\n"),
    ]);
    let host = builder(1, 2).build().unwrap();
    insta::assert_snapshot!(project.problems(&host));
}

#[test]
fn a_failure_names_its_place() {
    let project = Project::new(&[
        ("flow.yaml", "steps:\n  - id: a\n    with: {}\n    script: |\n      return await\n        input.x.y;\n"),
        ("other.js", "export function run(ctx, input) { throw new Error('no') }\n"),
    ]);
    let host = builder(1, 2).build().unwrap();
    let cause = crate::support::cause(&project.run(&host));
    assert_eq!(cause["kind"], "exception");
    assert_eq!(cause["data"]["at"]["path"], "flow.yaml");
    let excerpt = project.workflow(&host).excerpt(&cause["data"]).unwrap();
    assert_eq!(&excerpt.text[excerpt.span.range()], "input");
    project.write("flow.yaml", "steps: [ { id: a, uses: ./other.js } ]\n");
    let cause = crate::support::cause(&project.run(&host));
    let excerpt = project.workflow(&host).excerpt(&cause["data"]).unwrap();
    assert_eq!(excerpt.file, "other.js");
    assert!(excerpt.text[excerpt.span.range()].starts_with(['n', 'E', 't']), "{excerpt:?}");
}
