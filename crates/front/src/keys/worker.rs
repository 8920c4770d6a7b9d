//! The tokens with which workers call tools: the pool issues one to each worker that it starts, and keeps its hash for as
//! long as the worker runs. They are in no list of keys.

use store::SecretHash;
use workers::WorkerTokens;

use super::{Caller, Grant, Keys, Known, Scope, Scopes};

/// What the id of such a caller begins with; the name of the group follows.
pub(crate) const WORKER: &str = "worker-";

impl Keys {
    /// Admits workers by these tokens, to call tools and nothing else.
    #[must_use]
    pub fn with_workers(self, workers: WorkerTokens) -> Self {
        Self { workers, ..self }
    }

    /// The worker that has this token.
    pub(super) fn worker(&self, text: &str) -> Option<Caller> {
        let group = self.workers.group_of(text)?;
        Some(
            Known::new(&format!("{WORKER}{group}"), SecretHash::of(text), Grant::of(Scopes::of(&[Scope::Tools])))
                .caller(),
        )
    }
}

impl Caller {
    /// The group, if it is a worker of ours.
    pub(crate) fn worker_group(&self) -> Option<&str> {
        self.key.strip_prefix(WORKER)
    }
}

#[cfg(test)]
mod tests {
    use workers::WorkerTokens;

    use super::{Keys, Scope};

    #[test]
    fn a_worker_may_call_tools_and_nothing_else() {
        let tokens = WorkerTokens::default();
        let keys = Keys::new(None).with_workers(tokens.clone());
        let token = tokens.issue("main", "main-0").unwrap();
        let caller = keys.find(token.text()).unwrap();
        assert_eq!((&*caller.key, caller.worker_group()), ("worker-main", Some("main")));
        assert_eq!(caller.scopes.names(), ["tools"]);
        assert!(!caller.scopes.has(Scope::Use) && caller.scopes.has(Scope::Tools));
    }
}
