//! A golden file as text: first what it shows, in words; then sections, each below its heading. Requests and how the worker is
//! set up are written by people and stay as they are; views are made.

use std::fmt;

const HEADING: &str = "## ";

/// The file.
pub(super) struct Case {
    pub(super) about: String,
    pub(super) sections: Vec<Section>,
}

/// A heading and what stands below it.
pub(super) struct Section {
    pub(super) heading: String,
    pub(super) text: String,
}

/// What people write.
pub(super) enum Part<'a> {
    /// Arguments of the worker's, or the script that it plays.
    Worker(&'a str),
    Script(&'a str),
    /// A request, and how long its caller stays.
    Request(Request<'a>, Stay<'a>),
    /// No new turns from here on.
    Drain,
    /// A key with this name, made as its order says.
    Key {
        name: &'a str,
        order: &'a str,
    },
    /// A person decides what waits for a decision.
    Decision(&'a str),
}

/// How long a caller stays.
#[derive(Clone, Copy)]
pub(super) enum Stay<'a> {
    /// Until the whole answer is there.
    ToTheEnd,
    /// Until this text has come; then it is gone.
    Until(&'a str),
    /// To the end, but the next request is sent once this text has come.
    Beside(&'a str),
}

/// A request as it is written down.
pub(super) struct Request<'a> {
    /// `POST /v1/chat/completions`.
    pub(super) line: &'a str,
    /// A header without a value is one that is not sent.
    pub(super) headers: Vec<(&'a str, &'a str)>,
    pub(super) body: &'a str,
}

impl Case {
    pub(super) fn read(text: &str) -> Self {
        let (about, rest) = match text.find("\n## ") {
            Some(at) => (&text[..at], &text[at..]),
            None => panic!("a case has sections"),
        };
        let sections = rest.split("\n## ").skip(1).map(|section| {
            let (heading, text) = section.split_once('\n').unwrap_or((section, ""));
            Section::new(heading, text.trim_end())
        });
        Self { about: about.trim_end().into(), sections: sections.collect() }
    }

    /// The same case with these sections.
    pub(super) fn with(&self, sections: Vec<Section>) -> Self {
        Self { about: self.about.clone(), sections }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.about)?;
        for Section { heading, text } in &self.sections {
            writeln!(f, "\n{HEADING}{heading}\n{text}")?;
        }
        Ok(())
    }
}

impl Section {
    pub(super) fn new(heading: &str, text: &str) -> Self {
        Self { heading: heading.into(), text: text.into() }
    }

    /// What people wrote; `None` if it is a view.
    pub(super) fn part(&self) -> Option<Part<'_>> {
        let (kind, rest) = self.heading.split_once(' ').unwrap_or((&self.heading, ""));
        Some(match kind {
            "worker" => Part::Worker(&self.text),
            "script" => Part::Script(&self.text),
            "request" => Part::Request(Request::read(&self.text), Stay::read(rest)),
            "drain" => Part::Drain,
            "key" => Part::Key { name: rest, order: &self.text },
            "decision" => Part::Decision(&self.text),
            "plan" | "answer" | "lines" => return None,
            other => panic!("there are no sections of the kind {other:?}"),
        })
    }
}

impl<'a> Stay<'a> {
    fn read(text: &'a str) -> Self {
        if let Some(text) = text.strip_prefix("until ") {
            Self::Until(text)
        } else if let Some(text) = text.strip_prefix("beside ") {
            Self::Beside(text)
        } else {
            assert!(text.is_empty(), "a caller stays `until` or goes on `beside` a text, not {text:?}");
            Self::ToTheEnd
        }
    }
}

impl<'a> Request<'a> {
    fn read(text: &'a str) -> Self {
        let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
        let mut lines = head.lines();
        let line = lines.next().unwrap_or_default();
        let headers = lines.map(|line| {
            let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("{line:?} is no header"));
            (name, value.trim())
        });
        Self { line, headers: headers.collect(), body }
    }

    /// The key that it carries.
    pub(super) fn key(&self) -> &'a str {
        let carriers = ["authorization", "x-api-key", "api-key"];
        let written = carriers.iter().find_map(|carrier| self.headers.iter().find(|(name, _)| name == carrier));
        written.map_or("<key>", |(_, value)| value.trim_start_matches("Bearer "))
    }

    /// Whether it is one of the Responses API.
    pub(super) fn is_of_responses(&self) -> bool {
        self.line.contains("/responses") || self.line.contains("/conversations")
    }

    /// The body, if it makes a response.
    pub(super) fn response(&self) -> Option<&'a str> {
        let is_response = self.line.starts_with("POST ") && self.line.ends_with("/responses");
        is_response.then_some(self.body)
    }

    /// The body, if it is a conversation.
    pub(super) fn chat(&self) -> Option<&'a str> {
        let is_chat = self.line.starts_with("POST ") && self.line.ends_with("/chat/completions");
        is_chat.then_some(self.body)
    }
}
