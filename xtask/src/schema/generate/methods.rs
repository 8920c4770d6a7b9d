//! The method table to Rust: a name for every call and request, an enum of every notification, and the table itself.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Result, ensure};

use super::boxes::{VARIANT_BYTES_MAX, bytes_of};
use super::names;
use super::shape::{Definition, Type};
use super::write::{fitted, rust};
use crate::schema::beyond;
use crate::schema::history::{History, Kind};
use crate::schema::{Method, MethodTable};

/// Calls as names without values.
pub(super) fn calls(methods: &[Method], answers: &BTreeMap<&str, String>) -> String {
    let mut text = "calls! {\n".to_owned();
    for method in methods {
        let needs = if method.experimental { "experimental" } else { "stable" };
        let fields = method.experimental_fields.as_deref().unwrap_or_default();
        let fields = if fields.is_empty() { String::new() } else { format!(" but {fields:?}") };
        writeln!(text, "    {}, {needs}{fields};", signature(method, answers)).expect("text");
    }
    text + "}\n"
}

/// Requests of a worker as names without values.
pub(super) fn requests(methods: &[Method], answers: &BTreeMap<&str, String>) -> String {
    let line = |method| format!("    {};\n", signature(method, answers));
    format!("requests! {{\n{}}}\n", methods.iter().map(line).collect::<String>())
}

fn signature(method: &Method, answers: &BTreeMap<&str, String>) -> String {
    let params = method.params_name().unwrap_or("()");
    let (name, answer) = (names::pascal(&method.method), &answers[method.method.as_str()]);
    format!("{:?} => {name}({params}) -> {answer}", method.method)
}

/// An enum with a variant for each method, which holds its params.
pub(super) fn by_method(
    name: &str,
    docs: &str,
    methods: &[Method],
    definitions: &BTreeMap<String, Definition>,
) -> Result<String> {
    let mut text = format!("by_method! {{\n    /// {docs}\n    pub enum {name} {{\n");
    for method in methods {
        let params = method.params_name();
        ensure!(params.is_some(), "{} has no params, which the generator does not expect", method.method);
        let holds = Type::Named(params.unwrap_or_default().to_owned());
        let is_large = bytes_of(definitions, &holds) > VARIANT_BYTES_MAX;
        let holds = rust(&if is_large { holds.boxed() } else { holds });
        writeln!(text, "        {}({holds}) = {:?},", names::pascal(&method.method), method.method).expect("text");
    }
    Ok(text + "    }\n}\n")
}

/// Notifications of ours; so far none has params.
pub(super) fn client_notifications(methods: &[Method]) -> Result<String> {
    let mut variants = String::new();
    let mut arms = String::new();
    for method in methods {
        ensure!(method.params.is_none(), "{} has params, which the generator does not expect", method.method);
        let name = names::pascal(&method.method);
        writeln!(variants, "    /// `{}`\n    {name},", method.method).expect("text");
        writeln!(arms, "            Self::{name} => {:?},", method.method).expect("text");
    }
    Ok(format!(
        "/// What we can tell a worker.\n#[derive(Clone, Copy, Debug, PartialEq, Eq)]\npub enum ClientNotification \
         {{\n{variants}}}\n\nimpl ClientNotification {{\n    /// Its name on the wire.\n    #[must_use]\n    pub const fn \
         method(self) -> &'static str {{\n        match self {{\n{arms}        }}\n    }}\n}}\n"
    ))
}

/// Every method there is or was.
pub(super) fn table(methods: &MethodTable, history: &History) -> String {
    let since =
        |kind, method: &str| history.since(kind, method).map_or("NEWEST".to_owned(), |since| format!("{since:?}"));
    let mut rows = String::new();
    for (kind, group) in methods.by_kind() {
        for method in group {
            let extent = if method.experimental { "Extent::Experimental" } else { "Extent::Stable" };
            rows += &row(kind, &method.method, extent, &since(kind, &method.method), "Until::Today");
        }
    }
    for (method, explanation) in beyond::CALLS {
        let extent = format!("Extent::Unlisted({explanation:?})");
        rows += &row(Kind::Call, method, &extent, &since(Kind::Call, method), "Until::Today");
    }
    let is_beyond = |method: &str| beyond::CALLS.iter().any(|(name, _)| *name == method);
    let gone = history.rows().filter(|row| !methods.has(row.kind, &row.method) && !is_beyond(&row.method));
    for gone in gone {
        let until = format!("Until::Version({:?})", gone.until);
        rows += &row(gone.kind, &gone.method, "Extent::Stable", &format!("{:?}", gone.since), &until);
    }
    format!(
        "/// Every method of the schema, in upstream's order, then those that workers list beside it, and then those that\n\
         /// only older versions have.\npub const METHODS: &[Method] = &[\n{rows}];\n"
    )
}

fn row(kind: Kind, method: &str, extent: &str, since: &str, until: &str) -> String {
    let kind = format!("Kind::{kind:?}");
    let (method, extent) = (format!("{method:?}"), extent.to_owned());
    fitted("    Method::new(", &[kind, method, extent, since.to_owned(), until.to_owned()], "),")
}
