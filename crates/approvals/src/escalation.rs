//! Whether a request asks to lift a restriction of its worker. People are shown this first, and only an operator, a rule
//! or a hook of the configuration may allow it: on a shared worker it concerns every key.
//!
//! The worker has no field for it. It passes on the model's justification as `reason`, and a model may leave that out
//! (codex 0.145 to 0.169), so a command without any sign may run outside the sandbox as well.

use serde::Serialize;
use serde_json::Value;

use crate::who::Kind;

/// A restriction that a request asks to lift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Escalation {
    /// It gives a reason to run outside the sandbox.
    OutsideSandbox,
    /// It asks for more permissions than its thread has.
    Permissions,
    /// It asks for a network.
    Network,
    /// It asks to write below another directory.
    WriteRoot,
    /// A command with no sign of any of these: the worker does not say whether it stays inside the sandbox.
    Possible,
}

impl Escalation {
    /// All that a request asks for.
    pub(crate) fn of(kind: Kind, params: &Value) -> Vec<Self> {
        let has = |name: &str| params.get(name).is_some_and(|value| !value.is_null());
        let is_about_worker = matches!(kind, Kind::Command | Kind::FileChange | Kind::Permissions);
        let signs = [
            (Self::OutsideSandbox, kind != Kind::Permissions && has("reason")),
            (Self::Permissions, kind == Kind::Permissions || has("additionalPermissions")),
            (Self::Network, has("networkApprovalContext")),
            (Self::WriteRoot, has("grantRoot") || has("grant_root")),
        ];
        let mut found: Vec<_> =
            signs.into_iter().filter_map(|(sign, is_there)| (is_about_worker && is_there).then_some(sign)).collect();
        if kind == Kind::Command && found.is_empty() {
            found.push(Self::Possible);
        }
        found
    }

    /// Every one.
    pub const ALL: [Self; 5] =
        [Self::OutsideSandbox, Self::Permissions, Self::Network, Self::WriteRoot, Self::Possible];

    /// The name that JSON has for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OutsideSandbox => "outside_sandbox",
            Self::Permissions => "permissions",
            Self::Network => "network",
            Self::WriteRoot => "write_root",
            Self::Possible => "possible",
        }
    }

    /// What it means, for a person.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::OutsideSandbox => "runs outside the sandbox",
            Self::Permissions => "asks for more permissions",
            Self::Network => "asks for network access",
            Self::WriteRoot => "asks to write below another directory",
            Self::Possible => "may run outside the sandbox, the worker does not say",
        }
    }
}

#[cfg(test)]
mod adversary {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_escalation_has_the_same_name_everywhere() {
        for escalation in Escalation::ALL {
            assert_eq!(serde_json::to_string(&escalation).unwrap(), format!("{:?}", escalation.name()));
        }
    }

    #[test]
    fn whatever_lifts_a_restriction_is_an_escalation() {
        use Escalation::{Network, OutsideSandbox, Permissions, Possible, WriteRoot};
        for (kind, params, expected) in [
            (Kind::Command, json!({"command": "ls", "reason": "I need it"}), vec![OutsideSandbox]),
            (Kind::Command, json!({"command": ["ls"], "reason": "", "risk": null}), vec![OutsideSandbox]),
            (Kind::Command, json!({"additionalPermissions": {"network": {}}}), vec![Permissions]),
            (Kind::Command, json!({"reason": "x", "networkApprovalContext": {}}), vec![OutsideSandbox, Network]),
            (Kind::FileChange, json!({"reason": null, "grantRoot": "/"}), vec![WriteRoot]),
            (Kind::FileChange, json!({"reason": null, "grantRoot": null}), vec![]),
            (Kind::Permissions, json!({"permissions": {}, "reason": "x"}), vec![Permissions]),
            (Kind::Elicitation, json!({"reason": "x", "grantRoot": "/"}), vec![]),
            (Kind::ToolConfirmation, json!({"reason": "x"}), vec![]),
            // A model that gives no justification makes a request without `reason`, and runs outside all the same.
            (Kind::Command, json!({"command": "ls", "reason": null}), vec![Possible]),
            (Kind::Command, json!({"command": "ls"}), vec![Possible]),
        ] {
            assert_eq!(Escalation::of(kind, &params), expected, "{kind:?} {params}");
        }
    }
}
