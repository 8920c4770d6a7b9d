//! What the user of `ask` sees: the answer on stdout, everything else on stderr; or every event as a line of JSON.

use std::io::{self, IsTerminal, Write};

use anyhow::Result;
use codex::event::{Item, TurnError, TurnEvent, TurnStatus};

/// Where events are shown.
pub(crate) struct Screen {
    form: Form,
    /// Whether the answer's last line is unfinished.
    is_mid_line: bool,
    is_ended: bool,
}

enum Form {
    Json,
    /// A person reads: what could move the cursor or hide text is escaped.
    Terminal,
    /// A program reads: text is passed on as it came.
    Text,
}

impl Screen {
    pub(crate) fn new(json: bool) -> Self {
        let form = match (json, io::stdout().is_terminal()) {
            (true, _) => Form::Json,
            (false, true) => Form::Terminal,
            (false, false) => Form::Text,
        };
        Self {
            form,
            is_mid_line: false,
            is_ended: false,
        }
    }

    pub(crate) fn show(&mut self, event: &TurnEvent) -> Result<()> {
        self.is_ended |= matches!(event, TurnEvent::TurnEnded { .. });
        if let Form::Json = self.form {
            let line = serde_json::to_string(event)? + "\n";
            return write_out(&line);
        }
        match event {
            TurnEvent::Text { text, .. } => self.text(text),
            TurnEvent::ItemStarted { item } => self.item(item),
            TurnEvent::Warning { message } => self.note(&format!("warning: {message}")),
            TurnEvent::Error { error, will_retry } => {
                let then = if *will_retry {
                    "; the worker tries again"
                } else {
                    ""
                };
                self.note(&format!("error: {}{then}", describe(error)))
            }
            TurnEvent::TurnEnded { status, error } => self.ended(*status, error.as_ref()),
            _ => Ok(()),
        }
    }

    /// A word beside the answer, for the person.
    pub(crate) fn note(&mut self, text: &str) -> Result<()> {
        self.finish_line()?;
        writeln!(io::stderr(), "{}", escaped(text))?;
        Ok(())
    }

    /// The end of a turn that never began.
    pub(crate) fn end(&mut self, status: TurnStatus) -> Result<TurnStatus> {
        self.show(&TurnEvent::TurnEnded {
            status,
            error: None,
        })?;
        Ok(status)
    }

    /// Why there is no answer, or no more of it.
    pub(crate) fn fail(&mut self, error: &anyhow::Error) {
        let is_reader_gone = error
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        if is_reader_gone || self.is_ended {
            return;
        }
        let error = format!("{error:#}");
        // Nothing is left to be done if even this cannot be written.
        _ = match self.form {
            Form::Json => self.show(&TurnEvent::lost(&error)),
            Form::Terminal | Form::Text => self.note(&format!("switchboard: {error}")),
        };
    }

    fn text(&mut self, text: &str) -> Result<()> {
        if let Some(last) = text.chars().last() {
            self.is_mid_line = last != '\n';
        }
        match self.form {
            Form::Terminal => write_out(&escaped(text)),
            Form::Json | Form::Text => write_out(text),
        }
    }

    fn item(&mut self, item: &Item) -> Result<()> {
        match &*item.kind {
            "user_message" | "agent_message" | "reasoning" => Ok(()),
            kind => self.note(&format!("· {}", kind.replace('_', " "))),
        }
    }

    fn ended(&mut self, status: TurnStatus, error: Option<&TurnError>) -> Result<()> {
        self.finish_line()?;
        let cause = error.map(describe).unwrap_or_default();
        match status {
            TurnStatus::Completed => Ok(()),
            TurnStatus::Interrupted => self.note("interrupted"),
            TurnStatus::Failed => self.note(&format!("the turn failed: {cause}")),
            TurnStatus::Lost => self.note(&format!("the turn is lost: {cause}")),
        }
    }

    fn finish_line(&mut self) -> Result<()> {
        if std::mem::take(&mut self.is_mid_line) {
            write_out("\n")?;
        }
        Ok(())
    }
}

fn write_out(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

fn describe(error: &TurnError) -> String {
    let kind = error.kind.as_deref().map(|kind| format!(" ({kind})"));
    format!("{}{}", error.message, kind.unwrap_or_default())
}

/// The text with everything spelled out that a terminal would act on, or that a reader would not see.
fn escaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        let is_hidden = matches!(letter,
            '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
        if is_hidden || letter.is_control() && !matches!(letter, '\n' | '\t') {
            plain.extend(letter.escape_unicode());
        } else {
            plain.push(letter);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn what_a_terminal_would_act_on_is_spelled_out() {
        assert_eq!(escaped("a\tb\nc é 漢 🙂"), "a\tb\nc é 漢 🙂");
        assert_eq!(escaped("\u{1b}[2J\r\u{7}"), "\\u{1b}[2J\\u{d}\\u{7}");
        assert_eq!(
            escaped("x\u{202e}y\u{200b}z\u{9b}"),
            "x\\u{202e}y\\u{200b}z\\u{9b}"
        );
    }
}
