//! Which requests were decided for the worker processes that run now: if one of them asks the very same again, because a
//! connection was lost or Switchboard was restarted before it heard the answer, it is answered as it was decided.
//! Bounded: what is forgotten is asked about anew.

use std::collections::{HashMap, VecDeque};

use crate::shown::Origin;

#[derive(Debug)]
pub(crate) struct Repeats {
    known: HashMap<String, Known>,
    /// The oldest first.
    order: VecDeque<String>,
    max: usize,
}

#[derive(Debug)]
struct Known {
    approval: String,
    group: String,
    worker: String,
}

impl Repeats {
    pub(crate) fn new(max: usize) -> Self {
        Self { known: HashMap::new(), order: VecDeque::new(), max }
    }

    pub(crate) fn insert(&mut self, identity: String, approval: &str, origin: &Origin) {
        let (group, worker) = (origin.group.clone(), origin.worker.clone());
        let known = Known { approval: approval.into(), group, worker };
        if self.known.insert(identity.clone(), known).is_none() {
            self.order.push_back(identity);
        }
        while self.order.len() > self.max {
            let oldest = self.order.pop_front().expect("there are more than may be");
            self.known.remove(&oldest);
        }
    }

    /// The approval that decided this very request.
    pub(crate) fn find(&self, identity: &str) -> Option<&str> {
        self.known.get(identity).map(|known| known.approval.as_str())
    }

    /// The process that asked is not there any more: request ids may begin anew.
    pub(crate) fn forget(&mut self, group: &str, worker: &str) {
        self.known.retain(|_, known| known.group != group || known.worker != worker);
        self.order.retain(|identity| self.known.contains_key(identity));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shown::tests::command;

    #[test]
    fn the_latest_are_known_until_their_process_is_gone() {
        let mut repeats = Repeats::new(2);
        let here = command(&[]).origin;
        let elsewhere = Origin { worker: "main-1".into(), ..here.clone() };
        for (identity, approval, origin) in
            [("x", "1", &here), ("y", "2", &here), ("y", "3", &here), ("z", "4", &elsewhere)]
        {
            repeats.insert(identity.into(), approval, origin);
        }
        assert_eq!(["x", "y", "z"].map(|identity| repeats.find(identity)), [None, Some("3"), Some("4")]);
        repeats.forget("main", "main-0");
        assert_eq!(["y", "z"].map(|identity| repeats.find(identity)), [None, Some("4")]);
        repeats.insert("x".into(), "5", &here);
        assert_eq!(["x", "z"].map(|identity| repeats.find(identity)), [Some("5"), Some("4")]);
    }
}
