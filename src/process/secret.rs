//! Secrets as a process sees them: placeholders, which only the handler of a request replaces.

use super::Grants;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The key of [`Grants`] under which the secrets of a process are. No capability of a handler can
/// have this name, so no `allow` of a workflow file can hold it.
pub const CAPABILITY: &str = "wfhost:secrets";

/// The text that every placeholder begins with. Its name and its digits follow; all characters are
/// those that a URL has unchanged.
pub const PREFIX: &str = "wfhost-secret-";

/// The hexadecimal digits that a placeholder ends with: 128 bits.
pub const DIGITS: usize = 32;

/// Bytes of a secret's name at most. Arbitrary.
pub const NAME_BYTES_MAX: usize = 64;

/// What a process may do with a secret.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct SecretGrant {
    /// The name that the workflow declares.
    pub name: String,
    /// The text that stands for the value in this run.
    pub placeholder: String,
    /// The hosts that may receive it, as the workflow declares them.
    pub hosts: Vec<String>,
    /// The header fields that may hold it, in lower case.
    pub headers: Vec<String>,
}

impl SecretGrant {
    /// Reads the secrets that grants contain.
    #[must_use]
    pub fn all(grants: &Grants) -> Vec<Self> {
        let patterns = grants.of(CAPABILITY).unwrap_or_default();
        patterns.iter().filter_map(|pattern| serde_json::from_str(pattern).ok()).collect()
    }

    /// Adds secrets to grants, in place of those that they contain.
    #[must_use]
    pub fn add(secrets: &[Self], grants: &Grants) -> Grants {
        let mut all: BTreeMap<_, _> = (*grants.0).clone();
        let text = |secret: &Self| serde_json::to_string(secret).expect("invariant: a grant has string keys only");
        all.insert(CAPABILITY.to_owned(), secrets.iter().map(text).collect());
        Grants(Arc::new(all))
    }
}

/// Makes the placeholders of a run: the same ones in every replay, and in the runs that repeat it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlaceholderKey([u8; 32]);

impl PlaceholderKey {
    /// The key of a run with this seed. It does not reveal the seed.
    #[must_use]
    pub fn of_seed(seed: &[u8; 32]) -> Self {
        Self(blake3::derive_key("wfhost 0.1.0 placeholders of secrets", seed))
    }

    /// The placeholder of a secret.
    #[must_use]
    pub fn placeholder(&self, name: &str) -> String {
        let hash = blake3::keyed_hash(&self.0, name.as_bytes()).to_hex();
        format!("{PREFIX}{name}-{}", &hash[..DIGITS])
    }

    /// Writes the key as text.
    #[must_use]
    pub fn to_text(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }

    /// Reads what [`Self::to_text`] writes; `None` if it is something else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        blake3::Hash::from_hex(text).ok().map(|hash| Self(*hash.as_bytes()))
    }
}

/// Returns whether a secret can have this name: a letter or `_`, then letters, digits and `_`.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && name.len() <= NAME_BYTES_MAX && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_depend_on_the_run_and_the_name_and_show_neither() {
        let key = PlaceholderKey::of_seed(&[7; 32]);
        let text = key.placeholder("S3_KEY");
        assert_eq!(text.len(), PREFIX.len() + "S3_KEY-".len() + DIGITS);
        assert_eq!(text, PlaceholderKey::of_seed(&[7; 32]).placeholder("S3_KEY"));
        assert_ne!(text[text.len() - DIGITS..], key.placeholder("OTHER")[PREFIX.len() + "OTHER-".len()..]);
        assert_ne!(text, PlaceholderKey::of_seed(&[8; 32]).placeholder("S3_KEY"));
        assert_eq!(PlaceholderKey::parse(&key.to_text()), Some(key.clone()));
        assert_ne!(key.0, [7; 32]);
        assert_eq!(PlaceholderKey::parse("x"), None);
    }

    #[test]
    fn grants_hold_secrets_beside_other_capabilities() {
        let grants = Grants(Arc::new(BTreeMap::from([("http".to_owned(), vec!["*".to_owned()])])));
        let secret = SecretGrant {
            name: "KEY".to_owned(),
            placeholder: "wfhost-secret-KEY-0".to_owned(),
            hosts: vec!["a.example".to_owned()],
            headers: vec!["cookie".to_owned()],
        };
        let all = SecretGrant::add(std::slice::from_ref(&secret), &grants);
        assert_eq!((SecretGrant::all(&all), all.of("http")), (vec![secret], grants.of("http")));
        assert_eq!(SecretGrant::all(&grants), []);
    }

    #[test]
    fn names_are_those_of_variables() {
        for good in ["A", "_a", "S3_KEY", "token2"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "2a", "a-b", "a.b", "ä", &"a".repeat(65)] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
