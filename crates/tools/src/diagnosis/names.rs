//! Names of tools that clash, that not every model takes, or too many of them (D16).

use std::collections::HashMap;

use crate::evidence::{Evidence, Listed};
use crate::finding::{Code, Finding, Severity};

use super::place::{Place, key};
use super::schemas::{name_of, shortened};

/// The longest name, and the most tools, that every model's API takes.
const NAME_CHARS_MAX: usize = 64;
const TOOLS_MAX: usize = 128;

pub(super) fn look(evidence: &Evidence) -> Vec<Finding> {
    let mut first: HashMap<&str, &Listed> = HashMap::new();
    let mut findings = Vec::new();
    for listed in evidence.tools.iter().filter(|listed| listed.tool.is_object()) {
        let name = name_of(listed);
        findings.extend(unfit(listed, name));
        if let Some(earlier) = first.get(name) {
            let what = format!("two tools are called `{name}`: this one, and the one at {}", earlier.path);
            let fix = "give each tool a name of its own: only one of the two can be called";
            findings.push(at_name(listed).shows(Code::D16, Severity::Error, what, fix));
        } else if !name.is_empty() {
            first.insert(name, listed);
        }
    }
    findings.extend(odd(evidence));
    let count = evidence.tools.len();
    if count > TOOLS_MAX {
        let what = format!("it has {count} tools, and several models take at most {TOOLS_MAX}");
        let fix =
            "split it into several servers, or name those that are needed under `enabled_tools` in its configuration";
        findings.push(Place::nowhere().shows(Code::D16, Severity::Warning, what, fix));
    }
    findings
}

fn unfit(listed: &Listed, name: &str) -> Option<Finding> {
    if name.is_empty() {
        let what = "a tool has no name".to_owned();
        let fix = "give it a `name` of letters, digits, `_` and `-`";
        return Some(at_name(listed).shows(Code::D16, Severity::Error, what, fix));
    }
    if name.chars().count() > NAME_CHARS_MAX {
        let what = format!("the name `{name}` is longer than the {NAME_CHARS_MAX} characters that every model takes");
        return Some(at_name(listed).shows(Code::D16, Severity::Warning, what, "shorten it"));
    }
    None
}

/// One finding for all names that have a character which not every model takes: such names come in sets.
fn odd(evidence: &Evidence) -> Option<Finding> {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let odd: Vec<&Listed> = evidence.tools.iter().filter(|listed| !name_of(listed).chars().all(is_safe)).collect();
    let first = odd.first()?;
    let names: Vec<String> = odd.iter().map(|listed| format!("`{}`", name_of(listed))).collect();
    let has_only_dots = odd.iter().all(|listed| name_of(listed).chars().all(|c| is_safe(c) || c == '.'));
    let which = if has_only_dots { "a dot, which MCP allows and" } else { "a character that" };
    let what = format!("names of tools have {which} several models refuse: {}", shortened(&names));
    let safe: String = name_of(first).chars().map(|c| if is_safe(c) { c } else { '_' }).collect();
    let fix = format!("use letters, digits, `_` and `-` alone, as in `{safe}`");
    Some(at_name(first).shows(Code::D16, Severity::Warning, what, fix))
}

fn at_name(listed: &Listed) -> Place {
    Place::of_tool(listed, key(&listed.path, "name"))
}
