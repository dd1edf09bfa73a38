//! Tokens: `wfh_<id>_<secret>_<check>`.
//!
//! The secret is 256 random bits in base64url; at rest there is only its SHA-256, which is right
//! for a secret that cannot be guessed. The check lets scanners for leaked secrets tell a token
//! from a text that looks like one. A token is looked up by its id and compared in constant time.

use super::{Caller, Scope};
use crate::base::text::steers;
use crate::journal::StoreError;
use crate::journal::catalog::{Catalog, StoredToken};
use crate::process::Timestamp;
use crate::run::system_time;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What every token begins with.
const PREFIX: &str = "wfh_";

/// How long a token that was read is taken for what the journal has: so long a revoked one may
/// still work.
const FRESH: Duration = Duration::from_secs(1);

/// How often the last use of a token is noted.
const NOTED_EVERY: u64 = 60_000_000;

/// Tokens that are remembered. Arbitrary: a few hundred bytes each.
const KNOWN_MAX: usize = 10_000;

/// Who is named as the author of what the service does by itself.
pub const SERVICE: &str = "server";

/// Says why a name or a pattern of a token cannot be one.
///
/// # Errors
/// What is wrong with it.
pub fn check_text(text: &str) -> Result<(), &'static str> {
    if text.is_empty() || text.chars().count() > 100 || text.chars().any(steers) {
        return Err("it has 1 to 100 characters, none of them one that controls how text is shown");
    }
    Ok(())
}

/// Says why a name of a token cannot be one.
///
/// # Errors
/// What is wrong with it.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    check_text(name)?;
    if name == SERVICE {
        return Err("the service itself has this name");
    }
    Ok(())
}

/// Makes a token: its text, which is shown once, and what is stored of it.
///
/// # Errors
/// The system gives no random bits.
pub fn make(
    name: &str,
    scopes: &[Scope],
    workflows: Vec<String>,
    expires: Option<Timestamp>,
) -> Result<(String, StoredToken), getrandom::Error> {
    let mut random = [0; 37];
    getrandom::fill(&mut random)?;
    let id = random[..5].iter().fold(String::new(), |mut id, byte| {
        let _ = write!(id, "{byte:02x}");
        id
    });
    let secret = URL_SAFE_NO_PAD.encode(&random[5..]);
    let body = format!("{PREFIX}{id}_{secret}");
    let text = format!("{body}_{}", check(&body));
    let stored = StoredToken {
        id,
        hash: hash(&secret),
        name: name.to_owned(),
        scopes: scopes.iter().map(|scope| scope.word().to_owned()).collect(),
        workflows,
        created: system_time(),
        expires,
        used: None,
        revoked: None,
    };
    Ok((text, stored))
}

/// SHA-256 of a secret.
pub fn hash(secret: &str) -> Vec<u8> {
    ring::digest::digest(&ring::digest::SHA256, secret.as_bytes()).as_ref().to_vec()
}

/// A text with 256 random bits.
///
/// # Errors
/// The system gives no random bits.
pub fn random_secret() -> Result<String, getrandom::Error> {
    let mut random = [0; 32];
    getrandom::fill(&mut random)?;
    Ok(URL_SAFE_NO_PAD.encode(random))
}

/// The check of the part before it: the first 32 bits of its SHA-256.
fn check(body: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, body.as_bytes());
    digest.as_ref()[..4].iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The id and the secret of a token.
fn parts(token: &str) -> Option<(&str, &str)> {
    let (body, given) = token.rsplit_once('_')?;
    // Base64url has `_` too: the id ends at the first one.
    let (id, secret) = body.strip_prefix(PREFIX)?.split_once('_')?;
    (check(body) == given && id.len() == 10 && secret.len() == 43).then_some((id, secret))
}

/// The tokens of a service: those that were used lately are in memory.
pub struct TokenCache {
    store: Arc<dyn Catalog>,
    known: Mutex<HashMap<String, (Instant, Option<StoredToken>)>>,
}

impl TokenCache {
    /// The tokens of a journal.
    pub fn new(store: Arc<dyn Catalog>) -> Self {
        Self { store, known: Mutex::default() }
    }

    /// The caller with a token that was read a moment ago. `None` says nothing.
    pub fn known_caller(&self, token: &str) -> Option<Caller> {
        let (id, secret) = parts(token)?;
        let known = self.known.lock();
        let (read, stored) = known.get(id)?;
        let stored = stored.as_ref().filter(|_| read.elapsed() < FRESH)?;
        equal(&hash(secret), &stored.hash).then(|| valid(stored)).flatten()
    }

    /// The caller with a token. `None` if it is not valid.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn caller(&self, token: &str) -> Result<Option<Caller>, StoreError> {
        let Some((id, secret)) = parts(token) else { return Ok(None) };
        let Some(stored) = self.stored(id)? else { return Ok(None) };
        if !equal(&hash(secret), &stored.hash) {
            return Ok(None);
        }
        Ok(valid(&stored))
    }

    /// The caller with the rights of the token with this id, for its sessions.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn caller_of(&self, id: &str) -> Result<Option<Caller>, StoreError> {
        Ok(self.stored(id)?.as_ref().and_then(valid))
    }

    fn stored(&self, id: &str) -> Result<Option<StoredToken>, StoreError> {
        let now = Instant::now();
        if let Some((read, known)) = self.known.lock().get(id)
            && now.duration_since(*read) < FRESH
        {
            return Ok(known.clone());
        }
        let mut stored = self.store.token(id)?;
        if let Some(token) = &mut stored {
            let at = system_time();
            if token.used.is_none_or(|used| used.0 + NOTED_EVERY <= at.0) {
                token.used = Some(at);
                self.store.note_token_used(id, at)?;
            }
        }
        let mut known = self.known.lock();
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(id.to_owned(), (now, stored.clone()));
        Ok(stored)
    }

    /// Forgets what was read: a token was revoked here.
    pub fn forget(&self) {
        self.known.lock().clear();
    }
}

fn valid(stored: &StoredToken) -> Option<Caller> {
    let is_over = stored.expires.is_some_and(|expires| expires <= system_time());
    if stored.revoked.is_some() || is_over {
        return None;
    }
    let scopes = stored.scopes.iter().filter_map(|word| Scope::named(word)).collect();
    Some(Caller::new(&stored.id, &stored.name, scopes, stored.workflows.clone()))
}

/// Compares in a time that depends on the lengths alone.
pub fn equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |different, (a, b)| different | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_its_parts_and_a_changed_one_has_none() {
        let (token, stored) = make("ann", &[Scope::Admin], Vec::new(), None).unwrap();
        let (id, secret) = parts(&token).unwrap();
        assert_eq!((id, hash(secret)), (&*stored.id, stored.hash));
        for at in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'x' { b'y' } else { b'x' };
            assert_eq!(parts(std::str::from_utf8(&changed).unwrap()), None);
        }
        assert_eq!(parts(""), None);
        assert_eq!(parts("wfh_"), None);
    }
}
