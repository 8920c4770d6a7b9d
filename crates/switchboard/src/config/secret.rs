//! A text that no log, no error and no printed configuration shows.

use std::fmt;

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(Box<str>);

impl Secret {
    pub(crate) fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}
