//! Values of the command line that have rules of their own. What cannot be is refused together with the way out.

use crate::dispatch::http::Permission;
use crate::workflow::model::parse_duration;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

/// Worker threads. Arbitrary: far above what any machine has in processors.
const WORKERS_MAX: u128 = 1_024;

/// Why a value is not taken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct Refusal {
    /// What is wrong with it.
    pub(super) message: String,
    /// What to write instead.
    pub(super) hint: String,
}

impl Refusal {
    fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }
}

/// `--slots`: as many as the kernel has room for, at most.
pub(super) fn slots(text: &str) -> Result<u32, Refusal> {
    slots_within(text, crate::guest::slots_max())
}

fn slots_within(text: &str, most: u32) -> Result<u32, Refusal> {
    let here = format!("{} are the default, this machine has room for {most}", super::run::SLOTS_DEFAULT);
    match whole(text) {
        Some(0) => Err(Refusal::new("without a slot no guest can run", here)),
        Some(slots) => match u32::try_from(slots) {
            Ok(slots) if slots <= most => Ok(slots),
            _ => Err(Refusal::new(
                format!("this machine has room for {most}"),
                "guests that wait give their slot to others, so few will do; the kernel's vm.max_map_count sets the bound: \
                 `wfhost doctor` shows it",
            )),
        },
        None => Err(Refusal::new("this is not a whole number", here)),
    }
}

/// `--workers`.
pub(super) fn workers(text: &str) -> Result<usize, Refusal> {
    let hint = || format!("without it there is one for each processor: {} here", crate::base::processors());
    match whole(text) {
        Some(workers @ 1..=WORKERS_MAX) => Ok(workers as usize),
        Some(0) => Err(Refusal::new("without a worker nothing runs", hint())),
        Some(_) => Err(Refusal::new(format!("at most {WORKERS_MAX} can be had"), hint())),
        None => Err(Refusal::new("this is not a whole number", hint())),
    }
}

/// A whole number, however large it is.
fn whole(text: &str) -> Option<u128> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u128::MAX))
}

/// `--timeout`.
pub(super) fn timeout(text: &str) -> Result<Duration, Refusal> {
    match parse_duration(text) {
        Ok(micros) if micros.0 == 0 => {
            Err(Refusal::new("no run is over before it has begun", "leave --timeout out where none is wanted"))
        }
        Ok(micros) => Ok(micros.into()),
        Err(why) => Err(Refusal::new(
            why,
            match text.parse::<f64>() {
                Ok(number) if number >= 0.0 => format!("say in which unit: {text}s, {text}m"),
                _ => "write 500ms, 30s, 5m, 24h, or ISO 8601: PT5M".to_owned(),
            },
        )),
    }
}

/// `--allow-address`.
pub(super) fn address(text: &str) -> Result<Permission, Refusal> {
    text.parse().map_err(|error: crate::dispatch::http::PermissionError| Refusal::new(error.message, error.hint))
}

/// `--cache`: an empty one is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct CacheDir(pub(super) Option<PathBuf>);

impl From<std::ffi::OsString> for CacheDir {
    fn from(text: std::ffi::OsString) -> Self {
        Self((text.as_os_str() != OsStr::new("")).then(|| text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Message and hint.
    fn told<T: std::fmt::Debug>(refused: Result<T, Refusal>) -> String {
        let Refusal { message, hint } = refused.unwrap_err();
        format!("{message} / {hint}")
    }

    #[test]
    fn slots_are_what_the_kernel_has_room_for() {
        assert_eq!(slots_within("1", 8_191), Ok(1));
        assert_eq!(slots_within("8191", 8_191), Ok(8_191));
        for absurd in ["8192", "4294967296", "99999999999999999999999999999999999999999"] {
            assert!(told(slots_within(absurd, 8_191)).starts_with("this machine has room for 8191 / "), "{absurd}");
        }
        assert_eq!(
            told(slots_within("0", 8_191)),
            "without a slot no guest can run / 64 are the default, this machine has room for 8191"
        );
        for odd in ["", "x", "-1", "1.5", "1k", "+1"] {
            assert!(told(slots_within(odd, 8_191)).starts_with("this is not a whole number / 64 "), "{odd}");
        }
    }

    #[test]
    fn workers_are_some_and_not_too_many() {
        assert_eq!(workers("1"), Ok(1));
        assert_eq!(workers("1024"), Ok(1024));
        assert!(told(workers("0")).starts_with("without a worker nothing runs / without it there is one"));
        assert!(told(workers("1025")).starts_with("at most 1024 can be had / "));
        assert!(told(workers("many")).starts_with("this is not a whole number / "));
    }

    #[test]
    fn timeouts_need_their_unit() {
        assert_eq!(timeout("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(timeout("PT1H"), Ok(Duration::from_hours(1)));
        assert_eq!(told(timeout("5")), "`5` is not a duration / say in which unit: 5s, 5m");
        assert_eq!(told(timeout("soon")), "`soon` is not a duration / write 500ms, 30s, 5m, 24h, or ISO 8601: PT5M");
        assert!(told(timeout("-5s")).contains("is not a duration / write 500ms"));
        assert!(told(timeout("0s")).contains("leave --timeout out"));
    }

    #[test]
    fn an_address_is_refused_with_what_would_do() {
        assert_eq!(address("localhost"), Ok(Permission::Host("localhost".into())));
        assert!(told(address("nonsense")).contains("write an address (127.0.0.1, ::1)"));
    }

    #[test]
    fn an_empty_cache_is_none() {
        let cache = |text: &str| CacheDir::from(std::ffi::OsString::from(text)).0;
        assert_eq!((cache(""), cache("x")), (None, Some("x".into())));
    }
}
