//! The configuration file of an operator: settings that would otherwise be flags on every command.
//!
//! It may permit addresses, so a file that other users could change is rejected.

use crate::base::guarded_file;
use crate::cli::args::host::MemoryProfile;
use crate::cli::args::secrets::{self, GivenSecrets};
use crate::cli::args::values::{self, Addresses, CacheDir, InvalidValue};
use crate::cli::report::error::{UserError, kind};
use crate::host::read_definition;
use crate::serve::hook::spec::WebhookSpec;
use crate::workflow::diagnostics::{Diagnostic, Diagnostics, closest};
use crate::workflow::model::{Fields, HandlerBounds, KnownKeys, read_handlers, shorten, texts};
use crate::workflow::syntax::{self, Node, Source};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The variable that names another file.
pub(in crate::cli) const VARIABLE: &str = "WFHOST_CONFIG";

const KEYS: KnownKeys = KnownKeys {
    what: "a configuration file",
    known: &[
        "allow-address",
        "cache",
        "cache-bytes",
        "data",
        "handlers",
        "profile",
        "secrets",
        "slots",
        "webhooks",
        "workers",
    ],
    later: &[],
    foreign: &[
        (&["allow", "allow-addresses", "addresses", "permissions"], "list permitted addresses under `allow-address`"),
        (&["threads", "jobs", "parallel"], "worker threads are set with `workers`"),
        (&["folder", "dir", "data-dir", "data-folder", "journal"], "the folder of durable runs is set with `data`"),
        (&["memory", "memory-profile"], "the memory profile is set with `profile`"),
    ],
};

/// The settings of one source: the environment or a file. Settings that it does not mention are
/// absent.
#[derive(Default)]
pub(in crate::cli) struct Config {
    pub(in crate::cli) allow_addresses: Option<Addresses>,
    pub(in crate::cli) cache: Option<CacheDir>,
    pub(in crate::cli) cache_bytes: Option<u64>,
    pub(in crate::cli) data: Option<PathBuf>,
    /// Bounds on the calls of handlers.
    pub(in crate::cli) handlers: Vec<(String, HandlerBounds)>,
    pub(in crate::cli) profile: Option<MemoryProfile>,
    /// What workflows may use, by the names that they declare.
    pub(in crate::cli) secrets: GivenSecrets,
    pub(in crate::cli) slots: Option<u32>,
    /// The webhooks of a service, by their names.
    pub(in crate::cli) webhooks: BTreeMap<String, WebhookSpec>,
    pub(in crate::cli) workers: Option<usize>,
}

/// The default path of the file: `wfhost/config.yaml` in `$XDG_CONFIG_HOME` or `~/.config`. `None`
/// without a home directory.
pub(in crate::cli) fn default_path() -> Option<PathBuf> {
    let absolute = |dir: PathBuf| dir.is_absolute().then_some(dir);
    let base = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).and_then(absolute);
    let base = base.or_else(|| std::env::home_dir().and_then(absolute).map(|home| home.join(".config")))?;
    Some(base.join("wfhost").join("config.yaml"))
}

/// Reads a configuration file: every problem of it is reported, with its place.
///
/// # Errors
/// It cannot be read, others may write to it, or it has problems.
pub(in crate::cli) fn read(path: &Path) -> Result<Config, UserError> {
    let text = read_definition(path).map_err(UserError::from)?;
    guarded_file(path, rustix::process::geteuid().as_raw()).map_err(|why| {
        let title = format!("the configuration file is not used, because others could change it: {why}");
        UserError::new(kind::USAGE, title)
            .hint(format!("it can permit addresses, so it must be yours alone: chmod go-w {}", path.display()))
    })?;
    let mut problems = Diagnostics::new(Source::new(&path.to_string_lossy(), &text));
    let source = problems.source().clone();
    let root = syntax::parse(&source, &mut problems);
    let config = root.map(|root| read_tree(&root, path.parent().unwrap_or(Path::new(".")), &mut problems));
    problems.into_result().map_err(UserError::of_definition)?;
    Ok(config.unwrap_or_default())
}

fn read_tree(root: &Node, folder: &Path, problems: &mut Diagnostics) -> Config {
    let mut config = Config::default();
    if root.is_null() {
        return config;
    }
    let Some(fields) = Fields::read(root, &KEYS, problems) else { return config };
    if let Some(node) = fields.get("allow-address") {
        config.allow_addresses = Some(addresses(node, problems));
    }
    config.cache = fields.get("cache").and_then(|node| match node.as_text() {
        Some("") => Some(CacheDir(None)),
        _ => path(node, "cache", folder, problems).map(|path| CacheDir(Some(path))),
    });
    config.cache_bytes = fields.get("cache-bytes").and_then(|node| parsed(node, "cache-bytes", problems, values::size));
    config.data = fields.get("data").and_then(|node| path(node, "data", folder, problems));
    if let Some(node) = fields.get("handlers") {
        config.handlers = handlers(node, problems);
    }
    config.profile = fields.get("profile").and_then(|node| parsed(node, "profile", problems, profile));
    if let Some(node) = fields.get("secrets") {
        config.secrets = secrets::read(node, folder, problems);
    }
    config.slots = fields.get("slots").and_then(|node| parsed(node, "slots", problems, values::slots));
    if let Some(node) = fields.get("webhooks") {
        config.webhooks = webhooks(node, problems);
    }
    config.workers = fields.get("workers").and_then(|node| parsed(node, "workers", problems, values::workers));
    config
}

/// Bounds on the calls of handlers, by their names.
fn handlers(node: &Node, problems: &mut Diagnostics) -> Vec<(String, HandlerBounds)> {
    read_handlers(node, problems).into_iter().map(|(name, bounds)| (name.value, bounds)).collect()
}

fn addresses(node: &Node, problems: &mut Diagnostics) -> Addresses {
    let mut all = Addresses::default();
    for (text, span) in texts(node, "allow-address", problems) {
        match values::addresses(text) {
            Ok(more) => all.0.extend(more.0),
            Err(why) => problems.push(Diagnostic::new("value", why.message, span).hint(why.hint)),
        }
    }
    all
}

/// The webhooks of a service. Their expressions are checked when the service starts.
fn webhooks(node: &Node, problems: &mut Diagnostics) -> BTreeMap<String, WebhookSpec> {
    let Some(entries) = node.as_mapping() else {
        let message = format!("`webhooks` has webhooks by their names, and is not {}", node.kind());
        let hint = "webhooks: { orders: { starts: order, verify: { … } } }";
        problems.push(Diagnostic::new("type", message, node.span).hint(hint));
        return BTreeMap::new();
    };
    let mut webhooks = BTreeMap::new();
    for entry in entries {
        let refuse = |why: &str| {
            Diagnostic::new("webhook", format!("`webhooks.{}`: {why}", shorten(&entry.key)), entry.key_span)
        };
        let spec = match entry.value.to_json() {
            Ok(spec) => serde_json::from_value(spec).map_err(|error| refuse(&error.to_string())),
            Err((_, why)) => Err(refuse(why)),
        };
        match spec {
            Ok(spec) => _ = webhooks.insert(entry.key.clone(), spec),
            Err(problem) => problems.push(problem),
        }
    }
    webhooks
}

/// The value of a scalar, read as the flag of that name is.
fn parsed<T>(
    node: &Node,
    what: &str,
    problems: &mut Diagnostics,
    parse: impl Fn(&str) -> Result<T, InvalidValue>,
) -> Option<T> {
    let Some(scalar) = node.as_scalar() else {
        let message = format!("`{what}` is a single value, not {}", node.kind());
        problems.push(Diagnostic::new("type", message, node.span));
        return None;
    };
    let refuse = |why: InvalidValue| {
        let message = format!("`{what}: {}`: {}", shorten(&scalar.text), why.message);
        problems.push(Diagnostic::new("value", message, node.span).hint(why.hint));
    };
    parse(&scalar.text).map_err(refuse).ok()
}

/// A folder: relative ones are taken from the file's folder, `~/` is the user's home.
fn path(node: &Node, what: &str, folder: &Path, problems: &mut Diagnostics) -> Option<PathBuf> {
    let text = parsed(node, what, problems, |text| match text {
        "" => Err(InvalidValue::new("an empty path is no folder", "omit the key for the default")),
        text => Ok(text.to_owned()),
    })?;
    match text.strip_prefix("~/").zip(std::env::home_dir()) {
        Some((rest, home)) => Some(home.join(rest)),
        None => Some(folder.join(text)),
    }
}

/// `profile`.
pub(in crate::cli) fn profile(text: &str) -> Result<MemoryProfile, InvalidValue> {
    let known = [("fast", MemoryProfile::Fast), ("dense", MemoryProfile::Dense)];
    let found = known.iter().find(|(name, _)| *name == text).map(|(_, profile)| *profile);
    found.ok_or_else(|| {
        let hint = match closest(text, known.iter().map(|(name, _)| *name)) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "it is `fast`, the default, or `dense`".to_owned(),
        };
        InvalidValue::new("there is no such memory profile", hint)
    })
}
