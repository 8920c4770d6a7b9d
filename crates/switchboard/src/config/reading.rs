//! Reads a configuration key by key. The code that reads a key is the only place that knows it: what was read is written
//! down with where it came from, for `--print-config` and for the documentation, and what nobody read is a problem.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_spanned::Spanned;
use toml::de::{DeTable, DeValue};

use super::kind::{Kind, Place, Raw, quoted};
use super::nearest::nearest;
use super::problem::{Problem, Source};
use super::secret::{Secret, public_address};
use super::variables::PREFIX;

/// The key by which one table of a list is told from the others. Part of the names of variables, so none sets it.
const NAME: &str = "name";
/// Keys whose variables are shorter than their path.
const SHORT: [(&str, &str); 1] = [("log.level", "SWITCHBOARD_LOG")];

/// What was typed, before anybody knows what it means.
#[derive(Default)]
pub(crate) struct Typed {
    pub(crate) file: Option<File>,
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) flags: Vec<Flag>,
    /// Where paths in variables and flags begin; those in a file begin beside it.
    pub(crate) cwd: PathBuf,
}

/// A configuration file.
pub(crate) struct File {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// A flag that sets a key.
#[derive(Clone)]
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    /// The path of the key, such as `listen`; `workers.first` is the first group, whatever its name.
    pub(crate) key: &'static str,
    pub(crate) value: String,
}

/// A configuration that is being read.
pub(super) struct Reading<'a> {
    typed: &'a Typed,
    root: &'a DeTable<'a>,
    pub(super) problems: Vec<Problem>,
    /// What looks like a mistake but keeps nothing from running.
    pub(super) warnings: Vec<String>,
    /// What keeps a server from starting.
    pub(super) obstacles: Vec<Problem>,
    unread: Vec<Unread>,
    pub(super) sections: Vec<Section>,
}

/// What was read of one table.
pub(crate) struct Section {
    /// The line above its keys; none for the keys at the top.
    pub(crate) header: String,
    /// The same for any table of its kind.
    pub(crate) pattern: &'static str,
    pub(crate) keys: Vec<Key>,
}

/// What was read of one key.
#[cfg_attr(not(test), expect(dead_code, reason = "a test makes docs/configuration.md of what nobody else reads"))]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) help: &'static str,
    pub(crate) expected: String,
    pub(super) shown: Shown,
    pub(super) source: Source,
    /// As TOML; none if the key may be left out.
    pub(crate) default: Option<String>,
    /// None for lists and tables, which no variable can hold, and in tables without a name.
    pub(crate) variable: Option<String>,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Shown {
    Value(String),
    Absent,
    /// Kept only to be compared.
    Hidden(Secret),
    /// What may be shown of it, and the whole to be compared.
    InPart(String, Secret),
}

/// A key that nobody has read.
struct Unread {
    name: String,
    source: Source,
    pattern: &'static str,
    /// What is read beside it.
    siblings: Vec<&'static str>,
}

/// A table of the file, which may be absent.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    entries: Option<&'a DeTable<'a>>,
}

/// One table while its keys are read.
pub(super) struct SectionReader<'r, 'a> {
    reading: &'r mut Reading<'a>,
    table: Table<'a>,
    /// Before the name of a key in flags and variables; none if neither can reach it.
    path: Option<String>,
    flag_path: String,
    pattern: &'static str,
    header: String,
    keys: Vec<Key>,
    tables: Vec<&'static str>,
}

impl<'a> Reading<'a> {
    pub(super) fn new(typed: &'a Typed, root: &'a DeTable<'a>) -> Self {
        let (problems, obstacles) = (Vec::new(), Vec::new());
        Self { typed, root, problems, warnings: Vec::new(), obstacles, unread: Vec::new(), sections: Vec::new() }
    }

    /// The keys at the top; `tables` are the names beside them that other sections read.
    pub(super) fn top(&mut self, tables: &[&'static str]) -> SectionReader<'_, 'a> {
        let table = self.root();
        let mut section = self.section("", "", "", table);
        section.tables = tables.into();
        section
    }

    /// One table; its keys begin with `path` in flags and variables.
    pub(super) fn section(
        &mut self,
        pattern: &'static str,
        header: &str,
        path: &str,
        table: Table<'a>,
    ) -> SectionReader<'_, 'a> {
        SectionReader {
            reading: self,
            table,
            path: Some(path.into()),
            flag_path: path.into(),
            pattern,
            header: header.into(),
            keys: Vec::new(),
            tables: Vec::new(),
        }
    }

    pub(super) fn root(&self) -> Table<'a> {
        Table { entries: Some(self.root) }
    }

    /// A table below the top.
    pub(super) fn table(&mut self, name: &'static str) -> Table<'a> {
        let Some((_, value)) = entry(self.root, name) else { return Table { entries: None } };
        match value.get_ref() {
            DeValue::Table(entries) => Table { entries: Some(entries) },
            other => {
                let what = format!("`{name}` is a table: write [{name}], not {}", Raw::Toml(other).found());
                self.complain(self.line_of(&value.span()), what);
                Table { entries: None }
            }
        }
    }

    /// The tables of a list of tables.
    pub(super) fn list(&mut self, parent: Table<'a>, header: &'static str, name: &str) -> Vec<Table<'a>> {
        let Some((_, value)) = parent.entries.and_then(|entries| entry(entries, name)) else { return Vec::new() };
        let tables: Option<Vec<Table<'a>>> = match value.get_ref() {
            DeValue::Array(tables) => tables.iter().map(|table| Table::of(table.get_ref())).collect(),
            _ => None,
        };
        tables.unwrap_or_else(|| {
            self.complain(self.line_of(&value.span()), format!("there may be several: write {header} above each"));
            Vec::new()
        })
    }

    /// The tables of a table, with their names.
    pub(super) fn named(&mut self, name: &'static str) -> Vec<(&'a str, Table<'a>)> {
        let Some(entries) = self.table(name).entries else { return Vec::new() };
        let mut named = Vec::new();
        for (key, value) in entries {
            match Table::of(value.get_ref()) {
                Some(table) => named.push((key.get_ref().as_ref(), table)),
                None => {
                    let what = format!("`{}` is no key of [{name}]: it holds tables, [{name}.NAME]", key.get_ref());
                    self.complain(self.line_of(&key.span()), what);
                }
            }
        }
        named
    }

    pub(super) fn complain(&mut self, source: Source, what: String) {
        self.problems.push(Problem { source, what });
    }

    /// Says what is wrong with every key that nobody has read, now that all others are known.
    pub(super) fn finish(mut self) -> Result<Vec<Section>, Vec<Problem>> {
        for Unread { name, source, pattern, siblings } in std::mem::take(&mut self.unread) {
            let place = if pattern.is_empty() { "at the top".into() } else { format!("in {pattern}") };
            let elsewhere = self.sections.iter().find(|section| section.keys.iter().any(|key| key.name == name));
            let hint = match (nearest(&name, siblings.iter().copied()), elsewhere) {
                (Some(near), _) => format!("did you mean `{near}`?"),
                (None, Some(section)) if section.pattern.is_empty() => "it belongs above the first table".into(),
                (None, Some(section)) => format!("it belongs in {}", section.pattern),
                (None, None) => format!("there are {}", siblings.join(", ")),
            };
            self.complain(source, format!("unknown key `{name}` {place}: {hint}"));
        }
        self.problems.sort();
        self.problems.dedup();
        if self.problems.is_empty() { Ok(self.sections) } else { Err(self.problems) }
    }

    fn line_of(&self, span: &Range<usize>) -> Source {
        match &self.typed.file {
            Some(file) => file.line_of(span),
            None => Source::Default,
        }
    }

    fn home(&self) -> Option<&'a Path> {
        self.typed.variables.get("HOME").filter(|home| !home.is_empty()).map(Path::new)
    }
}

impl File {
    pub(super) fn line_of(&self, span: &Range<usize>) -> Source {
        let before = self.text.get(..span.start).unwrap_or(&self.text);
        Source::File { path: self.path.clone(), line: 1 + before.matches('\n').count() }
    }
}

impl<'a> Table<'a> {
    pub(super) const ABSENT: Self = Self { entries: None };

    /// What the table calls itself.
    pub(super) fn name(self) -> Option<&'a str> {
        entry(self.entries?, NAME)?.1.get_ref().as_str()
    }

    fn of(value: &'a DeValue<'a>) -> Option<Self> {
        match value {
            DeValue::Table(entries) => Some(Self { entries: Some(entries) }),
            _ => None,
        }
    }
}

fn entry<'a>(
    table: &'a DeTable<'a>,
    name: &str,
) -> Option<(&'a Spanned<std::borrow::Cow<'a, str>>, &'a Spanned<DeValue<'a>>)> {
    table.iter().find(|(key, _)| key.get_ref() == name)
}

impl<'a> SectionReader<'_, 'a> {
    /// The section of which flags speak without its name.
    pub(super) fn reached_by_flags_as(mut self, path: &str) -> Self {
        self.flag_path = path.into();
        self
    }

    /// No flag or variable can name one table of a list.
    pub(super) fn only_in_file(mut self) -> Self {
        self.path = None;
        self
    }

    /// A name beside the keys that another section reads.
    pub(super) fn has_table(&mut self, name: &'static str) {
        self.tables.push(name);
    }

    /// A value that there always is.
    pub(super) fn value<T: 'static>(
        &mut self,
        name: &'static str,
        kind: &Kind<T>,
        default: &str,
        help: &'static str,
    ) -> T {
        self.value_or(name, kind, (default.into(), Source::Default), help)
    }

    /// The same with a default that comes from somewhere.
    pub(super) fn value_or<T: 'static>(
        &mut self,
        name: &'static str,
        kind: &Kind<T>,
        (default, from): (String, Source),
        help: &'static str,
    ) -> T {
        let fallback = self.default(name, kind, &default);
        let written = kind.show(&fallback);
        let typed = self.typed(name, kind);
        let (value, source) = typed.unwrap_or((fallback, from));
        self.note(name, kind, Shown::Value(kind.show(&value)), source, Some(written), help);
        value
    }

    /// A value that is there already, unless another one was typed.
    pub(super) fn set<T: 'static>(&mut self, value: &mut T, name: &'static str, kind: &Kind<T>, help: &'static str) {
        let default = kind.show(value);
        let source = match self.typed(name, kind) {
            Some((typed, source)) => {
                *value = typed;
                source
            }
            None => Source::Default,
        };
        self.note(name, kind, Shown::Value(kind.show(value)), source, Some(default), help);
    }

    /// A value that may be left out, with a default that there may be.
    pub(super) fn optional_or<T: 'static>(
        &mut self,
        name: &'static str,
        kind: &Kind<T>,
        default: Option<(String, Source)>,
        help: &'static str,
    ) -> Option<T> {
        match default {
            Some(default) => Some(self.value_or(name, kind, default, help)),
            None => self.optional(name, kind, help),
        }
    }

    /// A value that may be left out.
    pub(super) fn optional<T: 'static>(&mut self, name: &'static str, kind: &Kind<T>, help: &'static str) -> Option<T> {
        let (value, source) = self.typed(name, kind).unzip();
        let shown = value.as_ref().map_or(Shown::Absent, |value| Shown::Value(kind.show(value)));
        self.note(name, kind, shown, source.unwrap_or(Source::Default), None, help);
        value
    }

    /// A value that must be there.
    pub(super) fn needed<T: 'static>(&mut self, name: &'static str, kind: &Kind<T>, help: &'static str) -> Option<T> {
        let is_there = self.has(name);
        let value = self.optional(name, kind, help);
        if !is_there {
            self.complain_of_table(format!("`{name}` is missing in {}: expected {}", self.pattern, kind.expected));
        }
        value
    }

    /// A text that is shown nowhere.
    pub(super) fn secret(&mut self, name: &'static str, help: &'static str) -> Option<Secret> {
        self.hidden(name, &Kind::secret(), help).map(Secret::new)
    }

    /// A value that may be left out and is shown nowhere.
    pub(super) fn hidden<T: 'static>(&mut self, name: &'static str, kind: &Kind<T>, help: &'static str) -> Option<T> {
        let (value, source) = self.typed(name, kind).unzip();
        let shown = value.as_ref().map_or(Shown::Absent, |value| Shown::Hidden(Secret::new(kind.show(value))));
        self.note(name, kind, shown, source.unwrap_or(Source::Default), None, help);
        value
    }

    /// An address that may be left out; what may be a secret in it is shown nowhere.
    pub(super) fn address(&mut self, name: &'static str, kind: &Kind<String>, help: &'static str) -> Option<String> {
        let (value, source) = self.typed(name, kind).unzip();
        let shown = match value.as_deref().map(|address| (address, public_address(address))) {
            None => Shown::Absent,
            Some((address, public)) if public == address => Shown::Value(quoted(address)),
            Some((address, public)) => Shown::InPart(quoted(&public), Secret::new(address)),
        };
        self.note(name, kind, shown, source.unwrap_or(Source::Default), None, help);
        value
    }

    /// Whether somebody has typed something for it.
    pub(super) fn has(&self, name: &str) -> bool {
        self.raw(name).is_some()
    }

    /// Where the value of a key that was read stands.
    pub(super) fn source_of(&self, name: &str) -> Source {
        self.keys.iter().find(|key| key.name == name).map_or(Source::Default, |key| key.source.clone())
    }

    pub(super) fn complain(&mut self, name: &str, what: String) {
        let source = self.source_of(name);
        self.reading.complain(source, what);
    }

    /// The same of the table as a whole.
    pub(super) fn complain_of_table(&mut self, what: String) {
        let source = self.table_source();
        self.reading.complain(source, what);
    }

    /// Says what looks like a mistake.
    pub(super) fn warn(&mut self, name: &str, what: &str) {
        let source = self.source_of(name);
        self.reading.warnings.push(format!("{source}: {what}"));
    }

    /// All keys of this table are read.
    pub(super) fn finish(self) {
        let siblings: Vec<&str> = self.keys.iter().map(|key| key.name).chain(self.tables).collect();
        for (key, _) in self.table.entries.into_iter().flatten() {
            if !siblings.contains(&key.get_ref().as_ref()) {
                let source = self.reading.line_of(&key.span());
                let name = key.get_ref().to_string();
                self.reading.unread.push(Unread { name, source, pattern: self.pattern, siblings: siblings.clone() });
            }
        }
        self.reading.sections.push(Section { header: self.header, pattern: self.pattern, keys: self.keys });
    }

    fn note<T: 'static>(
        &mut self,
        name: &'static str,
        kind: &Kind<T>,
        shown: Shown,
        source: Source,
        default: Option<String>,
        help: &'static str,
    ) {
        let is_in_parts = ["a list", "a table"].iter().any(|kinds| kind.expected.starts_with(kinds));
        let variable = self.variable(name).filter(|_| !is_in_parts);
        let expected = kind.expected.clone();
        self.keys.push(Key { name, help, expected, shown, source, default, variable });
    }

    /// What somebody typed; a value that cannot be read is a problem, and as good as none.
    fn typed<T: 'static>(&mut self, name: &'static str, kind: &Kind<T>) -> Option<(T, Source)> {
        let (raw, source) = self.raw(name)?;
        let typed = self.reading.typed;
        let base = match (&source, &typed.file) {
            (Source::File { .. }, Some(file)) => file.path.parent().unwrap_or(&typed.cwd),
            _ => &typed.cwd,
        };
        let place = Place { base: &typed.cwd.join(base), home: self.reading.home() };
        if let Some(value) = kind.read(raw, &place) {
            return Some((value, source));
        }
        let found = (kind.found)(raw);
        let near = nearest(found.trim_matches('"'), kind.choices.iter().copied());
        let hint = near.map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
        let key = if let Source::File { .. } = source { format!("`{name}`: ") } else { String::new() };
        self.reading.complain(source, format!("{key}expected {}, found {found}{hint}", kind.expected));
        None
    }

    fn raw(&self, name: &str) -> Option<(Raw<'a>, Source)> {
        let typed = self.reading.typed;
        let path = dotted(&self.flag_path, name);
        if let Some(flag) = typed.flags.iter().find(|flag| self.path.is_some() && flag.key == path) {
            return Some((Raw::Text(&flag.value), Source::Flag(flag.name)));
        }
        let variable = self.variable(name);
        let is_set = |name: &String| typed.variables.get(name).filter(|value| !value.is_empty());
        if let Some((name, value)) = variable.and_then(|name| is_set(&name).map(|value| (name, value))) {
            return Some((Raw::Text(value), Source::Variable(name)));
        }
        let (_, value) = entry(self.table.entries?, name)?;
        Some((Raw::Toml(value.get_ref()), self.reading.line_of(&value.span())))
    }

    fn variable(&self, name: &str) -> Option<String> {
        let path = dotted(self.path.as_deref().filter(|_| name != NAME)?, name);
        if let Some((_, short)) = SHORT.iter().find(|(long, _)| *long == path) {
            return Some((*short).into());
        }
        Some(format!("{PREFIX}{}", path.to_uppercase().replace(['.', '-'], "_")))
    }

    fn default<T: 'static>(&mut self, name: &str, kind: &Kind<T>, default: &str) -> T {
        let home = self.reading.home();
        let is_needed = default.starts_with('~') && self.raw(name).is_none();
        if home.is_none() && is_needed {
            let what = format!("`{name}` is {default} by default, but HOME is not set: set one of the two");
            self.reading.complain(Source::Default, what);
        }
        let place = Place { base: &self.reading.typed.cwd, home: home.or(Some(Path::new("/"))) };
        kind.read(Raw::Text(default), &place)
            .unwrap_or_else(|| panic!("the default of `{name}` is not {}", kind.expected))
    }

    fn table_source(&self) -> Source {
        let first = self.table.entries.and_then(|entries| entries.iter().next());
        first.map_or(Source::Default, |(key, _)| self.reading.line_of(&key.span()))
    }
}

fn dotted(path: &str, name: &str) -> String {
    if path.is_empty() { name.into() } else { format!("{path}.{name}") }
}
