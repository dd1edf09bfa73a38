//! Values of the command line that have rules of their own. An invalid value is rejected with a
//! hint.

use crate::cli::terminal::quoted;
use crate::dispatch::http::Permission;
use crate::process::{Pid, Tag, Timestamp};
use crate::run::system_time;
use crate::workflow::model::{parse_duration, parse_size};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

/// Slots of a host that runs one workflow: few, since each costs an mprotect at the start.
pub(in crate::cli) const SLOTS_DEFAULT: u32 = 64;

/// Worker threads. Arbitrary: far above what any machine has in processors.
const WORKERS_MAX: u128 = 1_024;

/// Why a value is rejected.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub(in crate::cli) struct InvalidValue {
    /// What is wrong with it.
    pub(in crate::cli) message: String,
    /// What to write instead.
    pub(in crate::cli) hint: String,
}

impl InvalidValue {
    pub(in crate::cli) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }
}

/// `--slots`: as many as the kernel has room for, at most.
pub(in crate::cli) fn slots(text: &str) -> Result<u32, InvalidValue> {
    slots_within(text, crate::guest::slots_max())
}

fn slots_within(text: &str, most: u32) -> Result<u32, InvalidValue> {
    let here = format!("{SLOTS_DEFAULT} is the default, this machine has room for {most}");
    match whole(text) {
        Some(0) => Err(InvalidValue::new("without a slot no guest can run", here)),
        Some(slots) => match u32::try_from(slots) {
            Ok(slots) if slots <= most => Ok(slots),
            _ => Err(InvalidValue::new(
                format!("this machine has room for {most}"),
                "guests that wait give up their slots, so few are enough; the kernel's vm.max_map_count \
                 sets the bound: `wfhost doctor` shows it",
            )),
        },
        None => Err(InvalidValue::new("this is not a whole number", here)),
    }
}

/// A size in bytes: `--cache-bytes`.
pub(in crate::cli) fn size(text: &str) -> Result<u64, InvalidValue> {
    parse_size(text).ok_or_else(|| InvalidValue::new("this is not a size", "write 64MiB, 2GiB, or 0 for none"))
}

/// `--workers`.
pub(in crate::cli) fn workers(text: &str) -> Result<usize, InvalidValue> {
    let hint = || format!("the default is one per processor: {} here", crate::base::processors());
    match whole(text) {
        Some(workers @ 1..=WORKERS_MAX) => Ok(workers as usize),
        Some(0) => Err(InvalidValue::new("without a worker nothing runs", hint())),
        Some(_) => Err(InvalidValue::new(format!("the maximum is {WORKERS_MAX}"), hint())),
        None => Err(InvalidValue::new("this is not a whole number", hint())),
    }
}

/// A whole number, however large it is.
fn whole(text: &str) -> Option<u128> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u128::MAX))
}

/// A number of bytes: `1GiB`.
pub(in crate::cli) fn bytes(text: &str) -> Result<u64, InvalidValue> {
    const HINT: &str = "write a size: 512KiB, 64MiB, 1GiB";
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let shift = match unit {
        "" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return Err(InvalidValue::new(format!("`{text}` is no size"), HINT)),
    };
    let number = digits.parse::<u64>().ok().filter(|number| *number > 0);
    let bytes = number.and_then(|number| number.checked_mul(1 << shift)).filter(|bytes| *bytes < 1 << 53);
    bytes.ok_or_else(|| InvalidValue::new(format!("`{text}` is no size"), HINT))
}

/// `--timeout`.
pub(in crate::cli) fn timeout(text: &str) -> Result<Duration, InvalidValue> {
    match parse_duration(text) {
        Ok(micros) if micros.0 == 0 => {
            Err(InvalidValue::new("a run cannot end before it begins", "omit --timeout for none"))
        }
        Ok(micros) => Ok(micros.into()),
        Err(why) => Err(InvalidValue::new(
            why.replace(text, &quoted(text)),
            match text.parse::<f64>() {
                Ok(number) if number >= 0.0 && text.len() < 20 => format!("give the unit: {text}s, {text}m"),
                _ => "write 500ms, 30s, 5m, 24h, or ISO 8601: PT5M".to_owned(),
            },
        )),
    }
}

/// A duration that is no timeout.
pub(in crate::cli) fn duration(text: &str) -> Result<Duration, InvalidValue> {
    let short = |why: String| why.replace(text, &quoted(text));
    parse_duration(text)
        .map(Into::into)
        .map_err(|why| InvalidValue::new(short(why), "write 30s, 5m, 24h, 30d, or ISO 8601: P30D"))
}

/// A time, given as such or as how long ago.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::cli) struct Since(pub(in crate::cli) Timestamp);

/// `--since`.
pub(in crate::cli) fn since(text: &str) -> Result<Since, InvalidValue> {
    if let Ok(ago) = parse_duration(text) {
        return Ok(Since(system_time().saturating_sub(ago)));
    }
    let day = || {
        let day = text.parse::<jiff::civil::Date>().ok()?;
        Some(day.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    };
    let time = text.parse::<jiff::Timestamp>().ok().or_else(day);
    let micros = time.and_then(|time| u64::try_from(time.as_microsecond()).ok());
    micros.map(|micros| Since(Timestamp(micros))).ok_or_else(|| {
        let hint =
            "write how long ago (30m, 24h, 7d), a day (2026-01-31) or a time (2026-01-31T12:00:00Z); both are in UTC";
        InvalidValue::new(format!("`{}` is not a time", quoted(text)), hint)
    })
}

/// Bytes of an id that a user gives. Arbitrary.
const ID_BYTES_MAX: usize = 128;

/// `--run-id`.
pub(in crate::cli) fn run_id(text: &str) -> Result<String, InvalidValue> {
    id(text)
}

/// `--id` of an act.
pub(in crate::cli) fn act_id(text: &str) -> Result<String, InvalidValue> {
    id(text)
}

fn id(text: &str) -> Result<String, InvalidValue> {
    let takes = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:+@".contains(&byte);
    let hint =
        format!("an id has at most {ID_BYTES_MAX} letters, digits and - _ . : + @, and begins with a letter or digit");
    let is_id = text.bytes().all(takes) && text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
    if is_id && text.len() <= ID_BYTES_MAX {
        Ok(text.to_owned())
    } else {
        Err(InvalidValue::new("not a valid id", hint))
    }
}

/// A call: its tag, and its process where it is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::cli) struct Call {
    pub(in crate::cli) pid: Option<Pid>,
    pub(in crate::cli) tag: Tag,
}

/// `TAG` or `PID/TAG`.
pub(in crate::cli) fn call(text: &str) -> Result<Call, InvalidValue> {
    let parse = || match text.split_once('/') {
        Some((pid, tag)) => Some(Call { pid: Some(Pid(pid.parse().ok()?)), tag: Tag(tag.parse().ok()?) }),
        None => Some(Call { pid: None, tag: Tag(text.parse().ok()?) }),
    };
    parse().ok_or_else(|| {
        InvalidValue::new("not a call", "write its tag (7), or process and tag (3/7): `wfhost status` lists them")
    })
}

/// JSON, or a file of it with @.
pub(in crate::cli) fn json(text: &str) -> Result<serde_json::Value, InvalidValue> {
    let read = |path: &str| {
        let hint = "write JSON, or @ and the path of a file with JSON";
        crate::cli::args::inputs::read_file(path)
            .map_err(|why| InvalidValue::new(why.message, why.hint.as_deref().unwrap_or(hint)))
    };
    let text = text.strip_prefix('@').map_or_else(|| Ok(text.to_owned()), read)?;
    let hint = || match text.parse::<f64>() {
        _ if text.trim().is_empty() => "omit it to send nothing; JSON for nothing is null".to_owned(),
        Ok(_) => "write numbers as JSON has them: 1, -1.5, 1e3".to_owned(),
        Err(_) if text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" -_.".contains(&byte)) => {
            match quoted(text.trim_end()) {
                std::borrow::Cow::Borrowed(text) => format!("a string needs quotes: '\"{text}\"'"),
                std::borrow::Cow::Owned(_) => "a string needs quotes: '\"…\"'".to_owned(),
            }
        }
        Err(_) => "write JSON, in single quotes for the shell: '{\"a\": 1}'".to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| InvalidValue::new(format!("not valid JSON: {error}"), hint()))
}

/// `--with`.
pub(in crate::cli) fn other(text: &str) -> Result<Substitution, InvalidValue> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            Ok(Substitution { name: name.to_owned(), file: file.into() })
        }
        _ => Err(InvalidValue::new(
            "expected NAME=FILE",
            "write the name that the workflow gives the component, and the file: ship=fixed.wasm",
        )),
    }
}

/// A file that replaces a component of the workflow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::cli) struct Substitution {
    /// The name that the workflow gives it.
    pub(in crate::cli) name: String,
    /// The file.
    pub(in crate::cli) file: PathBuf,
}

pub(in crate::cli) fn by_name(others: &[Substitution]) -> BTreeMap<String, PathBuf> {
    others.iter().map(|other| (other.name.clone(), other.file.clone())).collect()
}

/// Addresses that are permitted although they are not public.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(in crate::cli) struct Addresses(pub(in crate::cli) Vec<Permission>);

/// The word for no address at all.
const NO_ADDRESS: &str = "none";

impl Addresses {
    /// Those of several flags, each with one or more.
    pub(in crate::cli) fn of_flags(flags: Vec<Self>) -> Result<Self, InvalidValue> {
        if flags.len() > 1 && flags.iter().any(|flag| flag.0.is_empty()) {
            return Err(none_among_others());
        }
        Ok(Self(flags.into_iter().flat_map(|flag| flag.0).collect()))
    }

    /// As users write them.
    pub(in crate::cli) fn texts(&self) -> Vec<String> {
        self.0.iter().map(ToString::to_string).collect()
    }
}

fn none_among_others() -> InvalidValue {
    InvalidValue::new("`none` permits no address, and there are others", "omit `none`, or the others")
}

/// `--allow-address`: addresses with commas or blanks between them, or `none`.
pub(in crate::cli) fn addresses(text: &str) -> Result<Addresses, InvalidValue> {
    let words: Vec<&str> = text.split([',', ' ', '\t', '\n']).filter(|word| !word.is_empty()).collect();
    match &words[..] {
        [NO_ADDRESS] => Ok(Addresses::default()),
        words if words.contains(&NO_ADDRESS) => Err(none_among_others()),
        // A blank text is no address either: parsing it says what is wrong.
        [] => Ok(Addresses(vec![address(text)?])),
        words => words.iter().map(|word| address(word)).collect::<Result<_, _>>().map(Addresses),
    }
}

fn address(text: &str) -> Result<Permission, InvalidValue> {
    text.parse().map_err(|error: crate::dispatch::http::PermissionError| InvalidValue::new(error.message, error.hint))
}

/// `--cache`: an empty name is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::cli) struct CacheDir(pub(in crate::cli) Option<PathBuf>);

impl From<std::ffi::OsString> for CacheDir {
    fn from(text: std::ffi::OsString) -> Self {
        Self((text.as_os_str() != OsStr::new("")).then(|| text.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Message and hint.
    fn message_of<T: std::fmt::Debug>(refused: Result<T, InvalidValue>) -> String {
        let InvalidValue { message, hint } = refused.unwrap_err();
        format!("{message} / {hint}")
    }

    #[test]
    fn slots_are_what_the_kernel_has_room_for() {
        assert_eq!(slots_within("1", 8_191), Ok(1));
        assert_eq!(slots_within("8191", 8_191), Ok(8_191));
        for absurd in ["8192", "4294967296", "99999999999999999999999999999999999999999"] {
            assert!(
                message_of(slots_within(absurd, 8_191)).starts_with("this machine has room for 8191 / "),
                "{absurd}"
            );
        }
        assert_eq!(
            message_of(slots_within("0", 8_191)),
            "without a slot no guest can run / 64 is the default, this machine has room for 8191"
        );
        for odd in ["", "x", "-1", "1.5", "1k", "+1"] {
            assert!(message_of(slots_within(odd, 8_191)).starts_with("this is not a whole number / 64 "), "{odd}");
        }
    }

    #[test]
    fn workers_are_some_and_not_too_many() {
        assert_eq!(workers("1"), Ok(1));
        assert_eq!(workers("1024"), Ok(1024));
        assert!(message_of(workers("0")).starts_with("without a worker nothing runs / the default is one"));
        assert!(message_of(workers("1025")).starts_with("the maximum is 1024 / "));
        assert!(message_of(workers("many")).starts_with("this is not a whole number / "));
    }

    #[test]
    fn timeouts_need_their_unit() {
        assert_eq!(timeout("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(timeout("PT1H"), Ok(Duration::from_hours(1)));
        assert_eq!(message_of(timeout("5")), "`5` is not a duration / give the unit: 5s, 5m");
        assert_eq!(
            message_of(timeout("soon")),
            "`soon` is not a duration / write 500ms, 30s, 5m, 24h, or ISO 8601: PT5M"
        );
        assert!(message_of(timeout("-5s")).contains("is not a duration / write 500ms"));
        assert!(message_of(timeout("0s")).contains("omit --timeout"));
    }

    #[test]
    fn an_address_is_refused_with_what_would_do() {
        assert_eq!(addresses("localhost").unwrap().0, [Permission::Host("localhost".into())]);
        assert_eq!(addresses(" ::1,db.,10.0.0.0/8").unwrap().texts(), ["::1", "db.", "10.0.0.0/8"]);
        assert_eq!(addresses("none"), Ok(Addresses::default()));
        for odd in ["", " ", "nonsense", "::1,nonsense"] {
            assert!(message_of(addresses(odd)).contains("write an address (127.0.0.1, ::1)"), "{odd}");
        }
        for odd in [addresses("none,::1"), Addresses::of_flags(vec![Addresses::default(), addresses("::1").unwrap()])] {
            assert!(message_of(odd).ends_with("omit `none`, or the others"));
        }
    }

    #[test]
    fn a_moment_is_so_long_ago_or_a_time() {
        assert_eq!(since("1970-01-02"), Ok(Since(Timestamp(86_400_000_000))));
        assert_eq!(since("1970-01-01T00:00:01.5Z"), Ok(Since(Timestamp(1_500_000))));
        let (hour, day) = (since("1h").unwrap().0, since("24h").unwrap().0);
        assert!(day < hour && hour.0 - day.0 < 23 * 3_600_000_000 + 60_000_000);
        for odd in ["yesterday", "2026-13-01", "", "12", "1969-01-01"] {
            assert!(message_of(since(odd)).contains("is not a time / write how long ago"), "{odd}");
        }
    }

    #[test]
    fn ids_are_words() {
        assert_eq!(run_id("order-4711").as_deref(), Ok("order-4711"));
        for odd in ["", "-x", "a b", "a/b", "ä", &"x".repeat(129)] {
            assert!(message_of(run_id(odd)).starts_with("not a valid id / an id has"), "{odd}");
        }
    }

    #[test]
    fn a_call_is_a_tag_and_perhaps_its_process() {
        assert_eq!(call("7"), Ok(Call { pid: None, tag: Tag(7) }));
        assert_eq!(call("3/7"), Ok(Call { pid: Some(Pid(3)), tag: Tag(7) }));
        for odd in ["", "x", "3/", "/7", "1/2/3", "-1"] {
            assert!(message_of(call(odd)).starts_with("not a call / "), "{odd}");
        }
    }

    #[test]
    fn what_is_no_json_is_told_with_what_was_meant() {
        assert_eq!(json("{\"a\": [1]}").unwrap()["a"][0], 1);
        assert!(message_of(json("Ann B")).ends_with("a string needs quotes: '\"Ann B\"'"));
        assert!(message_of(json(" ")).contains("JSON for nothing is null"));
        assert!(message_of(json("{a: 1}")).contains("single quotes"));
        assert!(message_of(json("@/does/not/exist")).contains("/does/not/exist"));
    }

    #[test]
    fn an_empty_cache_is_none() {
        let cache = |text: &str| CacheDir::from(std::ffi::OsString::from(text)).0;
        assert_eq!((cache(""), cache("x")), (None, Some("x".into())));
    }
}
