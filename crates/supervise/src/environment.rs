//! The environment of a child: nothing of ours but an allow-list, then what the launch names, then our mark.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;

use uuid::Uuid;

/// The variable that marks every child, and whatever it starts in turn, as ours.
pub const OWNER_VARIABLE: &str = "SWITCHBOARD_OWNER";

/// One Switchboard process, as its children are marked with it; made once and given to every [`Launch`](crate::Launch).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner(Uuid);

impl Owner {
    /// A mark that no other process has.
    #[must_use]
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
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
    owner: Owner,
) -> BTreeMap<OsString, OsString> {
    let kept = ours.into_iter().filter(|(name, _)| KEPT.iter().any(|kept| name == kept));
    let mark = (OWNER_VARIABLE.into(), owner.to_string().into());
    kept.chain(named.iter().cloned()).chain([mark]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(of: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        of.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn named_variables_win_over_kept_ones_and_the_mark_over_both() {
        let owner = Owner::generate();
        let ours = pairs(&[("PATH", "/bin"), ("HOME", "/root"), ("API_KEY", "secret"), (OWNER_VARIABLE, "older")]);
        let named = pairs(&[("HOME", "/srv"), ("CODEX_HOME", "/srv/codex"), (OWNER_VARIABLE, "forged")]);
        let environment: Vec<_> = of_child(ours, &named, owner).into_iter().collect();
        let mark = owner.to_string();
        let expected =
            [("CODEX_HOME", "/srv/codex"), ("HOME", "/srv"), ("PATH", "/bin"), (OWNER_VARIABLE, mark.as_str())];
        assert_eq!(environment, pairs(&expected));
    }
}
