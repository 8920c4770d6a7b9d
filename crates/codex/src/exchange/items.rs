//! The items of one turn: each is told to begin once and to end once, whatever the worker's version leaves out or says
//! twice.

use std::collections::HashSet;
use std::mem::take;

use crate::event::{Item, TurnEvent, TurnStatus};

/// Items of one turn that may be begun and not finished; more, or more than its mailbox could hold, are not closed at
/// its end.
const OPEN_MAX: usize = 1024;
/// Items whose end is remembered, so that it is not told again.
const ENDED_MAX: usize = 4096;

/// An item of upstream's with that kind. What it has done is an event of its own too.
const COMPACTION: &str = "context_compaction";

#[derive(Debug, Default)]
pub(super) struct Items {
    open: Vec<Item>,
    open_bytes: usize,
    /// Kind and id: some versions give a review's items the same id.
    ended: HashSet<(Box<str>, Box<str>)>,
    has_told_compaction: bool,
}

impl Items {
    /// What is to be told when the worker tells this. `bytes_max` is what may be remembered.
    pub(super) fn put_in_order(&mut self, event: TurnEvent, bytes_max: usize, mut tell: impl FnMut(TurnEvent)) {
        match &event {
            TurnEvent::ItemStarted { item } => {
                self.ended.remove(&place(item));
                self.begin(item, bytes_max);
            }
            TurnEvent::ItemCompleted { item } => {
                if self.ended.contains(&place(item)) {
                    return;
                }
                // Versions up to 0.107 complete a declined command that they never began.
                if !self.end(item) && self.ended.len() < ENDED_MAX {
                    tell(TurnEvent::ItemStarted { item: item.clone() });
                }
                if self.ended.len() < ENDED_MAX {
                    self.ended.insert(place(item));
                }
                if &*item.kind == COMPACTION {
                    self.has_told_compaction = true;
                    tell(event);
                    return tell(TurnEvent::Compacted);
                }
            }
            // Versions that make an item of it may say it besides.
            TurnEvent::Compacted if self.has_told_compaction => return,
            _ => {}
        }
        tell(event);
    }

    /// One that has begun and not ended.
    pub(super) fn open(&self, id: &str) -> Option<&Item> {
        self.open.iter().find(|item| *item.id == *id)
    }

    /// A worker does not complete what an interrupt, a steer or its own death has cut off.
    pub(super) fn close(&mut self, status: TurnStatus) -> impl Iterator<Item = Item> {
        let word = if status == TurnStatus::Lost { "lost" } else { "interrupted" };
        take(&mut self.open).into_iter().map(move |item| Item { status: Some(word.into()), ..item })
    }

    fn begin(&mut self, item: &Item, bytes_max: usize) {
        let bytes = item.raw.get().len();
        if self.open.len() < OPEN_MAX && self.open_bytes + bytes <= bytes_max {
            self.open_bytes += bytes;
            self.open.push(item.clone());
        }
    }

    /// Whether it had begun, as far as that is known.
    fn end(&mut self, item: &Item) -> bool {
        let Some(index) = self.open.iter().position(|open| place(open) == place(item)) else {
            return self.open.len() >= OPEN_MAX;
        };
        self.open_bytes -= self.open.remove(index).raw.get().len();
        true
    }
}

fn place(item: &Item) -> (Box<str>, Box<str>) {
    (item.kind.clone(), item.id.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kind, a colon and the id; `+` begins, `-` ends, `!` is the compaction of old.
    fn told(events: &str) -> String {
        let mut items = Items::default();
        let mut told = Vec::new();
        for word in events.split_whitespace() {
            let item = |text: &str| {
                let (kind, id) = text.split_once(':').unwrap();
                Item { id: id.into(), kind: kind.into(), status: None, raw: wire::Json::new("{}").unwrap() }
            };
            let event = match word.split_at(1) {
                ("+", rest) => TurnEvent::ItemStarted { item: item(rest) },
                ("-", rest) => TurnEvent::ItemCompleted { item: item(rest) },
                _ => TurnEvent::Compacted,
            };
            items.put_in_order(event, 1000, |event| told.push(event));
        }
        let words = told.iter().map(|event| match event {
            TurnEvent::ItemStarted { item } => format!("+{}:{}", item.kind, item.id),
            TurnEvent::ItemCompleted { item } => format!("-{}:{}", item.kind, item.id),
            _ => "!".into(),
        });
        let mut words: Vec<String> = words.collect();
        words.extend(items.close(TurnStatus::Interrupted).map(|item| format!("-{}:{}?", item.kind, item.id)));
        words.join(" ")
    }

    #[test]
    fn every_item_begins_once_and_ends_once() {
        for (events, expected) in [
            ("+a:1 -a:1", "+a:1 -a:1"),
            ("+a:1", "+a:1 -a:1?"),
            ("-a:1", "+a:1 -a:1"),
            ("+a:1 -a:1 -a:1", "+a:1 -a:1"),
            ("+a:1 +b:1 -a:1 -b:1", "+a:1 +b:1 -a:1 -b:1"),
            ("+a:1 -a:1 +a:1 -a:1", "+a:1 -a:1 +a:1 -a:1"),
        ] {
            assert_eq!(told(events), expected, "{events}");
        }
    }

    #[test]
    fn a_compaction_is_told_once_however_it_is_said() {
        assert_eq!(
            told("+context_compaction:1 -context_compaction:1 !"),
            "+context_compaction:1 -context_compaction:1 !"
        );
        assert_eq!(told("!"), "!");
    }
}
