//! `wfhost schema`.

use crate::cli::exit::Exit;
use crate::cli::terminal::print_json;
use crate::workflow::model::keys::json_schema;
use clap::Args;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  wfhost schema > workflow.schema.json
  wfhost schema --tests > tests.schema.json

It is JSON Schema, draft 2020-12. An editor that knows it completes keys, shows what they mean, and marks what has the \
wrong form; in a file this comment names it to the YAML language server:

  # yaml-language-server: $schema=workflow.schema.json

`wfhost validate` checks more: references, expressions, components; `wfhost lsp` does so in an editor.")]
pub(in crate::cli) struct Arguments {
    /// The schema of files of tests, NAME.test.yaml.
    #[arg(long)]
    tests: bool,
}

pub(in crate::cli) fn schema(command: &Arguments) -> anyhow::Result<Exit> {
    let schema = if command.tests { crate::testing::case_file::keys::json_schema() } else { json_schema() };
    print_json(&schema)?;
    Ok(Exit::Success)
}
