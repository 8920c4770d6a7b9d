//! Whose call a question of a legacy server belongs to, pure: the server does not say, and where it is not certain it is nobody's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Who has called.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    /// Tells it from all others.
    pub(crate) caller: Arc<str>,
    /// In whose name it calls, and may come back.
    pub(crate) owner: Arc<str>,
    is_parked: Arc<AtomicBool>,
}

impl Asker {
    pub(crate) fn new(caller: &Arc<str>, owner: &Arc<str>) -> Self {
        Self { caller: Arc::clone(caller), owner: Arc::clone(owner), is_parked: Arc::default() }
    }

    /// Its call waits for it to come back, or goes on.
    pub(crate) fn set_parked(&self, is_parked: bool) {
        self.is_parked.store(is_parked, Ordering::Relaxed);
    }

    fn is_parked(&self) -> bool {
        self.is_parked.load(Ordering::Relaxed)
    }
}

/// The call that a question belongs to, of those that are under way, the latest first. All that run must be one caller's. A
/// parked call has asked already, and nobody may ever come back to it: only in another's name does it make the matter uncertain.
pub(super) fn meant<'a, T>(calls: impl Iterator<Item = (&'a Asker, T)> + Clone) -> Option<T> {
    let (latest, call) = calls.clone().find(|(asker, _)| !asker.is_parked()).or_else(|| calls.clone().next())?;
    let is_certain = calls.map(|(asker, _)| asker).all(|other| match other.is_parked() {
        true => other.owner == latest.owner,
        false => other.caller == latest.caller,
    });
    is_certain.then_some(call)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each call as `caller owner`, with `parked` behind it if it is; the latest first.
    fn check(calls: &[&str], expected: Option<usize>) {
        let askers: Vec<Asker> = calls
            .iter()
            .map(|call| {
                let words: Vec<&str> = call.split(' ').collect();
                let asker = Asker::new(&words[0].into(), &words[1].into());
                asker.set_parked(words.len() > 2);
                asker
            })
            .collect();
        assert_eq!(meant(askers.iter().zip(0..)), expected, "{calls:?}");
    }

    #[test]
    fn a_question_is_asked_of_the_only_caller() {
        check(&[], None);
        check(&["a a", "a a"], Some(0));
        check(&["a a", "b b"], None);
        check(&["a key", "b key"], None);
    }

    #[test]
    fn a_parked_call_is_in_the_way_of_others_alone() {
        check(&["a key parked"], Some(0));
        check(&["a key parked", "b key"], Some(1));
        check(&["a key", "b key parked", "c key parked"], Some(0));
        check(&["a key", "b other parked"], None);
        check(&["a key parked", "b other parked"], None);
        check(&["a key parked", "b key", "c key"], None);
    }
}
