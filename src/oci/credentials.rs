//! Credentials, from the file that the tools for containers share.
//!
//! `$REGISTRY_AUTH_FILE`, else `config.json` in `$DOCKER_CONFIG`, else `~/.docker/config.json`. An
//! entry of `auths` holds a name and a password in base64. Credential helpers are programs, and are
//! not started.

use super::RegistryError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Bytes of the file at most. Arbitrary.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// How the file names the registry of Docker Hub.
const DOCKER_HUB: [&str; 3] = ["https://index.docker.io/v1/", "index.docker.io", "docker.io"];

/// The file, if the environment names one or there is a home.
pub(super) fn file() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("REGISTRY_AUTH_FILE")
        .or_else(|| set("DOCKER_CONFIG").map(|folder| folder.join("config.json")))
        .or_else(|| std::env::home_dir().map(|home| home.join(".docker/config.json")))
}

/// Returns the header field `authorization` for a registry; `None` if the file has no entry for it.
///
/// # Errors
/// The file cannot be read, or has a helper for the registry in place of a password.
pub(super) fn basic(file: &Path, registry: &str) -> Result<Option<String>, RegistryError> {
    let wrong = |what: &str| RegistryError::new(format!("{}: {what}", file.display()));
    let mut text = String::new();
    match std::fs::File::open(file) {
        Ok(opened) => {
            opened.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|error| wrong(&error.to_string()))?;
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(&error.to_string())),
    }
    let config: Value = serde_json::from_str(&text).map_err(|error| wrong(&format!("it is not JSON: {error}")))?;
    for name in names(registry) {
        if let Some(auth) = config["auths"][&name]["auth"].as_str().filter(|auth| !auth.is_empty()) {
            let is_pair = STANDARD.decode(auth).is_ok_and(|pair| pair.contains(&b':'));
            return if is_pair {
                Ok(Some(format!("Basic {auth}")))
            } else {
                Err(wrong(&format!("the entry of {name} is not a name and a password in base64")))
            };
        }
    }
    let helper = names(registry).find_map(|name| config["credHelpers"][&name].as_str().map(str::to_owned));
    let stored = names(registry).any(|name| config["auths"].get(&name).is_some());
    let helper = helper.or_else(|| config["credsStore"].as_str().filter(|_| stored).map(str::to_owned));
    match helper {
        Some(helper) => Err(wrong(&format!("the credentials of {registry} are kept by the helper `{helper}`"))
            .with_hint("helpers are not supported: name a file with an `auth` by REGISTRY_AUTH_FILE, as `podman login --authfile` writes it")),
        None => Ok(None),
    }
}

/// The names under which a registry's entry may stand.
fn names(registry: &str) -> impl Iterator<Item = String> {
    let is_hub = ["docker.io", "index.docker.io", "registry-1.docker.io"].contains(&registry);
    let hub = DOCKER_HUB.iter().map(ToString::to_string).filter(move |_| is_hub);
    [
        registry.to_owned(),
        format!("https://{registry}"),
        format!("https://{registry}/v1/"),
        format!("https://{registry}/v2/"),
    ]
    .into_iter()
    .chain(hub)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look_up(config: &str, registry: &str) -> Result<Option<String>, RegistryError> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.json");
        std::fs::write(&file, config).unwrap();
        basic(&file, registry)
    }

    #[test]
    fn an_entry_is_found_by_its_registry_alone() {
        let config =
            r#"{"auths": {"localhost:5000": {"auth": "YTpi"}, "https://index.docker.io/v1/": {"auth": "Yzpk"}}}"#;
        assert_eq!(look_up(config, "localhost:5000").unwrap().unwrap(), "Basic YTpi");
        assert_eq!(look_up(config, "registry-1.docker.io").unwrap().unwrap(), "Basic Yzpk");
        for other in ["localhost", "localhost:5001", "evil.example", "index.docker.io.evil.example"] {
            assert_eq!(look_up(config, other).unwrap(), None, "{other}");
        }
        assert_eq!(basic(Path::new("/no/such/file"), "a").unwrap(), None);
    }

    #[test]
    fn what_cannot_be_used_is_told() {
        for (config, expected) in [
            ("{", "not JSON"),
            (r#"{"auths": {"a.io": {"auth": "x"}}}"#, "not a name and a password"),
            (r#"{"auths": {"a.io": {}}, "credsStore": "desktop"}"#, "helper `desktop`"),
            (r#"{"credHelpers": {"a.io": "ecr-login"}}"#, "helper `ecr-login`"),
        ] {
            let error = look_up(config, "a.io").unwrap_err();
            assert!(error.message.contains(expected), "{}", error.message);
        }
        // A helper of other registries does not matter.
        assert_eq!(look_up(r#"{"credsStore": "desktop"}"#, "a.io").unwrap(), None);
    }
}
