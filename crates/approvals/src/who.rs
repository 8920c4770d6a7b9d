//! The table of who may answer which kind of request, and what it comes to when nobody does.

use serde::{Deserialize, Serialize};

/// What a request asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// May this command run?
    Command,
    /// May these files change?
    FileChange,
    /// May the sandbox be wider?
    Permissions,
    /// A question to the person.
    UserInput,
    /// A tool server's question to the person.
    Elicitation,
    /// Fresh tokens of the account.
    AuthTokens,
    /// A proof of the client's identity.
    Attestation,
    /// May this tool of a tool server be called?
    ToolConfirmation,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Who {
    /// The kind of request that the row is about.
    pub kind: Kind,
    /// The methods that ask it, in every dialect.
    pub methods: &'static [&'static str],
    /// Whether a rule may decide it.
    pub rule: bool,
    /// Whether a hook may.
    pub hook: bool,
    /// Whether a person may.
    pub person: bool,
    /// What the worker is told when the deadline passes; for all of them the verdict is to deny.
    pub at_deadline: &'static str,
}

#[rustfmt::skip]
const TABLE: [Who; 8] = {
    use Kind::{Attestation, AuthTokens, Command, Elicitation, FileChange, Permissions, ToolConfirmation, UserInput};
    const fn row(kind: Kind, methods: &'static [&'static str], by: [bool; 3], at_deadline: &'static str) -> Who {
        let [rule, hook, person] = by;
        Who { kind, methods, rule, hook, person, at_deadline }
    }
    //                                                                                           rule   hook  person
    [
        row(Command, &["item/commandExecution/requestApproval", "execCommandApproval"],         [true,  true, true],  "declined"),
        row(FileChange, &["item/fileChange/requestApproval", "applyPatchApproval"],             [true,  true, true],  "declined"),
        row(Permissions, &["item/permissions/requestApproval"],                                 [true,  true, true],  "nothing granted"),
        row(UserInput, &["item/tool/requestUserInput"],                                         [false, true, true],  "no answers"),
        row(Elicitation, &["mcpServer/elicitation/request"],                                    [false, true, true],  "declined"),
        row(AuthTokens, &["account/chatgptAuthTokens/refresh"],                                 [false, true, false], "an error"),
        row(Attestation, &["attestation/generate"],                                             [false, true, false], "an error"),
        row(ToolConfirmation, &["tools/call"],                                                  [true,  true, true],  "declined"),
    ]
};

impl Kind {
    /// Every kind, in the order of the table.
    pub const ALL: [Self; 8] = [
        TABLE[0].kind,
        TABLE[1].kind,
        TABLE[2].kind,
        TABLE[3].kind,
        TABLE[4].kind,
        TABLE[5].kind,
        TABLE[6].kind,
        TABLE[7].kind,
    ];

    /// What a request with this method asks; `None` for what never waits for a decision here.
    #[must_use]
    pub fn of_method(method: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.methods.contains(&method)).map(|row| row.kind)
    }

    /// Who may answer it.
    #[must_use]
    pub fn who(self) -> Who {
        *TABLE.iter().find(|row| row.kind == self).expect("the table has a row for every kind")
    }

    /// The name that configuration, store and HTTP use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::FileChange => "file_change",
            Self::Permissions => "permissions",
            Self::UserInput => "user_input",
            Self::Elicitation => "elicitation",
            Self::AuthTokens => "auth_tokens",
            Self::Attestation => "attestation",
            Self::ToolConfirmation => "tool_confirmation",
        }
    }

    /// The kind of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether an answer to it is a secret, which nothing here writes down or shows.
    #[must_use]
    pub(crate) fn answer_is_secret(self) -> bool {
        matches!(self, Self::AuthTokens | Self::Attestation)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use expect_test::expect;

    use super::*;

    #[test]
    fn the_table_reads_as_documented() {
        let mut table = String::new();
        for kind in Kind::ALL {
            let Who { methods, rule, hook, person, at_deadline, .. } = kind.who();
            let by: Vec<_> = [("rule", rule), ("hook", hook), ("person", person)]
                .into_iter()
                .filter_map(|(name, may)| may.then_some(name))
                .collect();
            writeln!(table, "{} ({}): {}; then {at_deadline}", kind.name(), methods.join(", "), by.join(", ")).unwrap();
        }
        expect![[r#"
            command (item/commandExecution/requestApproval, execCommandApproval): rule, hook, person; then declined
            file_change (item/fileChange/requestApproval, applyPatchApproval): rule, hook, person; then declined
            permissions (item/permissions/requestApproval): rule, hook, person; then nothing granted
            user_input (item/tool/requestUserInput): hook, person; then no answers
            elicitation (mcpServer/elicitation/request): hook, person; then declined
            auth_tokens (account/chatgptAuthTokens/refresh): hook; then an error
            attestation (attestation/generate): hook; then an error
            tool_confirmation (tools/call): rule, hook, person; then declined
        "#]]
        .assert_eq(&table);
    }

    #[test]
    fn a_name_means_the_same_in_every_place() {
        for kind in Kind::ALL {
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("{:?}", kind.name()));
            assert_eq!(Kind::named(kind.name()), Some(kind));
        }
        assert_eq!(Kind::of_method("item/tool/call"), None);
        assert_eq!(Kind::of_method("currentTime/read"), None);
    }
}
