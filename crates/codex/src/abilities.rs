//! What a worker can do: by its version, and by its own list of methods where it gives one.
//!
//! There is no negotiation upstream. The facts below were measured on real binaries, some of them between the versions
//! that `docs/compatibility.md` lists.

use std::collections::BTreeSet;
use std::fmt;

use wire::{Outcome, PeerError};

use crate::handshake::Greeting;

/// A method that no worker has: most answer it with the list of those they have.
pub const PROBE: &str = "switchboard/probe";

/// More names than this in one list are not believed; the newest worker knows fewer than two hundred.
const METHODS_MAX: usize = 4096;

/// Which of the two protocols a worker is spoken to in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Conversations: `newConversation`, `sendUserTurn`, `codex/event/*`.
    V1,
    /// Threads: `thread/*`, `turn/*`, `item/*`.
    V2,
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
        })
    }
}

/// A worker's version, as far as it can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    major: u32,
    minor: u32,
    patch: u32,
}

impl Version {
    /// `1.2.3`, with or without something behind it; a pre-release counts as its release.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(['-', '+']).next()?.splitn(3, '.').map(|part| part.parse().ok());
        Some(Self { major: parts.next()??, minor: parts.next()??, patch: parts.next()?? })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Something that only some versions can do, and that no list of methods tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// `turn/completed` is sent.
    TurnCompleted,
    /// Notifications say which thread they belong to, so that v2 can be spoken at all.
    ThreadIds,
    /// Tools of the client can be declared when a thread is started; older versions ignore them without a word.
    DynamicTools,
    /// Those tools can have namespaces.
    ToolNamespaces,
    /// Turns can be left out of a resume and listed page by page without the experimental capability.
    TurnPages,
    /// An interrupt of a turn that does not run is answered, and not only when the next turn ends.
    IdleInterrupt,
    /// A thread can be given instructions beside the worker's own; older versions pass over them without a word.
    Instructions,
    /// A new thread can begin with a history of the caller's.
    Histories,
    /// The tools of the agent can be left out; older versions offer the model a shell all the same.
    PlainModels,
    /// The answer of a turn can be held to a schema; older versions pass over it without a word.
    OutputSchemas,
    /// A turn can say how fast the provider is to serve it; older versions pass over it without a word.
    ServiceTiers,
    /// A thread can be forked as it was after one of its turns; older versions fork all of it.
    ForksAfterTurns,
    /// A turn can go on with what its thread holds; in older versions one without input asks no model, or never ends.
    EmptyTurns,
    /// Commands can be kept from reading chosen paths, also after an approved escalation. Versions 0.120 to 0.130 run some
    /// escalated commands outside the sandbox without asking; older ones ignore the profile without an error.
    PermissionProfiles,
}

/// The first versions with threads do not say in their notifications which thread they mean.
const FIRST_ADDRESSABLE: Version = version(77);

/// Each ability, the first version that was seen to have it, and what a version without it cannot do.
const SINCE: [(Ability, Version, &str); 14] = [
    (Ability::TurnCompleted, version(59), "ends of turns"),
    (Ability::ThreadIds, FIRST_ADDRESSABLE, "notifications with thread ids"),
    (Ability::DynamicTools, version(98), "tools of the client"),
    (Ability::ToolNamespaces, version(145), "namespaces of tools"),
    (Ability::TurnPages, version(155), "pages of turns"),
    (Ability::IdleInterrupt, version(130), "interrupts of idle threads"),
    (Ability::Instructions, version(53), "further instructions"),
    (Ability::Histories, version(53), "threads with a history"),
    (Ability::PlainModels, FIRST_ADDRESSABLE, "threads without tools of the agent"),
    (Ability::OutputSchemas, version(98), "output schemas"),
    (Ability::ServiceTiers, version(120), "service tiers"),
    (Ability::ForksAfterTurns, version(145), "forks after a turn"),
    (Ability::EmptyTurns, version(145), "turns without input"),
    (Ability::PermissionProfiles, version(145), "permission profiles"),
];

const fn version(minor: u32) -> Version {
    Version { major: 0, minor, patch: 0 }
}

/// Methods that had another name before: the name of today, and the one of then.
const RENAMED: [(&str, &str); 2] =
    [("thread/compact/start", "thread/compact"), ("mcpServerStatus/list", "mcpServers/list")];

/// What one worker can do.
#[derive(Clone, Debug)]
pub struct Abilities {
    /// Which dialect it is spoken to in.
    pub dialect: Dialect,
    /// Its version, where it tells one.
    pub version: Option<Version>,
    /// All methods that it knows, where it tells them.
    methods: Option<BTreeSet<Box<str>>>,
}

/// What is asked of a worker that it cannot do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("codex {} cannot do {what}", version.map_or("of unknown version".into(), |version| version.to_string()))]
pub struct Unable {
    /// The method or the ability.
    pub what: Box<str>,
    /// The worker's version.
    pub version: Option<Version>,
}

impl Abilities {
    /// Judges a worker by what it said of itself and by its answer to the [`PROBE`].
    #[must_use]
    pub fn judge(greeting: &Greeting, probe: &Outcome) -> Self {
        let version = greeting.version.as_deref().and_then(Version::parse);
        let methods = match probe {
            Outcome::Failed(error) => listed(error),
            _ => None,
        };
        let dialect = match &methods {
            Some(methods) => listed_dialect(version, methods),
            // The oldest give no list, and know no threads.
            None => match version {
                Some(version) if version < FIRST_ADDRESSABLE => Dialect::V1,
                Some(_) => Dialect::V2,
                None if greeting.fallback.is_some() => Dialect::V1,
                None => Dialect::V2,
            },
        };
        Self { dialect, version, methods }
    }

    /// Whether the worker has that ability. A version that is not known is taken for a new one, unless it speaks v1 or the
    /// ability confines agents.
    #[must_use]
    pub fn has(&self, ability: Ability) -> bool {
        self.need(ability).is_ok()
    }

    /// # Errors
    /// [`Unable`] for a worker without that ability.
    pub fn need(&self, ability: Ability) -> Result<(), Unable> {
        let Some((_, since, what)) = SINCE.iter().find(|(known, ..)| *known == ability) else { return Ok(()) };
        let has_it = match self.dialect {
            Dialect::V2 if ability != Ability::PermissionProfiles => {
                self.version.is_none_or(|version| version >= *since)
            }
            // A wrong guess would leave an agent unconfined.
            Dialect::V1 | Dialect::V2 => self.version.is_some_and(|version| version >= *since),
        };
        if has_it { Ok(()) } else { Err(self.unable(what)) }
    }

    /// What this worker calls a method.
    ///
    /// # Errors
    /// [`Unable`] for a method that the worker's own list lacks.
    pub fn name_of<'a>(&self, method: &'a str) -> Result<&'a str, Unable> {
        let Some(methods) = &self.methods else {
            return Ok(method);
        };
        let earlier = RENAMED.iter().find(|(today, _)| *today == method).map(|(_, then)| *then);
        let names = [Some(method), earlier].into_iter().flatten();
        names.into_iter().find(|name| methods.contains(*name)).ok_or_else(|| self.unable(method))
    }

    /// What every exchange begins with: a worker without it is none that we can talk to.
    pub(crate) fn first_call(&self) -> &'static str {
        match self.dialect {
            Dialect::V1 => "newConversation",
            Dialect::V2 => "thread/start",
        }
    }

    /// Whether a conversation is resumed by its file and not by its id.
    #[must_use]
    pub fn resumes_by_path(&self) -> bool {
        self.dialect == Dialect::V1 && self.version.is_some_and(|version| version < self::version(53))
    }

    /// Whether the worker runs what the configuration of a project names, whatever it is told: MCP servers and `notify`
    /// commands of `.codex/config.toml`. Seen in 0.87; 0.77 reads no such file, and 0.98 can be told not to.
    #[must_use]
    pub fn always_loads_project_config(&self) -> bool {
        self.version.is_none_or(|version| version > self::version(77) && version < self::version(98))
    }

    /// Whether this worker offers a model `view_image` whatever it is told. The tool reads images of the system, also where
    /// commands may read nothing. Seen in 0.145, and gone in 0.150.
    #[must_use]
    pub fn always_offers_view_image(&self) -> bool {
        self.version.is_none_or(|version| version < self::version(150))
    }

    pub(crate) fn unable(&self, what: &str) -> Unable {
        Unable { what: what.into(), version: self.version }
    }
}

/// v2 where it works.
fn listed_dialect(version: Option<Version>, methods: &BTreeSet<Box<str>>) -> Dialect {
    let (has_v1, has_v2) = (methods.contains("newConversation"), methods.contains("turn/start"));
    let is_addressable = version.is_none_or(|version| version >= FIRST_ADDRESSABLE);
    if has_v1 && !(has_v2 && is_addressable) { Dialect::V1 } else { Dialect::V2 }
}

/// The names between backticks behind "expected one of".
fn listed(error: &PeerError) -> Option<BTreeSet<Box<str>>> {
    let (_, list) = error.message.split_once("expected one of")?;
    let names = list.split('`').skip(1).step_by(2).take(METHODS_MAX);
    Some(names.map(Box::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(version: &str, answer: &str) -> Abilities {
        let greeting = Greeting { version: Some(version.into()), ..Greeting::default() };
        let probe = Outcome::Failed(PeerError { code: -32600, message: answer.into(), data: None });
        Abilities::judge(&greeting, &probe)
    }

    fn list(names: &[&str]) -> String {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        format!("Invalid request: unknown variant `switchboard/probe`, expected one of {}", names.join(", "))
    }

    #[test]
    fn the_dialect_is_the_newest_that_works() {
        let both = list(&["newConversation", "thread/start", "turn/start"]);
        let threads = list(&["thread/start", "turn/start"]);
        for (version, answer, expected) in [
            ("0.45.0", "Invalid request", Dialect::V1),
            ("0.58.0", both.as_str(), Dialect::V1),
            ("0.60.1", &both, Dialect::V1),
            ("0.77.0", &both, Dialect::V2),
            ("0.120.0", &threads, Dialect::V2),
            ("0.120.0", "some other words", Dialect::V2),
            ("unknown", &both, Dialect::V2),
            ("unknown", &list(&["newConversation"]), Dialect::V1),
            ("unknown", "nonsense", Dialect::V2),
        ] {
            assert_eq!(judged(version, answer).dialect, expected, "{version}: {answer}");
        }
    }

    #[test]
    fn a_method_goes_by_the_name_that_the_worker_knows() {
        let old = judged("0.80.0", &list(&["thread/compact", "turn/start"]));
        assert_eq!(old.name_of("thread/compact/start"), Ok("thread/compact"));
        assert_eq!(old.name_of("turn/start"), Ok("turn/start"));
        let refusal = old.name_of("turn/steer").unwrap_err();
        assert_eq!(refusal.to_string(), "codex 0.80.0 cannot do turn/steer");
        let silent = judged("0.45.0", "Invalid request");
        assert_eq!(silent.name_of("turn/steer"), Ok("turn/steer"), "no list, no judgement");
    }

    #[test]
    fn abilities_come_with_versions() {
        let old = judged("0.77.0", "");
        assert!(old.has(Ability::ThreadIds) && !old.has(Ability::DynamicTools));
        assert!(judged("0.98.0-alpha.3", "").has(Ability::DynamicTools));
        assert!(judged("who knows", "").has(Ability::DynamicTools));
        assert!(old.need(Ability::DynamicTools).is_err());
    }

    #[test]
    fn some_of_them_were_there_before_threads() {
        let instructed = |version| judged(version, "Invalid request").has(Ability::Instructions);
        assert_eq!(["0.45.0", "0.53.0", "0.77.0"].map(instructed), [false, true, true]);
        let unknown = judged("who knows", &list(&["newConversation"]));
        assert!(!unknown.has(Ability::Instructions) && !unknown.has(Ability::PlainModels));
    }
}
