//! Which requests of a connection are on record, and under which name: no event tells of one before.

use std::collections::HashMap;
use std::task::{Context, Poll, Waker};

/// The requests of one connection, by their threads.
#[derive(Debug, Default)]
pub(crate) struct Register {
    threads: HashMap<Box<str>, Vec<Entry>>,
    is_closed: bool,
}

#[derive(Debug)]
struct Entry {
    /// As the worker numbers it.
    request: Box<str>,
    state: State,
}

#[derive(Debug)]
enum State {
    Awaited(Waker),
    /// `None` if it could not be recorded.
    Settled(Option<Box<str>>),
}

impl Register {
    /// A request is on record under that name, or, without one, will not be.
    pub(crate) fn settle(&mut self, thread: &str, request: &str, name: Option<&str>) {
        let settled = State::Settled(name.map(Into::into));
        let entries = self.threads.entry(thread.into()).or_default();
        match entries.iter_mut().find(|entry| *entry.request == *request) {
            Some(entry) => {
                if let State::Awaited(waker) = std::mem::replace(&mut entry.state, settled) {
                    waker.wake();
                }
            }
            None => entries.push(Entry { request: request.into(), state: settled }),
        }
    }

    /// The name of a request, once it is on record; `None` if it will not be.
    pub(crate) fn poll_name(
        &mut self,
        thread: &str,
        request: &str,
        context: &mut Context<'_>,
    ) -> Poll<Option<Box<str>>> {
        if self.is_closed {
            return Poll::Ready(None);
        }
        let awaited = || State::Awaited(context.waker().clone());
        let entries = self.threads.entry(thread.into()).or_default();
        let Some(entry) = entries.iter_mut().find(|entry| *entry.request == *request) else {
            entries.push(Entry { request: request.into(), state: awaited() });
            return Poll::Pending;
        };
        match &entry.state {
            State::Settled(name) => Poll::Ready(name.clone()),
            State::Awaited(_) => {
                entry.state = awaited();
                Poll::Pending
            }
        }
    }

    /// The name of a request that is on record.
    pub(crate) fn name_of(&self, thread: &str, request: &str) -> Option<Box<str>> {
        let entry = self.threads.get(thread)?.iter().find(|entry| *entry.request == *request)?;
        match &entry.state {
            State::Settled(name) => name.clone(),
            State::Awaited(_) => None,
        }
    }

    /// The turn of a thread is over, and its requests with it.
    pub(crate) fn forget(&mut self, thread: &str) {
        self.threads.remove(thread);
    }

    /// The connection is over.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
        let entries = self.threads.drain().flat_map(|(_, entries)| entries);
        entries.for_each(|entry| {
            if let State::Awaited(waker) = entry.state {
                waker.wake();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(register: &mut Register, request: &str) -> String {
        match register.poll_name("t", request, &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(name)) => name.into(),
            Poll::Ready(None) => "none".into(),
            Poll::Pending => "not yet".into(),
        }
    }

    #[test]
    fn a_request_has_a_name_once_it_is_on_record() {
        let mut register = Register::default();
        assert_eq!(name(&mut register, "0"), "not yet");
        register.settle("t", "0", Some("a"));
        register.settle("t", "1", Some("b"));
        register.settle("t", "2", None);
        assert_eq!(["0", "1", "2"].map(|request| name(&mut register, request)), ["a", "b", "none"]);
        register.forget("t");
        assert_eq!(name(&mut register, "1"), "not yet");
    }

    #[test]
    fn nobody_waits_for_the_name_of_a_request_whose_connection_is_over() {
        let mut register = Register::default();
        assert_eq!(name(&mut register, "0"), "not yet");
        register.close();
        assert_eq!(name(&mut register, "0"), "none");
    }
}
