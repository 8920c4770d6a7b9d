//! Which key created which, pure: as whose own the requests of a key count, whose limits they count against, and what is
//! revoked with it. Revoked keys stay in it, because what they asked may still wait for a decision.

use std::collections::HashMap;
use std::sync::Arc;

/// How many ancestors a key may have: each of them is charged for every request.
pub(crate) const ANCESTORS_MAX: usize = 8;

/// Where a key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyOrigin {
    /// The key that created it; none for the first key and those of the command line.
    pub parent: Option<Arc<str>>,
    /// The key as whose own its requests count.
    pub principal: Arc<str>,
}

/// The origins of all keys of the store.
#[derive(Debug, Default)]
pub(super) struct KeyTree(HashMap<Arc<str>, KeyOrigin>);

impl KeyOrigin {
    /// The origin of a key that is its own principal.
    pub(crate) fn root(key: &Arc<str>) -> Self {
        Self { parent: None, principal: Arc::clone(key) }
    }
}

impl KeyTree {
    pub(super) fn insert(&mut self, key: Arc<str>, origin: KeyOrigin) {
        self.0.insert(key, origin);
    }

    pub(super) fn get(&self, key: &str) -> Option<&KeyOrigin> {
        self.0.get(key)
    }

    /// A key that is not of the store, such as the chosen one, is its own principal.
    pub(super) fn principal<'a>(&'a self, key: &'a str) -> &'a str {
        self.0.get(key).map_or(key, |origin| &*origin.principal)
    }

    /// The key that created it, the one that created that, and so on. A cycle, which only a damaged store can hold, ends
    /// at the bound.
    pub(super) fn ancestors(&self, key: &str) -> impl Iterator<Item = &Arc<str>> {
        let parent = |key: &str| self.0.get(key).and_then(|origin| origin.parent.as_ref());
        std::iter::successors(parent(key), move |key| parent(key)).take(ANCESTORS_MAX)
    }

    /// All keys that it created, directly or not.
    pub(super) fn descendants(&self, key: &str) -> Vec<Arc<str>> {
        let descends = |other: &&Arc<str>| ***other != *key && self.ancestors(other).any(|ancestor| **ancestor == *key);
        let mut found: Vec<_> = self.0.keys().filter(descends).cloned().collect();
        found.sort();
        found
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{ANCESTORS_MAX, KeyOrigin, KeyTree};

    /// `child parent principal` a line.
    fn tree(text: &str) -> KeyTree {
        let mut tree = KeyTree::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let parent = Some(words[1]).filter(|parent| *parent != "-").map(Arc::from);
            tree.insert(words[0].into(), KeyOrigin { parent, principal: words[2].into() });
        }
        tree
    }

    #[test]
    fn ancestors_and_descendants_are_found_over_generations() {
        let tree = tree("a - a\nb a a\nc b a\nd b d\ne chosen e");
        assert_eq!(tree.ancestors("c").map(|key| &**key).collect::<Vec<_>>(), ["b", "a"]);
        assert_eq!(tree.ancestors("e").map(|key| &**key).collect::<Vec<_>>(), ["chosen"]);
        assert_eq!(tree.ancestors("chosen").count(), 0);
        assert_eq!(tree.descendants("a"), ["b".into(), "c".into(), Arc::<str>::from("d")]);
        assert_eq!(tree.descendants("c"), []);
        assert_eq!([tree.principal("c"), tree.principal("d"), tree.principal("local")], ["a", "d", "local"]);
    }

    #[test]
    fn a_cycle_of_a_damaged_store_ends() {
        let tree = tree("a b a\nb a b");
        assert_eq!(tree.ancestors("a").count(), ANCESTORS_MAX);
        assert_eq!(tree.descendants("a"), [Arc::<str>::from("b")]);
    }
}
