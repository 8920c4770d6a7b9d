//! The Responses API as pure translation, beside that of chat: what is asked, the object that answers it, and its events.

pub(crate) mod compaction;
pub(crate) mod conversation;
pub(crate) mod items;
pub(crate) mod object;
pub(crate) mod output;
#[cfg(test)]
mod page;
pub(crate) mod parameters;
pub(crate) mod record;
pub(crate) mod recorded;
pub(crate) mod request;
pub(crate) mod work_items;
