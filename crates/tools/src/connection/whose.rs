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

    /// Its call waits for it to come back.
    pub(crate) fn park(&self) {
        self.is_parked.store(true, Ordering::Relaxed);
    }

    /// It has come back.
    pub(crate) fn unpark(&self) {
        self.is_parked.store(false, Ordering::Relaxed);
    }

    fn is_parked(&self) -> bool {
        self.is_parked.load(Ordering::Relaxed)
    }
}

/// The call that a question belongs to, of those that are under way, the latest first. All that run must be one caller's. A
/// parked call has asked already, and nobody may ever come back to it: only in another's name does it make the matter uncertain.
/// So does a call that was given up, which the server may still be at.
pub(super) fn meant<'a, T>(
    calls: impl Iterator<Item = (&'a Asker, T)> + Clone,
    mut given_up: impl Iterator<Item = &'a Asker>,
) -> Option<T> {
    let (latest, call) = calls.clone().find(|(asker, _)| !asker.is_parked()).or_else(|| calls.clone().next())?;
    let is_certain = calls.map(|(asker, _)| asker).all(|other| match other.is_parked() {
        true => other.owner == latest.owner,
        false => other.caller == latest.caller,
    });
    (is_certain && given_up.all(|other| other.owner == latest.owner)).then_some(call)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each call as `caller owner`, with `parked` or `left` behind it if it is so; the latest first.
    fn check(calls: &[&str], expected: Option<&str>) {
        let (mut under_way, mut left) = (Vec::new(), Vec::new());
        for call in calls {
            let words: Vec<&str> = call.split(' ').collect();
            let asker = Asker::new(&words[0].into(), &words[1].into());
            match words.get(2) {
                Some(&"left") => left.push(asker),
                Some(_) => {
                    asker.park();
                    under_way.push(asker);
                }
                None => under_way.push(asker),
            }
        }
        let calls_under_way = under_way.iter().map(|asker| (asker, &*asker.caller));
        assert_eq!(meant(calls_under_way, left.iter()), expected, "{calls:?}");
    }

    #[test]
    fn a_question_is_asked_of_the_only_caller() {
        check(&[], None);
        check(&["a a", "a a"], Some("a"));
        check(&["a a", "b b"], None);
        check(&["a key", "b key"], None);
    }

    #[test]
    fn a_parked_call_is_in_the_way_of_others_alone() {
        check(&["a key parked"], Some("a"));
        check(&["a key parked", "b key"], Some("b"));
        check(&["a key", "b key parked", "c key parked"], Some("a"));
        check(&["a key", "b other parked"], None);
        check(&["a key parked", "b other parked"], None);
        check(&["a key parked", "b key", "c key"], None);
    }

    #[test]
    fn so_is_one_that_was_given_up() {
        check(&["a key left"], None);
        check(&["a key", "b key left"], Some("a"));
        check(&["a key", "b other left"], None);
    }
}
