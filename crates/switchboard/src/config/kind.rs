//! The kinds of value that a key may have: how each is read, from TOML or from plain text, and how it is written back.

use std::borrow::Cow;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use approvals::Kind as Asked;
use front::Origin;
use hyper::header::{HeaderName, HeaderValue};
use serde_spanned::Spanned;
use toml::de::DeValue;
use tracing_subscriber::filter::{LevelFilter, Targets};
use workers::Transport;

use super::secret::public_address;
use crate::worker::Worker;

/// One kind of value.
pub(super) struct Kind<T> {
    /// What a reader of a complaint is told.
    pub(super) expected: String,
    read: Read<T>,
    show: Box<dyn Fn(&T) -> String>,
    /// The words to choose from, where there are some.
    pub(super) choices: Vec<&'static str>,
    /// How much of what was typed a complaint repeats.
    pub(super) found: fn(Raw<'_>) -> String,
}

type Read<T> = Box<dyn Fn(Raw<'_>, &Place<'_>) -> Option<T>>;

/// A value as it was typed.
#[derive(Clone, Copy)]
pub(super) enum Raw<'a> {
    Toml(&'a DeValue<'a>),
    /// A variable, a flag or a default, which know no types.
    Text(&'a str),
}

/// From where a path is meant.
pub(super) struct Place<'a> {
    pub(super) base: &'a Path,
    pub(super) home: Option<&'a Path>,
}

impl<T: 'static> Kind<T> {
    fn new(
        expected: impl Into<String>,
        read: impl Fn(Raw<'_>, &Place<'_>) -> Option<T> + 'static,
        show: impl Fn(&T) -> String + 'static,
    ) -> Self {
        Self {
            expected: expected.into(),
            read: Box::new(read),
            show: Box::new(show),
            choices: Vec::new(),
            found: |raw| raw.found(),
        }
    }

    /// Anything that a text says by itself.
    pub(super) fn parsed(expected: &str) -> Self
    where
        T: FromStr + Display,
    {
        Self::new(expected, |raw, _| raw.text()?.parse().ok(), |value| quoted(&value.to_string()))
    }

    /// One of a few words.
    pub(super) fn choice(words: &'static [(&'static str, T)]) -> Self
    where
        T: Copy + PartialEq,
    {
        let choices: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let find = move |raw: Raw<'_>, _: &Place<'_>| {
            let text = raw.text()?;
            words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value)
        };
        let show = |value: &T| words.iter().find(|(_, other)| other == value).map_or("", |(word, _)| *word);
        Self { choices: choices.clone(), ..Self::new(one_of(&choices), find, move |value| quoted(show(value))) }
    }

    pub(super) fn read(&self, raw: Raw<'_>, place: &Place<'_>) -> Option<T> {
        (self.read)(raw, place)
    }

    /// The value as TOML.
    pub(super) fn show(&self, value: &T) -> String {
        (self.show)(value)
    }
}

impl Kind<String> {
    pub(super) fn text() -> Self {
        Self::new("a text", |raw, _| raw.text().filter(|text| !text.is_empty()).map(str::to_owned), |text| quoted(text))
    }

    pub(super) fn secret() -> Self {
        Self { found: unsaid, ..Self::text() }
    }

    /// Part of the name of a variable, and of a worker.
    pub(super) fn name() -> Self {
        let read = |raw: Raw<'_>, _: &Place<'_>| raw.text().filter(|text| is_name(text)).map(str::to_owned);
        Self::new("a name of small letters, digits and \"-\"", read, |text| quoted(text))
    }

    /// The beginning of names that models use; it may be empty.
    pub(super) fn prefix(letters_max: usize) -> Self {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
        let fits = move |text: &&str| text.len() <= letters_max && text.chars().all(is_part);
        let read = move |raw: Raw<'_>, _: &Place<'_>| raw.text().filter(fits).map(str::to_owned);
        let expected = format!("at most {letters_max} letters, digits, \"_\" and \"-\"");
        Self::new(expected, read, |text| quoted(text))
    }
}

impl Kind<Worker> {
    pub(super) fn worker() -> Self {
        let read = |raw: Raw<'_>, place: &Place<'_>| match raw.text()? {
            "" => None,
            "demo" => Some(Worker::Demo),
            // A bare name is left for PATH.
            name if !name.contains('/') => Some(Worker::Codex(name.into())),
            path => place.path(path).map(Worker::Codex),
        };
        Self::new("\"codex\", \"demo\" or the path of a codex binary", read, |worker| quoted(&worker.to_string()))
    }
}

impl Kind<Transport> {
    pub(super) fn transport() -> Self {
        let read = |raw: Raw<'_>, _: &Place<'_>| match raw.text()? {
            "stdio" => Some(Transport::Stdio),
            "unix" => Some(Transport::Unix),
            address if address.starts_with("ws") => address.parse().ok().map(Transport::Ws),
            _ => None,
        };
        let show = |transport: &Transport| match transport {
            Transport::Stdio => quoted("stdio"),
            Transport::Unix => quoted("unix"),
            Transport::Ws(endpoint) => quoted(&endpoint.to_string()),
        };
        let expected = "\"stdio\", \"unix\", \"ws://\" with a host of this machine and its port, or \"wss://HOST\"";
        Self { choices: vec!["stdio", "unix"], ..Self::new(expected, read, show) }
    }
}

impl Kind<String> {
    /// What to log: a level, or one for each part of the program.
    pub(super) fn levels() -> Self {
        let is_level = |word: &str| word.parse::<LevelFilter>().is_ok();
        let is_directive = move |word: &str| is_level(word.rsplit('=').next().unwrap_or(word));
        let are_levels = move |text: &&str| text.split(',').all(is_directive) && text.parse::<Targets>().is_ok();
        let read = move |raw: Raw<'_>, _: &Place<'_>| raw.text().filter(are_levels).map(str::to_owned);
        let expected = "a level (error, warn, info, debug, trace), or levels such as \"info,workers=debug\"";
        Self {
            choices: vec!["error", "warn", "info", "debug", "trace"],
            ..Self::new(expected, read, |text| quoted(text))
        }
    }

    pub(super) fn url(example: &str) -> Self {
        let is_url = |text: &&str| {
            let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
            rest.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '['))
        };
        let read = move |raw: Raw<'_>, _: &Place<'_>| raw.text().filter(is_url).map(str::to_owned);
        let found = |raw: Raw<'_>| raw.text().map_or_else(|| raw.found(), |text| quoted(&public_address(text)));
        let expected = format!("an address such as {}", quoted(example));
        Self { found, ..Self::new(expected, read, |text| quoted(text)) }
    }
}

impl Kind<Vec<String>> {
    /// A list, such as a command line; no variable can hold one.
    pub(super) fn words(example: &str) -> Self {
        let read = |raw: Raw<'_>, _: &Place<'_>| match raw {
            Raw::Toml(DeValue::Array(words)) => {
                words.iter().map(|word| word.get_ref().as_str().map(str::to_owned)).collect()
            }
            Raw::Text("") => Some(Vec::new()),
            _ => None,
        };
        let show = |words: &Vec<String>| {
            let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            format!("[{}]", words.join(", "))
        };
        Self::new(format!("a list of texts such as {example}"), read, show)
    }
}

impl Kind<Vec<(String, String)>> {
    /// Variables with their values.
    pub(super) fn variables() -> Self {
        let fits = |name: &str, value: &str| !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0');
        Self::pairs("a table of texts such as { LANG = \"C.UTF-8\" }", fits)
    }

    /// Headers with their values.
    pub(super) fn headers() -> Self {
        let fits = |name: &str, value: &str| HeaderName::try_from(name).is_ok() && HeaderValue::try_from(value).is_ok();
        Self::pairs("a table of texts such as { Authorization = \"Bearer …\" }", fits)
    }

    /// Texts by their names; no variable can hold them, and they can be secrets.
    fn pairs(expected: &str, fits: fn(&str, &str) -> bool) -> Self {
        let read = move |raw: Raw<'_>, _: &Place<'_>| {
            let Raw::Toml(DeValue::Table(entries)) = raw else { return None };
            let pair = |(name, value): (&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
                let (name, value) = (name.get_ref(), value.get_ref().as_str()?);
                fits(name, value).then(|| (name.to_string(), value.to_owned()))
            };
            entries.iter().map(pair).collect()
        };
        let show = |pairs: &Vec<(String, String)>| {
            let pairs: Vec<String> =
                pairs.iter().map(|(name, value)| format!("{} = {}", quoted(name), quoted(value))).collect();
            format!("{{ {} }}", pairs.join(", "))
        };
        Self { found: unsaid, ..Self::new(expected, read, show) }
    }
}

impl Kind<Vec<Origin>> {
    /// Origins of web pages, as browsers send them.
    pub(super) fn origins() -> Self {
        let texts = Kind::words("");
        let read = move |raw: Raw<'_>, place: &Place<'_>| {
            let texts: Vec<String> = texts.read(raw, place)?;
            texts.iter().map(|text| text.parse().ok()).collect()
        };
        let show = |origins: &Vec<Origin>| {
            let texts: Vec<String> = origins.iter().map(|origin| quoted(&origin.to_string())).collect();
            format!("[{}]", texts.join(", "))
        };
        Self::new(
            "a list of origins such as [\"https://app.example.com\"], without a path or the usual port",
            read,
            show,
        )
    }
}

impl Kind<Vec<Asked>> {
    /// Kinds of requests that wait for a decision.
    pub(super) fn kinds() -> Self {
        let names: Vec<&str> = Asked::ALL.iter().map(|kind| kind.name()).collect();
        let texts = Kind::words("");
        let read = move |raw: Raw<'_>, place: &Place<'_>| {
            let names: Vec<String> = texts.read(raw, place)?;
            names.iter().map(|name| Asked::named(name)).collect()
        };
        let show = |kinds: &Vec<Asked>| {
            let names: Vec<String> = kinds.iter().map(|kind| quoted(kind.name())).collect();
            format!("[{}]", names.join(", "))
        };
        Self::new(format!("a list of {}", one_of(&names)), read, show)
    }
}

impl Kind<bool> {
    pub(super) fn flag() -> Self {
        let read = |raw: Raw<'_>, _: &Place<'_>| match raw {
            Raw::Toml(DeValue::Boolean(flag)) => Some(*flag),
            Raw::Text(text) => text.parse().ok(),
            Raw::Toml(_) => None,
        };
        Self::new("true or false", read, bool::to_string)
    }
}

impl Kind<PathBuf> {
    pub(super) fn path() -> Self {
        Self::new(
            "a path",
            |raw, place| raw.text().filter(|text| !text.is_empty()).and_then(|text| place.path(text)),
            |path| quoted(&path.to_string_lossy()),
        )
    }
}

impl Kind<Vec<PathBuf>> {
    /// A list of paths; no variable can hold one.
    pub(super) fn paths(example: &str) -> Self {
        let texts = Kind::words("");
        let read = move |raw: Raw<'_>, place: &Place<'_>| {
            let texts: Vec<String> = texts.read(raw, place)?;
            texts.iter().map(|text| place.path(text).filter(|_| !text.is_empty())).collect()
        };
        let show = |paths: &Vec<PathBuf>| {
            let paths: Vec<String> = paths.iter().map(|path| quoted(&path.to_string_lossy())).collect();
            format!("[{}]", paths.join(", "))
        };
        Self::new(format!("a list of paths such as {example}"), read, show)
    }
}

impl Kind<usize> {
    pub(super) fn count(range: RangeInclusive<usize>) -> Self {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        let read = move |raw: Raw<'_>, _: &Place<'_>| raw.whole_number().filter(|count| range.contains(count));
        Self::new(expected, read, usize::to_string)
    }

    pub(super) fn bytes(range: RangeInclusive<usize>) -> Self {
        let (least, most) = (show_bytes(*range.start()), show_bytes(*range.end()));
        let expected = format!("a size such as 4096, \"64KiB\" or \"4MiB\", from {least} to {most}");
        let read = move |raw: Raw<'_>, _: &Place<'_>| {
            let bytes = raw.whole_number().or_else(|| bytes(raw.text()?))?;
            range.contains(&bytes).then_some(bytes)
        };
        Self::new(expected, read, |bytes| quoted(&show_bytes(*bytes)))
    }
}

impl Kind<Duration> {
    pub(super) fn duration(range: RangeInclusive<Duration>) -> Self {
        let (least, most) = (show_duration(*range.start()), show_duration(*range.end()));
        let expected = format!("a duration such as \"500ms\", \"30s\" or \"10m\", from {least} to {most}");
        let read = move |raw: Raw<'_>, _: &Place<'_>| raw.text().and_then(duration).filter(|time| range.contains(time));
        Self::new(expected, read, |time| quoted(&show_duration(*time)))
    }
}

impl<'a> Raw<'a> {
    fn text(self) -> Option<&'a str> {
        match self {
            Self::Toml(value) => value.as_str(),
            Self::Text(text) => Some(text),
        }
    }

    fn whole_number(self) -> Option<usize> {
        match self {
            Self::Toml(DeValue::Integer(number)) => usize::from_str_radix(number.as_str(), number.radix()).ok(),
            Self::Toml(_) => None,
            Self::Text(text) => text.parse().ok(),
        }
    }

    /// What was found instead of what was expected.
    pub(super) fn found(self) -> String {
        match self {
            Self::Toml(DeValue::String(text)) => quoted(text),
            Self::Toml(DeValue::Integer(number)) => number.to_string(),
            Self::Toml(DeValue::Float(number)) => number.as_str().into(),
            Self::Toml(DeValue::Boolean(flag)) => flag.to_string(),
            Self::Toml(DeValue::Datetime(date)) => date.to_string(),
            Self::Toml(DeValue::Array(_)) => "a list of something else".into(),
            Self::Toml(DeValue::Table(_)) => "a table".into(),
            Self::Text(text) => quoted(text),
        }
    }
}

impl Place<'_> {
    /// An absolute path without `~` and `.`; a `..` is left to the system, because it may follow a link.
    pub(super) fn path(&self, text: &str) -> Option<PathBuf> {
        let path = match text.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => self.home?.join(rest.trim_start_matches('/')),
            _ => self.base.join(text),
        };
        Some(path.components().filter(|part| *part != Component::CurDir).collect())
    }
}

/// The units of time, the largest first.
const TIMES: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
const SIZES: [(&str, usize); 5] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// "1h30m": numbers with units, put together.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut milliseconds: u64 = 0;
    while !rest.is_empty() {
        let (number, unit) = rest.split_at(rest.find(|letter: char| !letter.is_ascii_digit())?);
        let (unit, after) = unit.split_at(unit.find(|letter: char| letter.is_ascii_digit()).unwrap_or(unit.len()));
        let (_, scale) = TIMES.iter().find(|(name, _)| *name == unit)?;
        milliseconds = milliseconds.checked_add(number.parse::<u64>().ok()?.checked_mul(*scale)?)?;
        rest = after;
    }
    (!text.is_empty()).then(|| Duration::from_millis(milliseconds))
}

/// The same for a flag.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, &'static str> {
    duration(text).ok_or("write it as 30s, 10m or 500ms")
}

pub(crate) fn show_duration(time: Duration) -> String {
    let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let fits = |(_, scale): &&(&str, u64)| milliseconds.is_multiple_of(*scale);
    let (unit, scale) = TIMES.iter().find(fits).filter(|_| milliseconds > 0).unwrap_or(&("s", 1000));
    format!("{}{unit}", milliseconds / scale)
}

fn bytes(text: &str) -> Option<usize> {
    let (number, unit) = text.split_at(text.find(|letter: char| !letter.is_ascii_digit())?);
    let (_, scale) = SIZES.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.parse::<usize>().ok()?.checked_mul(*scale)
}

fn show_bytes(bytes: usize) -> String {
    let fits = |(_, scale): &&(_, usize)| bytes >= *scale && bytes.is_multiple_of(*scale);
    let (unit, scale) = SIZES.iter().find(fits).unwrap_or(&("B", 1));
    format!("{}{unit}", bytes / scale)
}

/// Small letters, digits and `-`, a letter first.
pub(super) fn is_name(text: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    text.starts_with(|first: char| first.is_ascii_lowercase()) && text.chars().all(is_part)
}

/// What is said of a secret that is none.
fn unsaid(_: Raw<'_>) -> String {
    "something else".into()
}

/// A text as TOML writes it.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::String(text.into()).to_string()
}

fn one_of(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    match words.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use expect_test::expect;

    use super::*;

    #[test]
    fn durations_and_sizes_are_read_and_written_back_in_their_largest_unit() {
        let mut seen = String::new();
        for text in ["500ms", "30s", "90s", "10m", "1h30m", "24h", "0s", "10", "m", "1h 30m", "1.5h", "-1s", ""] {
            writeln!(seen, "{text:?} → {:?}", duration(text).map(show_duration)).unwrap();
        }
        for text in ["512B", "64KiB", "64 KiB", "1024KiB", "1000", "4MB", "999999999999GiB"] {
            writeln!(seen, "{text:?} → {:?}", bytes(text).map(show_bytes)).unwrap();
        }
        expect![[r#"
            "500ms" → Some("500ms")
            "30s" → Some("30s")
            "90s" → Some("90s")
            "10m" → Some("10m")
            "1h30m" → Some("90m")
            "24h" → Some("1d")
            "0s" → Some("0s")
            "10" → None
            "m" → None
            "1h 30m" → None
            "1.5h" → None
            "-1s" → None
            "" → None
            "512B" → Some("512B")
            "64KiB" → Some("64KiB")
            "64 KiB" → Some("64KiB")
            "1024KiB" → Some("1MiB")
            "1000" → None
            "4MB" → None
            "999999999999GiB" → None
        "#]]
        .assert_eq(&seen);
    }
}
