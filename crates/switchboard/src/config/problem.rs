//! What is wrong with a configuration: each thing with where it stands, all of them at once.

use std::fmt;
use std::path::PathBuf;

/// Everything that is wrong, in the order of the file.
#[derive(Debug)]
pub(crate) struct Problems(pub(super) Vec<Problem>);

/// One thing that is wrong.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Problem {
    pub(super) source: Source,
    pub(super) what: String,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    /// A line of the file, counted from one.
    File {
        path: PathBuf,
        line: usize,
    },
    Variable(String),
    Flag(&'static str),
    Default,
}

impl Source {
    /// Whether nobody has typed it.
    pub(super) fn is_default(&self) -> bool {
        matches!(self, Self::Default)
    }
}

impl std::error::Error for Problems {}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, Problem { source, what }) in self.0.iter().enumerate() {
            let separator = if number == 0 { "" } else { "\n" };
            match source {
                Source::Default => write!(f, "{separator}{what}")?,
                source => write!(f, "{separator}{source}: {what}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
            Self::Default => f.write_str("default"),
        }
    }
}
