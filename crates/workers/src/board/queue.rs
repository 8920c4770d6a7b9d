//! A fair queue: whoever waits is served in turn by key, so that one caller with a thousand orders delays another with
//! one by one place.

use std::collections::{HashMap, VecDeque};

/// Waiting things, each under a key.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    /// The keys that have something waiting, the next one to be served first.
    keys: VecDeque<Box<str>>,
    waiting: HashMap<Box<str>, VecDeque<T>>,
    len: usize,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { keys: VecDeque::new(), waiting: HashMap::new(), len: 0 }
    }
}

impl<T: Copy + PartialEq> Queue<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn push(&mut self, key: &str, item: T) {
        self.len += 1;
        if let Some(waiting) = self.waiting.get_mut(key) {
            return waiting.push_back(item);
        }
        self.keys.push_back(key.into());
        self.waiting.insert(key.into(), VecDeque::from([item]));
    }

    /// Takes the next item that can be served; its key goes to the end of the line.
    pub(crate) fn take(&mut self, mut can_be_served: impl FnMut(T) -> bool) -> Option<T> {
        for turn in 0..self.keys.len() {
            let waiting = &self.waiting[&self.keys[turn]];
            if let Some(at) = waiting.iter().position(|item| can_be_served(*item)) {
                return Some(self.take_at(turn, at, self.keys.len() - 1));
            }
        }
        None
    }

    /// What came last of the key that has most waiting; of several such keys, of the one that is served last.
    pub(crate) fn last_of_the_longest(&self) -> Option<T> {
        let longest = self.keys.iter().max_by_key(|key| self.waiting[*key].len())?;
        self.waiting[longest].back().copied()
    }

    /// Takes one item out, wherever it stands; its key keeps its place in the line.
    pub(crate) fn remove(&mut self, item: T) {
        let found = self.keys.iter().enumerate().find_map(|(turn, key)| {
            let at = self.waiting[key].iter().position(|waiting| *waiting == item)?;
            Some((turn, at))
        });
        if let Some((turn, at)) = found {
            self.take_at(turn, at, turn);
        }
    }

    /// Takes an item out; its key, if it has more, stands in that place of the line from now on.
    fn take_at(&mut self, turn: usize, at: usize, next_turn: usize) -> T {
        let key = self.keys.remove(turn).expect("the key was just seen");
        let waiting = self.waiting.get_mut(&key).expect("a key in line has something waiting");
        let item = waiting.remove(at).expect("the item was just seen");
        self.len -= 1;
        if waiting.is_empty() {
            self.waiting.remove(&key);
        } else {
            self.keys.insert(next_turn, key);
        }
        item
    }
}

#[cfg(test)]
mod tests {
    use super::Queue;

    fn queue(items: &[(&str, u32)]) -> Queue<u32> {
        let mut queue = Queue::default();
        items.iter().for_each(|(key, item)| queue.push(key, *item));
        queue
    }

    fn drained(mut queue: Queue<u32>) -> Vec<u32> {
        std::iter::from_fn(|| queue.take(|_| true)).collect()
    }

    #[test]
    fn keys_are_served_in_turn_and_each_in_its_own_order() {
        let queue = queue(&[("a", 1), ("a", 2), ("a", 3), ("b", 10), ("c", 20), ("b", 11)]);
        assert_eq!(queue.len(), 6);
        assert_eq!(drained(queue), [1, 10, 20, 2, 11, 3]);
    }

    #[test]
    fn what_cannot_be_served_holds_up_nobody() {
        let mut queue = queue(&[("a", 1), ("a", 2), ("b", 10)]);
        assert_eq!(queue.take(|item| item != 1), Some(2));
        assert_eq!(queue.take(|item| item != 1), Some(10));
        assert_eq!(queue.take(|item| item != 1), None);
        assert_eq!(drained(queue), [1]);
    }

    #[test]
    fn the_longest_line_gives_way_first() {
        let mut queue = queue(&[("a", 1), ("a", 2), ("a", 3), ("b", 10)]);
        let mut gone = Vec::new();
        while let Some(last) = queue.last_of_the_longest() {
            queue.remove(last);
            gone.push(last);
        }
        assert_eq!(gone, [3, 2, 10, 1], "the last key of the line gives way first");
    }

    #[test]
    fn who_leaves_is_forgotten() {
        let mut queue = queue(&[("a", 1), ("b", 10), ("b", 11)]);
        queue.remove(1);
        queue.remove(10);
        queue.remove(99);
        assert_eq!(queue.len(), 1);
        assert_eq!(drained(queue), [11]);
    }
}
