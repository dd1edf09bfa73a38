//! The cases of a file and their workflow, ready to be executed.

use super::case_file::{Case, CaseFile};
use super::execution::{REAL_TIME_MAX, Stage};
use super::faults::{Faults, search};
use super::judge::judge;
use super::outcome::{CaseResult, SuiteResult};
use crate::guest::Cancellation;
use crate::host::{Host, LoadError, Workflow, read_definition};
use crate::workflow::diagnostics::{Diagnostic, Diagnostics};
use crate::workflow::syntax::Source;
use parking_lot::Mutex;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// How cases are executed.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only cases whose name contains this.
    pub filter: Option<String>,
    /// Only the case of this name.
    pub case: Option<String>,
    /// What each case is executed with, beside its own faults.
    pub faults: Faults,
    /// How often each case is executed again, with faults that a seed draws.
    pub seeds: u64,
    /// The seed of these draws.
    pub seed: u64,
    /// How many cases are executed at one time.
    pub jobs: usize,
    /// Handlers of the host that really carry out their calls, by name.
    pub real: Vec<String>,
    /// The longest real time of one execution.
    pub real_time_max: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            filter: None,
            case: None,
            faults: Faults::default(),
            seeds: 0,
            seed: 1,
            jobs: crate::base::processors(),
            real: Vec::new(),
            real_time_max: REAL_TIME_MAX,
        }
    }
}

/// Why cases cannot be executed.
#[derive(thiserror::Error, Debug)]
#[non_exhaustive]
pub enum SuiteError {
    /// The case file or the workflow cannot be read, or the workflow has problems.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The case file has problems.
    #[error("{0}")]
    Cases(Diagnostics),
    /// There is no workflow beside the case file.
    #[error("{}: there is no workflow {} beside it", file.display(), expected.display())]
    NoWorkflow {
        /// The case file.
        file: PathBuf,
        /// Where its workflow should be.
        expected: PathBuf,
    },
}

/// The cases of a file and their workflow.
pub struct Suite {
    file: CaseFile,
    workflow_file: PathBuf,
    workflow: Workflow,
    host: Host,
}

/// The end of a case file's name.
pub const CASE_FILE_END: &str = ".test.yaml";

/// The case file of a workflow file: `orders.test.yaml` beside `orders.yaml`.
#[must_use]
pub fn case_file_of(workflow: &Path) -> PathBuf {
    let name = workflow.file_stem().unwrap_or_default().to_string_lossy();
    workflow.with_file_name(format!("{name}{CASE_FILE_END}"))
}

/// Whether a file is one of cases, by its name.
#[must_use]
pub fn is_case_file(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with(CASE_FILE_END) || name.ends_with(".test.yml")
}

impl Suite {
    /// Reads a case file and loads its workflow. A host without workers of its own suffices:
    /// [`HostBuilder::workers`](crate::host::HostBuilder::workers) with 1.
    ///
    /// # Errors
    /// Fails if one of the two cannot be read, or has problems.
    pub fn load(host: &Host, path: &Path) -> Result<Self, SuiteError> {
        let text = read_definition(path)?;
        Self::load_text(host, path, &Source::new(&path.to_string_lossy(), &text), &Cancellation::new())
    }

    /// The same for a text that may not be in its file yet.
    pub(crate) fn load_text(
        host: &Host,
        path: &Path,
        source: &Source,
        cancellation: &Cancellation,
    ) -> Result<Self, SuiteError> {
        let file = CaseFile::read(source, host.expressions()).map_err(SuiteError::Cases)?;
        let workflow_file = workflow_of(path, file.workflow.as_ref().map(|named| named.value.as_str()));
        if !workflow_file.exists() {
            let Some(named) = &file.workflow else {
                return Err(SuiteError::NoWorkflow { file: path.to_owned(), expected: workflow_file });
            };
            let mut problems = Diagnostics::new(source.clone());
            let message = format!("there is no file {}", workflow_file.display());
            problems.push(Diagnostic::new("unreadable", message, named.span));
            return Err(SuiteError::Cases(problems));
        }
        let workflow = host.load_until(&workflow_file, cancellation)?;
        Self::new(host, file, workflow_file, workflow)
    }

    /// Takes the text of a case file for a workflow that is loaded. Diagnostics call the text
    /// `name`.
    ///
    /// # Errors
    /// Fails if the text has problems.
    pub fn parse(host: &Host, name: &str, text: &str, workflow: &Workflow) -> Result<Self, SuiteError> {
        let source = Source::new(name, text);
        let file = CaseFile::read(&source, host.expressions()).map_err(SuiteError::Cases)?;
        let workflow_file = PathBuf::from(workflow.source().name());
        Self::new(host, file, workflow_file, workflow.clone())
    }

    fn new(host: &Host, file: CaseFile, workflow_file: PathBuf, workflow: Workflow) -> Result<Self, SuiteError> {
        let schema = |name: &str| host.handler_requirements(name, &Value::Null)?.schema;
        file.check(workflow.plan(), &host.handlers(), &schema).map_err(SuiteError::Cases)?;
        Ok(Self { file, workflow_file, workflow, host: host.clone() })
    }

    /// The cases.
    #[must_use]
    pub fn cases(&self) -> &[Case] {
        &self.file.cases
    }

    /// The case file.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.file.source
    }

    /// The workflow.
    #[must_use]
    pub fn workflow(&self) -> &Workflow {
        &self.workflow
    }

    /// The cases that options select, in file order.
    #[must_use]
    pub fn selected(&self, options: &Options) -> Vec<&Case> {
        let is_wanted = |case: &&Case| {
            let name = &case.name.value;
            options.filter.as_ref().is_none_or(|filter| name.contains(filter.as_str()))
                && options.case.as_ref().is_none_or(|wanted| wanted == name)
        };
        self.file.cases.iter().filter(is_wanted).collect()
    }

    /// Executes the cases. It waits for them, and computes: do not call it in an async task.
    #[must_use]
    pub fn run(&self, options: &Options) -> SuiteResult {
        let cases = self.selected(options);
        let jobs = options.jobs.clamp(1, cases.len().max(1)).min(self.host.guests().slots().max(1) as usize);
        let stage = Stage::new(&self.host, &self.workflow, jobs as u32, &options.real, options.real_time_max);
        let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let work = || {
            while let Some((index, case)) = {
                let index = next.fetch_add(1, Relaxed);
                cases.get(index).map(|case| (index, case))
            } {
                let result = self.one(&stage, case, options);
                results.lock().push((index, result));
            }
        };
        std::thread::scope(|scope| {
            // A machine that gives no thread still has this one.
            for number in 1..jobs {
                let builder = std::thread::Builder::new().name(format!("wfhost-test-{number}"));
                let _ = builder.spawn_scoped(scope, work);
            }
            work();
        });
        let mut results = results.into_inner();
        results.sort_by_key(|(index, _)| *index);
        SuiteResult {
            file: self.file.source.name().to_owned(),
            workflow: self.workflow_file.clone(),
            cases: results.into_iter().map(|(_, result)| result).collect(),
        }
    }

    fn one(&self, stage: &Stage, case: &Case, options: &Options) -> CaseResult {
        let execution = stage.execute(case, &options.faults);
        let has_faults = !options.faults.is_empty() || !case.faults.is_empty();
        let failures = judge(stage, case, &execution, has_faults);
        let passed = failures.is_empty();
        let mut result = CaseResult::new(&self.file.source, case, &execution, failures);
        result.faults = options.faults.to_string();
        let missed = execution.missed.iter().filter(|(fault, _)| options.faults.0.contains(fault));
        result.missed = missed.map(|(fault, why)| (fault.to_string(), why.clone())).collect();
        if !passed || options.seeds == 0 || !case.is_drawn_for || has_faults || execution.story.records == 0 {
            return result;
        }
        match search(stage, case, &execution, (options.seeds, options.seed)) {
            None => result.executions = options.seeds,
            Some(found) => {
                result = CaseResult::new(&self.file.source, case, &found.execution, found.failures);
                (result.faults, result.executions) = (found.faults.to_string(), found.number);
            }
        }
        result
    }
}

/// The workflow file of a case file, which may name it.
pub(crate) fn workflow_of(path: &Path, named: Option<&str>) -> PathBuf {
    match named {
        Some(named) => path.parent().unwrap_or(Path::new("")).join(named),
        None => beside(path),
    }
}

/// The workflow beside a case file.
fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let bare = name.strip_suffix(CASE_FILE_END).or_else(|| name.strip_suffix(".test.yml")).unwrap_or(&name);
    let yaml = path.with_file_name(format!("{bare}.yaml"));
    let yml = path.with_file_name(format!("{bare}.yml"));
    if !yaml.exists() && yml.exists() { yml } else { yaml }
}
