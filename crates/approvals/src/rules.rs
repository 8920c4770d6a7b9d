//! Rules: the first that matches a request decides it, or says that it is to be asked. A rule that allows a command
//! names its first words, and all of them where the program runs whatever its arguments say.

use serde::Deserialize;
use serde_json::Value;

use crate::shown::Shown;
use crate::who::Kind;
use crate::words;

/// One rule; what it leaves out matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rule {
    /// The kind of request.
    pub kind: Option<Kind>,
    /// The first words of the command.
    pub command: Vec<String>,
    /// A directory; the request's own is it or lies below it. File changes have none: what they touch may lie anywhere.
    pub cwd: Option<String>,
    /// The thread.
    pub thread: Option<String>,
    /// The key that started the turn.
    pub key: Option<String>,
    /// What then; asked if it is left out.
    pub then: Then,
}

/// What a rule says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// Allow it, this once.
    Allow,
    /// Deny it.
    Deny,
    /// Ask hooks and people, and no further rule.
    #[default]
    Ask,
}

/// The rules, in their order.
#[derive(Clone, Debug, Default)]
pub struct Rules(Vec<Rule>);

/// Why a list of rules is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// It would allow every command there is.
    #[error("approval rule {number} would allow every command: name its first words in `command`, or another `kind`")]
    AllowsEveryCommand {
        /// Its place; the first is 1.
        number: usize,
    },
    /// The kind is never a rule's to decide.
    #[error("approval rule {number}: no rule may decide `{kind}`; leave it to hooks and people")]
    NotForRules {
        /// Its place; the first is 1.
        number: usize,
        /// The kind.
        kind: &'static str,
    },
    /// What a file change touches may lie anywhere, whatever directory its thread works in.
    #[error("approval rule {number} names a `cwd`, which `file_change` has not: leave one of them out")]
    NoDirectory {
        /// Its place; the first is 1.
        number: usize,
    },
    /// Only commands have words.
    #[error("approval rule {number} names a `command`, which `{kind}` has not: leave one of them out")]
    NoCommand {
        /// Its place; the first is 1.
        number: usize,
        /// The kind.
        kind: &'static str,
    },
}

impl Rules {
    /// Refuses what can only be a mistake.
    pub fn new(rules: Vec<Rule>) -> Result<Self, RuleError> {
        for (number, rule) in (1..).zip(&rules) {
            match rule.kind {
                Some(kind) if !kind.who().rule => return Err(RuleError::NotForRules { number, kind: kind.name() }),
                Some(kind) if kind != Kind::Command && !rule.command.is_empty() => {
                    return Err(RuleError::NoCommand { number, kind: kind.name() });
                }
                Some(Kind::FileChange) if rule.cwd.is_some() => return Err(RuleError::NoDirectory { number }),
                None | Some(Kind::Command) if rule.then == Then::Allow && rule.command.is_empty() => {
                    return Err(RuleError::AllowsEveryCommand { number });
                }
                _ => {}
            }
        }
        Ok(Self(rules))
    }

    /// The first rule that matches, by its number from 1, and what it says.
    pub(crate) fn judge(&self, shown: &Shown) -> Option<(usize, Then)> {
        if !shown.kind.who().rule {
            return None;
        }
        (1..).zip(&self.0).find(|(_, rule)| rule.matches(shown)).map(|(number, rule)| (number, rule.then))
    }
}

impl Rule {
    fn matches(&self, shown: &Shown) -> bool {
        self.kind.is_none_or(|kind| kind == shown.kind)
            && self.thread.as_ref().is_none_or(|thread| *thread == shown.origin.thread)
            && self.key.as_ref().is_none_or(|key| shown.key.as_ref() == Some(key))
            && self.cwd.as_ref().is_none_or(|cwd| runs_within(shown, cwd))
            && (self.then != Then::Allow || !wants_more(shown))
            && (self.command.is_empty() || self.matches_command(shown))
    }

    fn matches_command(&self, shown: &Shown) -> bool {
        let Some(argv) = shown.command.as_deref().filter(|_| shown.kind == Kind::Command) else {
            return false;
        };
        let behind = words::behind_shell(argv);
        let mut readings = [Some(argv), behind.as_deref()].into_iter().flatten();
        match self.then {
            Then::Allow => is_certain(shown) && readings.any(|words| self.allows(words)),
            Then::Deny | Then::Ask => readings.any(|words| words.starts_with(&self.command)),
        }
    }

    fn allows(&self, words: &[String]) -> bool {
        let by_prefix = self.command.first().is_some_and(|program| !words::runs_its_arguments(program));
        words == self.command || (by_prefix && words.starts_with(&self.command))
    }
}

/// Whether the words of the command are surely those that run: the worker says them as a list, or quotes them plainly.
fn is_certain(shown: &Shown) -> bool {
    shown.params.get("command").and_then(Value::as_str).is_none_or(words::is_plainly_quoted)
}

/// Whether a request wants more than this command or these changes: that is never a rule's to allow.
fn wants_more(shown: &Shown) -> bool {
    let is_there = |name| shown.params.get(name).is_some_and(|value| !value.is_null());
    let is_command = shown.params.get("kind").is_none_or(|kind| kind.is_null() || kind == "command");
    let beyond = ["additionalPermissions", "networkApprovalContext", "grantRoot", "grant_root"];
    (shown.kind == Kind::Command && !is_command) || beyond.into_iter().any(is_there)
}

fn runs_within(shown: &Shown, directory: &str) -> bool {
    let cwd = shown.cwd.as_ref().filter(|_| shown.kind != Kind::FileChange);
    cwd.is_some_and(|cwd| is_within(cwd, directory))
}

/// Whether a directory is another or lies below it, by whole names; one with `..` in it lies nowhere.
fn is_within(within: &str, directory: &str) -> bool {
    let rest = within.strip_prefix(directory.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) && within.split('/').all(|name| name != "..")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::shown::tests::command;

    fn rules(text: &str) -> Result<Rules, RuleError> {
        #[derive(Deserialize)]
        struct File {
            rules: Vec<Rule>,
        }
        Rules::new(toml::from_str::<File>(text).unwrap().rules)
    }

    fn said(text: &str, shown: &Shown) -> String {
        match rules(text).unwrap().judge(shown) {
            Some((number, then)) => format!("{number} {then:?}"),
            None => "none".into(),
        }
    }

    #[test]
    fn the_first_match_wins() {
        let text = r#"
            rules = [
                { command = ["git", "push"], then = "ask" },
                { command = ["git"], cwd = "/srv", then = "allow" },
                { kind = "command", then = "deny" },
                { cwd = "/srv", then = "deny" },
                { kind = "file_change", thread = "th", then = "allow" },
            ]"#;
        assert_eq!(said(text, &command(&["git", "push", "--force"])), "1 Ask");
        assert_eq!(said(text, &command(&["git", "status"])), "2 Allow");
        assert_eq!(said(text, &command(&["/bin/bash", "-lc", "git status"])), "2 Allow");
        assert_eq!(said(text, &command(&["/bin/bash", "-lc", "git push"])), "1 Ask");
        assert_eq!(said(text, &command(&["/bin/bash", "-lc", "git status; rm x"])), "3 Deny");
        assert_eq!(said(text, &command(&["gitx"])), "3 Deny");
        assert_eq!(said(text, &command(&["./git", "status"])), "3 Deny");
        let file_change = Shown { kind: Kind::FileChange, command: None, ..command(&[]) };
        assert_eq!(said(text, &file_change), "5 Allow", "a file change is nowhere, whatever its thread's directory");
        assert_eq!(said(text, &Shown { kind: Kind::ToolConfirmation, ..file_change }), "4 Deny");
    }

    #[test]
    fn what_runs_its_arguments_is_allowed_only_as_a_whole() {
        for (rule, words, expected) in [
            (r#"["bash"]"#, &["bash", "-lc", "rm x"][..], "none"),
            (r#"["bash", "-lc"]"#, &["bash", "-lc", "rm x"], "none"),
            (r#"["bash", "-lc", "make; ls"]"#, &["bash", "-lc", "make; ls"], "1 Allow"),
            (r#"["bash", "-lc", "make; ls"]"#, &["bash", "-lc", "make; ls", "x"], "none"),
            (r#"["env"]"#, &["env", "rm", "x"], "none"),
            (r#"["sudo", "ls"]"#, &["/bin/sh", "-c", "sudo ls -l"], "none"),
            (r#"["sudo", "ls"]"#, &["/bin/sh", "-c", "sudo ls"], "1 Allow"),
            (r#"["python3", "-c"]"#, &["python3", "-c", "import os"], "none"),
            (r#"["python3", "-m", "pytest"]"#, &["python3", "-m", "pytest"], "1 Allow"),
            (r#"["ls"]"#, &["/srv/evil/bash", "-lc", "ls"], "none"),
            (r#"["ls"]"#, &["bash", "-lc", "PATH=/srv/evil ls"], "none"),
        ] {
            let text = format!(r#"rules = [{{ command = {rule}, then = "allow" }}]"#);
            assert_eq!(said(&text, &command(words)), expected, "{rule} {words:?}");
        }
    }

    #[test]
    fn what_denies_needs_only_the_first_words() {
        let text = r#"rules = [{ command = ["sudo"], then = "deny" }]"#;
        assert_eq!(said(text, &command(&["sudo", "rm"])), "1 Deny");
        assert_eq!(said(text, &command(&["bash", "-c", "sudo rm x"])), "1 Deny");
    }

    #[test]
    fn what_wants_more_than_it_says_is_never_allowed_by_a_rule() {
        let text = r#"rules = [{ command = ["curl"], then = "allow" }]"#;
        for params in [
            json!({"kind": "network"}),
            json!({"additionalPermissions": {"network": {}}}),
            json!({"networkApprovalContext": {"host": "x"}}),
        ] {
            assert_eq!(said(text, &Shown { params, ..command(&["curl"]) }), "none");
        }
        let plain = json!({"kind": "command", "additionalPermissions": null});
        assert_eq!(said(text, &Shown { params: plain, ..command(&["curl"]) }), "1 Allow");
        assert_eq!(said(text, &Shown { command: None, ..command(&[]) }), "none");
        let files = r#"rules = [{ kind = "file_change", then = "allow" }]"#;
        let root = Shown { kind: Kind::FileChange, params: json!({"grantRoot": "/"}), ..command(&[]) };
        assert_eq!(said(files, &root), "none");
        assert_eq!(said(files, &Shown { params: json!({}), ..root }), "1 Allow");
    }

    #[test]
    fn a_line_that_could_mean_other_words_is_never_allowed_by_a_rule() {
        let text = r#"rules = [{ command = ["git"], then = "allow" }]"#;
        for (line, expected) in [("git status", "1 Allow"), ("git 'a b'", "1 Allow"), ("git status; rm x", "none")] {
            let shown = Shown { params: json!({"command": line}), ..command(&["git", "status;", "rm", "x"]) };
            assert_eq!(said(text, &shown), expected, "{line}");
        }
    }

    #[test]
    fn thread_key_and_directory_must_be_the_very_ones() {
        let text = r#"rules = [{ command = ["ls"], thread = "th", key = "k1", cwd = "/srv/", then = "allow" }]"#;
        let right = Shown { key: Some("k1".into()), ..command(&["ls"]) };
        assert_eq!(said(text, &right), "1 Allow");
        for cwd in [None, Some("/srv2"), Some("/srv/../etc"), Some("srv"), Some("/")] {
            assert_eq!(said(text, &Shown { cwd: cwd.map(Into::into), ..right.clone() }), "none", "{cwd:?}");
        }
        assert_eq!(said(text, &Shown { key: None, ..right.clone() }), "none");
        let mut elsewhere = right;
        elsewhere.origin.thread = "th2".into();
        assert_eq!(said(text, &elsewhere), "none");
    }

    #[test]
    fn mistakes_are_refused() {
        let refused = |text: &str| rules(text).unwrap_err().to_string();
        let all = refused(r#"rules = [{ then = "ask" }, { cwd = "/srv", then = "allow" }]"#);
        assert_eq!(
            all,
            "approval rule 2 would allow every command: name its first words in `command`, or another `kind`"
        );
        assert!(
            refused(r#"rules = [{ kind = "user_input", then = "deny" }]"#).contains("no rule may decide `user_input`")
        );
        assert!(refused(r#"rules = [{ kind = "file_change", cwd = "/srv" }]"#).contains("names a `cwd`"));
        assert!(refused(r#"rules = [{ kind = "permissions", command = ["x"] }]"#).contains("names a `command`"));
        assert!(toml::from_str::<Rule>(r#"comand = ["x"]"#).is_err());
    }
}
