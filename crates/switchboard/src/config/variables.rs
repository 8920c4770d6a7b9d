//! The variables of ours, and those that only look like it.

use std::collections::BTreeMap;

use super::nearest::nearest;
use super::reading::Section;

/// Begins the name of every variable of ours.
pub(super) const PREFIX: &str = "SWITCHBOARD_";
/// Where the configuration file is.
pub(super) const FILE: &str = "SWITCHBOARD_CONFIG";
/// Variables of ours that set no key: marks of our children, and what tests are told.
const OTHERS: [&str; 5] =
    [FILE, "SWITCHBOARD_OWNER", "SWITCHBOARD_CHILD", "SWITCHBOARD_CODEX", "SWITCHBOARD_TEST_SCALE"];

/// What may be a misspelt variable: it would be passed over without a word.
pub(super) fn unknown(variables: &BTreeMap<String, String>, sections: &[Section]) -> Vec<String> {
    let known = || sections.iter().flat_map(|section| &section.keys).filter_map(|key| key.variable.as_deref());
    let ours = variables.keys().filter(|name| name.starts_with(PREFIX) && !OTHERS.contains(&name.as_str()));
    let unknown = ours.filter(|name| known().all(|known| known != **name));
    let warning = |name: &String| match nearest(name, known()) {
        Some(near) => format!("{name} sets nothing: did you mean {near}?"),
        None => format!("{name} sets nothing"),
    };
    unknown.map(warning).collect()
}
