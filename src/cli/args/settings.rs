//! Where the settings of a host come from: a flag, else a variable of the environment, else the
//! configuration file, else the default. Each setting is taken whole from the first of them that
//! mentions it.

use crate::base::processors;
use crate::cli::args::config::Config;
use crate::cli::args::data::DataArguments;
use crate::cli::args::host::{CacheArguments, EngineArguments, HostArguments, MemoryProfile};
use crate::cli::args::values::{Addresses, CacheDir, InvalidValue, SLOTS_DEFAULT};
use crate::cli::args::{config, secrets, values};
use crate::cli::report::error::{UserError, kind};
use crate::cli::terminal::quoted;
use crate::journal::CacheBounds;
use crate::serve::hook::spec::WebhookSpec;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// The sources of a setting that neither a flag nor a variable has.
const FILE: &str = "configuration file";
const DEFAULT: &str = "default";

/// The arguments of a command that settings can fill in.
#[derive(Default)]
pub(in crate::cli) struct Unset<'a> {
    pub(in crate::cli) data: Option<&'a mut DataArguments>,
    pub(in crate::cli) host: Option<&'a mut HostArguments>,
    pub(in crate::cli) cache: Option<&'a mut CacheArguments>,
    pub(in crate::cli) webhooks: Option<&'a mut BTreeMap<String, WebhookSpec>>,
}

/// The settings in effect for a command, each with its source.
pub(in crate::cli) struct Settings {
    environment: Config,
    file: Config,
    /// The configuration file, and whether it exists. `None` if it is not to be read.
    path: Option<(PathBuf, bool)>,
    /// Key, value and source.
    rows: Vec<(&'static str, Value, &'static str)>,
}

impl Settings {
    /// No settings, for a command that has none.
    pub(in crate::cli) fn none() -> Self {
        Self { environment: Config::default(), file: Config::default(), path: None, rows: Vec::new() }
    }

    /// Reads the environment and the configuration file, the one that is `named` on the command
    /// line if any.
    ///
    /// # Errors
    /// A variable cannot be used, or the configuration file. If `goes_on`, that file is ignored and
    /// its error is returned with the rest.
    pub(in crate::cli) fn read(named: Option<PathBuf>, goes_on: bool) -> Result<(Self, Option<UserError>), UserError> {
        let named = named.or_else(|| std::env::var_os(config::VARIABLE).map(PathBuf::from));
        let is_named = named.is_some();
        let path = named.or_else(config::default_path).filter(|path| !path.as_os_str().is_empty());
        let path = path.map(|path| (is_named || path.exists(), path)).map(|(is_there, path)| (path, is_there));
        let (file, unusable) = match &path {
            Some((path, true)) => match config::read(path) {
                Ok(file) => (file, None),
                Err(refused) if goes_on => (Config::default(), Some(refused)),
                Err(refused) => return Err(refused),
            },
            _ => (Config::default(), None),
        };
        let environment = environment(|name| std::env::var_os(name))?;
        Ok((Self { environment, file, path, rows: Vec::new() }, unusable))
    }

    /// Fills in what the flags of a command do not set.
    ///
    /// # Errors
    /// The addresses of several flags contradict each other.
    pub(in crate::cli) fn fill(&mut self, unset: Unset<'_>) -> Result<(), UserError> {
        let Unset { data, host, cache, webhooks } = unset;
        if let Some(webhooks) = webhooks {
            *webhooks = std::mem::take(&mut self.file.webhooks);
        }
        if let Some(cache) = cache {
            self.cache(cache);
        }
        if let Some(data) = data {
            self.data(data);
        }
        host.map_or(Ok(()), |host| self.host(host))
    }

    fn host(&mut self, host: &mut HostArguments) -> Result<(), UserError> {
        let flags = std::mem::take(&mut host.allow);
        let given = (!flags.is_empty())
            .then(|| Addresses::of_flags(flags))
            .transpose()
            .map_err(|why| of_flag("--allow-address", why))?;
        host.chosen_addresses = given.is_some();
        let (environment, file) = (self.environment.allow_addresses.take(), self.file.allow_addresses.take());
        let show = |all: &Option<Addresses>| all.as_ref().map_or(json!([]), |all| json!(all.texts()));
        let addresses = self.choose("allow-address", given, environment, file, show);
        host.allow_addresses = addresses.unwrap_or_default().0;
        host.handlers = std::mem::take(&mut self.file.handlers);
        let show = |workers: &Option<usize>| json!(workers.unwrap_or_else(processors));
        let (environment, file) = (self.environment.workers, self.file.workers);
        host.workers = self.choose("workers", host.workers, environment, file, show);
        let show = |bytes: &Option<u64>| json!(bytes.unwrap_or(CacheBounds::default().bytes));
        let (environment, file) = (self.environment.cache_bytes, self.file.cache_bytes);
        host.cached.cache_bytes = self.choose("cache-bytes", host.cached.cache_bytes, environment, file, show);
        self.engine(&mut host.engine);
        self.secrets(host)
    }

    /// The secrets of the file, and those of the flags, which come before. A process that has
    /// secrets leaves no core dump.
    fn secrets(&mut self, host: &mut HostArguments) -> Result<(), UserError> {
        let source = match (host.secret.is_empty(), self.file.secrets.is_empty()) {
            (false, _) => "flag",
            (true, false) => FILE,
            (true, true) => DEFAULT,
        };
        host.secrets = std::mem::take(&mut self.file.secrets);
        host.secrets.extend(std::mem::take(&mut host.secret));
        self.rows.push(("secrets", json!(host.secrets.keys().collect::<Vec<_>>()), source));
        secrets::store(&host.secrets).map_err(|why| UserError::new(kind::USAGE, format!("--secret: {why}")))?;
        if host.secrets.is_empty() {
            return Ok(());
        }
        let refused = |error| {
            let title = format!("core dumps cannot be turned off, and one would have the secrets in it: {error}");
            UserError::new(kind::HOST_FAULT, title)
        };
        crate::base::forbid_core_dumps().map_err(refused)
    }

    fn engine(&mut self, engine: &mut EngineArguments) {
        let (environment, file) = (self.environment.slots, self.file.slots);
        engine.slots =
            self.choose("slots", engine.slots, environment, file, |slots| json!(slots.unwrap_or(SLOTS_DEFAULT)));
        let show = |profile: &Option<MemoryProfile>| json!(profile.map_or("fast", MemoryProfile::name));
        let (environment, file) = (self.environment.profile, self.file.profile);
        engine.profile = self.choose("profile", engine.profile, environment, file, show);
        self.cache(&mut engine.cache);
    }

    fn cache(&mut self, cache: &mut CacheArguments) {
        let (environment, file) = (self.environment.cache.take(), self.file.cache.take());
        let show = |cache: &Option<CacheDir>| match cache {
            Some(CacheDir(Some(folder))) => json!(folder),
            Some(CacheDir(None)) => json!("none"),
            None => json!(crate::guest::EngineOptions::default().cache_dir),
        };
        cache.cache = self.choose("cache", cache.cache.take(), environment, file, show);
    }

    /// The folder of durable runs where no flag names one.
    pub(in crate::cli) fn default_data() -> Result<DataArguments, UserError> {
        let named = std::env::var_os(config::VARIABLE).map(PathBuf::from);
        let path = named.or_else(config::default_path).filter(|path| path.exists());
        let file = path.map_or_else(|| Ok(Config::default()), |path| config::read(&path))?;
        let data = environment(|name| std::env::var_os(name))?.data.or(file.data);
        Ok(DataArguments { data, is_flag: false })
    }

    fn data(&mut self, data: &mut DataArguments) {
        let (environment, file) = (self.environment.data.take(), self.file.data.take());
        let show = |folder: &Option<PathBuf>| json!(DataArguments { data: folder.clone(), is_flag: false }.folder());
        data.is_flag = data.data.is_some();
        data.data = self.choose("data", data.data.take(), environment, file, show);
    }

    /// The first of the three that is set; the setting in effect is noted for `doctor`.
    fn choose<T>(
        &mut self,
        key: &'static str,
        flag: Option<T>,
        environment: Option<T>,
        file: Option<T>,
        show: impl Fn(&Option<T>) -> Value,
    ) -> Option<T> {
        let source = match (&flag, &environment, &file) {
            (Some(_), _, _) => "flag",
            (_, Some(_), _) => variable(key),
            (_, _, Some(_)) => FILE,
            _ => DEFAULT,
        };
        let chosen = flag.or(environment).or(file);
        self.rows.push((key, show(&chosen), source));
        chosen
    }

    /// For `doctor`: the file, and each setting with its value and where it comes from.
    pub(in crate::cli) fn to_json(&self) -> Value {
        let mut all = json!({});
        all["file"] = match &self.path {
            Some((path, true)) => json!(std::path::absolute(path).unwrap_or_else(|_| path.clone())),
            Some((path, false)) => json!(format!("none ({} is not there)", path.display())),
            None => json!("none"),
        };
        for (key, value, source) in &self.rows {
            all[*key] = json!({ "value": value, "from": source });
        }
        all
    }
}

/// The variables that stand in for flags.
const VARIABLES: [(&str, &str); 7] = [
    ("allow-address", "WFHOST_ALLOW_ADDRESS"),
    ("cache", "WFHOST_CACHE"),
    ("cache-bytes", "WFHOST_CACHE_BYTES"),
    ("data", "WFHOST_DATA"),
    ("profile", "WFHOST_PROFILE"),
    ("slots", "WFHOST_SLOTS"),
    ("workers", "WFHOST_WORKERS"),
];

fn variable(key: &str) -> &'static str {
    VARIABLES.iter().find(|(known, _)| *known == key).map_or("", |(_, variable)| variable)
}

/// The settings of the environment. An empty variable counts as absent, except for the cache, where
/// it means that none is stored.
fn environment(get: impl Fn(&str) -> Option<OsString>) -> Result<Config, UserError> {
    let value = |key| get(variable(key)).filter(|value| !value.is_empty());
    Ok(Config {
        allow_addresses: parsed("allow-address", &value, values::addresses)?,
        cache: get(variable("cache")).map(CacheDir::from),
        cache_bytes: parsed("cache-bytes", &value, values::size)?,
        data: value("data").map(PathBuf::from),
        profile: parsed("profile", &value, config::profile)?,
        slots: parsed("slots", &value, values::slots)?,
        secrets: BTreeMap::new(),
        handlers: Vec::new(),
        webhooks: BTreeMap::new(),
        workers: parsed("workers", &value, values::workers)?,
    })
}

fn parsed<T>(
    key: &'static str,
    value: &impl Fn(&'static str) -> Option<OsString>,
    parse: impl Fn(&str) -> Result<T, InvalidValue>,
) -> Result<Option<T>, UserError> {
    let Some(text) = value(key) else { return Ok(None) };
    let text = text.to_string_lossy();
    parse(&text).map(Some).map_err(|why| of_flag(&format!("{}={}", variable(key), quoted(&text)), why))
}

fn of_flag(what: &str, InvalidValue { message, hint }: InvalidValue) -> UserError {
    UserError::new(kind::USAGE, format!("{what}: {message}")).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Config, String> {
        let get = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        environment(get).map_err(|refused| refused.title)
    }

    #[test]
    fn variables_are_read_as_flags_are() {
        let all = read(&[("WFHOST_ALLOW_ADDRESS", "localhost, 10.0.0.0/8 ::1"), ("WFHOST_SLOTS", "2")]).unwrap();
        assert_eq!(all.allow_addresses.unwrap().texts(), ["localhost", "10.0.0.0/8", "::1"]);
        assert_eq!((all.slots, all.workers), (Some(2), None));
        assert_eq!(read(&[("WFHOST_WORKERS", "x")]).err().unwrap(), "WFHOST_WORKERS=x: this is not a whole number");
        assert_eq!(read(&[("WFHOST_SLOTS", "")]).unwrap().slots, None);
        assert_eq!(read(&[("WFHOST_CACHE", "")]).unwrap().cache, Some(CacheDir(None)));
        assert!(read(&[("WFHOST_ALLOW_ADDRESS", "none")]).unwrap().allow_addresses.unwrap().0.is_empty());
        assert!(read(&[("WFHOST_ALLOW_ADDRESS", "none,::1")]).is_err());
    }
}
