//! A permission profile: which paths the commands of a thread may read or write, and whether they may use the network.
//!
//! It is sent with every call that opens a thread, in place of `sandbox`: a worker that is given both silently drops the
//! profile. Denied paths stay denied after an approved escalation.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// What commands may do with a path and everything below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathAccess {
    /// Read it.
    Read,
    /// Read and write it.
    Write,
    /// Neither, whatever a wider entry says.
    Deny,
}

/// Which paths commands may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PermissionProfile {
    /// By real, absolute path, or by one of the names in [`special`]. What no entry covers cannot be read. The worker also knows
    /// `:workspace_roots`, but resolves that anew for each command, behind whatever link has taken the place of the directory.
    pub paths: BTreeMap<String, PathAccess>,
    /// Whether commands may use the network, the loopback addresses included.
    pub network: bool,
}

/// Names that the worker knows in place of paths.
pub mod special {
    /// The whole file system.
    pub const ROOT: &str = ":root";
    /// The programs and libraries of the system, without `/opt`, `/var` and home directories.
    pub const MINIMAL: &str = ":minimal";
    /// The directory that `TMPDIR` names.
    pub const TMPDIR: &str = ":tmpdir";
    /// `/tmp`.
    pub const SLASH_TMP: &str = ":slash_tmp";
}

impl PermissionProfile {
    /// The name under which the worker is given the profile, and which it must report as active.
    pub(crate) const ID: &str = "switchboard";

    /// The settings that define and select the profile.
    pub(crate) fn settings(&self) -> [(&'static str, Value); 2] {
        let filesystem: BTreeMap<&str, Value> =
            self.paths.iter().map(|(path, access)| (path.as_str(), access.name().into())).collect();
        let profile = json!({ "filesystem": filesystem, "network": { "enabled": self.network } });
        [("default_permissions", Self::ID.into()), ("permissions", json!({ Self::ID: profile }))]
    }
}

impl PathAccess {
    fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Deny => "deny",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use expect_test::expect;
    use serde_json::Value;

    use super::{PathAccess, PermissionProfile, special};

    #[test]
    fn a_profile_is_written_as_the_worker_reads_it() {
        let profile = PermissionProfile {
            paths: BTreeMap::from([
                (special::ROOT.into(), PathAccess::Read),
                ("/srv/app".into(), PathAccess::Write),
                ("/var/lib/switchboard".into(), PathAccess::Deny),
            ]),
            network: false,
        };
        let settings: BTreeMap<&str, Value> = profile.settings().into_iter().collect();
        expect![[r#"
            {
              "default_permissions": "switchboard",
              "permissions": {
                "switchboard": {
                  "filesystem": {
                    "/srv/app": "write",
                    "/var/lib/switchboard": "deny",
                    ":root": "read"
                  },
                  "network": {
                    "enabled": false
                  }
                }
              }
            }"#]]
        .assert_eq(&serde_json::to_string_pretty(&settings).unwrap());
    }
}
