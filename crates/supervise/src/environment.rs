//! The environment of a child: nothing of ours but an allow-list, then what the launch names, then our two marks.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The variable that marks every child, and whatever it starts in turn, as ours.
pub const OWNER_VARIABLE: &str = "SWITCHBOARD_OWNER";

/// The variable that marks one child, and whatever it starts in turn.
pub const CHILD_VARIABLE: &str = "SWITCHBOARD_CHILD";

/// Stands in an argument of a [`Launch`](crate::Launch) for the value of [`OWNER_VARIABLE`].
pub const OWNER_PLACEHOLDER: &str = "{SWITCHBOARD_OWNER}";

/// Stands in an argument of a [`Launch`](crate::Launch) for the value of [`CHILD_VARIABLE`].
pub const CHILD_PLACEHOLDER: &str = "{SWITCHBOARD_CHILD}";

/// One Switchboard process, as its children are marked with it; made once and given to every [`Launch`](crate::Launch).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Owner(Uuid);

impl Owner {
    /// A mark that no other process has.
    #[must_use]
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }

    /// Whether the environment has a mark of any Switchboard.
    pub(crate) fn is_in(environment: &[u8]) -> bool {
        variables(environment).any(|(name, _)| name == OWNER_VARIABLE.as_bytes())
    }

    pub(crate) fn mark(self) -> Mark {
        Mark { variable: OWNER_VARIABLE, value: self.0 }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a process and all its descendants are known by, unless one of them wipes its environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    variable: &'static str,
    value: Uuid,
}

impl Mark {
    /// The mark of a child that is about to be started.
    pub(crate) fn of_new_child() -> Self {
        Self { variable: CHILD_VARIABLE, value: Uuid::now_v7() }
    }

    /// The mark of the child from which this environment was inherited.
    pub(crate) fn of_child(environment: &[u8]) -> Option<Self> {
        let value =
            variables(environment).find_map(|(name, value)| (name == CHILD_VARIABLE.as_bytes()).then_some(value))?;
        let value = Uuid::from_str(str::from_utf8(value).ok()?).ok()?;
        Some(Self { variable: CHILD_VARIABLE, value })
    }

    /// Whether the environment, each variable closed by a zero byte, has the very variable with the very value.
    pub(crate) fn is_in(self, environment: &[u8]) -> bool {
        let value = self.value.to_string();
        variables(environment).any(|variable| variable == (self.variable.as_bytes(), value.as_bytes()))
    }

    fn placeholder(self) -> &'static str {
        if self.variable == OWNER_VARIABLE { OWNER_PLACEHOLDER } else { CHILD_PLACEHOLDER }
    }

    fn into_variable(self) -> (OsString, OsString) {
        (self.variable.into(), self.value.to_string().into())
    }
}

/// The argument with the values of the marks in place of their placeholders.
pub(crate) fn marked_argument(argument: &OsStr, marks: [Mark; 2]) -> OsString {
    let Some(text) = argument.to_str() else { return argument.into() };
    let replace = |text: String, mark: Mark| text.replace(mark.placeholder(), &mark.value.to_string());
    marks.into_iter().fold(text.to_owned(), replace).into()
}

/// The variables of an environment, each closed by a zero byte.
pub(crate) fn variables(environment: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    environment.split(|byte| *byte == 0).filter_map(|variable| {
        let end = variable.iter().position(|byte| *byte == b'=')?;
        Some((&variable[..end], &variable[end + 1..]))
    })
}

/// What a program needs in order to find its user, its tools, its language and the roots it trusts. Credentials,
/// proxies (their addresses can hold passwords) and all the rest reach a child only when the launch names them.
const KEPT: [&str; 12] = [
    "HOME",
    "LANG",
    "LC_ALL",
    "LOGNAME",
    "PATH",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
];

/// The whole environment of a child.
pub(crate) fn of_child(
    ours: impl IntoIterator<Item = (OsString, OsString)>,
    named: &[(OsString, OsString)],
    marks: [Mark; 2],
) -> BTreeMap<OsString, OsString> {
    let kept = ours.into_iter().filter(|(name, _)| KEPT.iter().any(|kept| name == kept));
    kept.chain(named.iter().cloned()).chain(marks.map(Mark::into_variable)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(of: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        of.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn named_variables_win_over_kept_ones_and_the_marks_over_both() {
        let (owner, child) = (Owner::generate(), Mark::of_new_child());
        let ours = pairs(&[("PATH", "/bin"), ("HOME", "/root"), ("API_KEY", "secret"), (OWNER_VARIABLE, "older")]);
        let named = pairs(&[("HOME", "/srv"), ("CODEX_HOME", "/srv/codex"), (CHILD_VARIABLE, "forged")]);
        let environment: Vec<_> = of_child(ours, &named, [owner.mark(), child]).into_iter().collect();
        let (owner, child) = (owner.to_string(), child.value.to_string());
        let expected = [
            ("CODEX_HOME", "/srv/codex"),
            ("HOME", "/srv"),
            ("PATH", "/bin"),
            (CHILD_VARIABLE, &child),
            (OWNER_VARIABLE, &owner),
        ];
        assert_eq!(environment, pairs(&expected));
    }

    #[test]
    fn placeholders_in_arguments_become_the_marks() {
        let marks = [Owner::generate().mark(), Mark::of_new_child()];
        let [owner, child] = marks.map(|mark| mark.value.to_string());
        let argument = format!("a={OWNER_PLACEHOLDER} b={CHILD_PLACEHOLDER} c={{OTHER}}");
        let marked = marked_argument(OsStr::new(&argument), marks);
        assert_eq!(marked, *format!("a={owner} b={child} c={{OTHER}}"));
    }

    #[test]
    fn a_mark_is_the_whole_variable_with_the_whole_value() {
        let mark = Owner::generate().mark();
        let entry = format!("{OWNER_VARIABLE}={}", mark.value);
        let holds = |environment: String| mark.is_in(environment.as_bytes());
        assert!(holds(format!("A=1\0{entry}\0B=2\0")));
        assert!(holds(entry.clone()));
        assert!(!holds(format!("NOTE={entry}\0")));
        assert!(!holds(format!("X{entry}\0")));
        assert!(!holds(format!("{entry}0\0")));
        assert!(!holds(format!("{OWNER_VARIABLE}={}\0", Owner::generate())));
        assert!(!holds(String::new()));
    }

    #[test]
    fn the_child_that_an_environment_comes_from_is_read_from_it() {
        let mark = Mark::of_new_child();
        assert_eq!(Mark::of_child(format!("A=1\0{CHILD_VARIABLE}={}\0", mark.value).as_bytes()), Some(mark));
        assert_eq!(Mark::of_child(format!("{CHILD_VARIABLE}=nobody\0").as_bytes()), None);
        assert_eq!(Mark::of_child(b"A=1\0"), None);
    }
}
