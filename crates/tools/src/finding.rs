//! What can be wrong with a tool server: a closed list of codes, each with how bad it is and how it is mended.

use std::fmt;

use serde::Serialize;

/// One fault of a tool server.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Which fault it is.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// What was seen, in one sentence.
    pub what: String,
    /// The frame that shows it, as it was on the wire; only its beginning if it is long.
    pub frame: Option<String>,
    /// Where in that frame, as a JSON path such as `$.result.tools[1].inputSchema`.
    pub path: Option<String>,
    /// How to mend it.
    pub fix: String,
}

/// How bad a fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing; nothing is lost.
    Note,
    /// It works, but something is lost, or may be.
    Warning,
    /// The server, or one of its tools, cannot be used.
    Error,
}

/// Every fault that is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Code {
    /// It spoke before it was asked anything.
    D1,
    /// An answer has an id that no request had, or one of another type.
    D2,
    /// It knows neither `initialize` nor `server/discover`.
    D3,
    /// It answered a notification.
    D4,
    /// The answer to its handshake lacks what must be in it.
    D5,
    /// It sent its tools with the handshake.
    D6,
    /// A tool has no usable `inputSchema`.
    D7,
    /// A schema says nothing of the arguments.
    D8,
    /// It wrote something else than JSON to stdout.
    D9,
    /// It ended before it answered.
    D10,
    /// It is alive and silent.
    D11,
    /// It was slow to begin.
    D12,
    /// It answered `tools/list` before the handshake.
    D13,
    /// Fields that MCP does not know, and that are therefore dropped.
    D14,
    /// No version of the protocol is common to both.
    D15,
    /// Names of tools that clash, that not every model takes, or too many of them.
    D16,
    /// It does not end when its stdin is closed.
    D17,
    /// It leaves processes behind.
    D18,
    /// A schema is written in another JSON Schema than 2020-12.
    D19,
    /// An answer came when nobody waited for it any more.
    D20,
}

impl Code {
    /// All of them, in their order.
    pub const ALL: [Self; 20] = [
        Self::D1,
        Self::D2,
        Self::D3,
        Self::D4,
        Self::D5,
        Self::D6,
        Self::D7,
        Self::D8,
        Self::D9,
        Self::D10,
        Self::D11,
        Self::D12,
        Self::D13,
        Self::D14,
        Self::D15,
        Self::D16,
        Self::D17,
        Self::D18,
        Self::D19,
        Self::D20,
    ];
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn no_code_is_missing_in_the_list_of_all() {
        for (place, code) in Code::ALL.iter().enumerate() {
            assert_eq!(*code as usize, place);
            // Who adds a code is led here, and to the list.
            match code {
                Code::D1 | Code::D2 | Code::D3 | Code::D4 | Code::D5 | Code::D6 | Code::D7 | Code::D8 => {}
                Code::D9 | Code::D10 | Code::D11 | Code::D12 | Code::D13 | Code::D14 | Code::D15 => {}
                Code::D16 | Code::D17 | Code::D18 | Code::D19 | Code::D20 => {}
            }
        }
    }
}
