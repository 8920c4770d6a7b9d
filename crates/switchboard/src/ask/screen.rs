//! What the user of `ask` sees: the answer on stdout, everything else on stderr; or every event as a line of JSON.

use std::io::{self, IsTerminal};

use anyhow::Result;
use codex::event::{TurnEvent, TurnStatus};
use supervise::escaped_lines;

use super::printer::{Piece, Printer, Stopped};
use super::told::{Told, ToldError, ToldItem};

/// Where events are shown.
pub(crate) struct Screen {
    form: Form,
    printer: Printer,
    /// Whether the answer's last line is unfinished.
    is_mid_line: bool,
    is_ended: bool,
}

/// Who reads stdout.
pub(crate) enum Form {
    /// A program that wants every event.
    Json,
    /// A person: what could move the cursor or hide text is escaped.
    Terminal,
    /// A program that wants the answer: text is passed on as it came.
    Text,
}

impl Form {
    pub(crate) fn of_stdout() -> Self {
        if io::stdout().is_terminal() { Self::Terminal } else { Self::Text }
    }
}

impl Screen {
    pub(crate) fn new(form: Form) -> Self {
        Self { form, printer: Printer::start(), is_mid_line: false, is_ended: false }
    }

    /// Whether an event can be shown now. If not, its turn should wait: that is how a slow reader slows the worker.
    pub(crate) fn has_room(&self) -> bool {
        self.printer.has_room()
    }

    /// Waits until an event can be shown.
    pub(crate) async fn room(&self) {
        self.printer.room().await;
    }

    pub(super) fn show(&mut self, event: &TurnEvent) -> Result<()> {
        match self.form {
            Form::Json => self.line(&serde_json::to_string(event)?, &Told::of(event)),
            Form::Terminal | Form::Text => self.tell(&Told::of(event)),
        }
    }

    /// Shows an event that comes as JSON.
    pub(super) fn show_line(&mut self, event: &str, told: &Told) -> Result<()> {
        match self.form {
            Form::Json => self.line(event, told),
            Form::Terminal | Form::Text => self.tell(told),
        }
    }

    fn line(&mut self, event: &str, told: &Told) -> Result<()> {
        self.is_ended |= matches!(told, Told::TurnEnded { .. });
        self.write_out(format!("{event}\n"))
    }

    fn tell(&mut self, told: &Told) -> Result<()> {
        match told {
            Told::Text { text } => return self.text(text),
            Told::ItemStarted { item } => return self.item(item),
            Told::Warning { message } => self.note(&format!("warning: {message}")),
            Told::Error { error, will_retry } => {
                let then = if *will_retry { "; the worker tries again" } else { "" };
                self.note(&format!("error: {}{then}", describe(error)));
            }
            Told::ApprovalWanted { kind } => {
                let kind = kind.replace('_', " ");
                self.note(&format!("waits for a decision ({kind}): `switchboard approvals` shows it"));
            }
            Told::TurnEnded { status, error } => {
                self.is_ended = true;
                return self.ended(*status, error.as_ref());
            }
            Told::Missed {} => self.note("some of the answer came faster than it was read, and is missing here"),
            Told::TooLong {} => {
                self.note("a piece of the answer was larger than the server keeps, and is missing here")
            }
            Told::Other => {}
        }
        Ok(())
    }

    /// A word beside the answer, for the person. If it cannot be written, the answer still can.
    pub(crate) fn note(&mut self, text: &str) {
        if let Form::Terminal = self.form {
            _ = self.finish_line();
        }
        // Lines after the first are set off, so that no text of a worker can pass for a note of ours.
        let note = escaped_lines(text).replace('\n', "\n    ") + "\n";
        _ = self.printer.print(Piece::Err(note));
    }

    /// The end of a turn that never began.
    pub(crate) fn end(&mut self, status: TurnStatus) -> Result<TurnStatus> {
        self.show(&TurnEvent::TurnEnded { status, error: None })?;
        Ok(status)
    }

    /// Why there is no answer, or no more of it.
    pub(crate) fn fail(&mut self, error: &anyhow::Error) {
        if error.is::<Stopped>() || self.is_ended {
            return;
        }
        let error = format!("{error:#}");
        match self.form {
            // Nothing is left to be done if even this cannot be written.
            Form::Json => _ = self.show(&TurnEvent::lost(&error)),
            Form::Terminal | Form::Text => {
                _ = self.finish_line();
                self.note(&format!("switchboard: {error}"));
            }
        }
    }

    /// Waits until everything is written.
    pub(crate) async fn finish(self) -> io::Result<()> {
        self.printer.finish().await
    }

    fn text(&mut self, text: &str) -> Result<()> {
        if let Some(last) = text.chars().last() {
            self.is_mid_line = last != '\n';
        }
        match self.form {
            Form::Terminal => self.write_out(escaped_lines(text)),
            Form::Json | Form::Text => self.write_out(text.into()),
        }
    }

    fn item(&mut self, item: &ToldItem) -> Result<()> {
        match &*item.kind {
            "agent_message" => return self.finish_line(),
            "user_message" | "reasoning" => {}
            kind => {
                let command = item.command().map(|command| format!(": {command}")).unwrap_or_default();
                self.note(&format!("· {}{command}", kind.replace('_', " ")));
            }
        }
        Ok(())
    }

    fn ended(&mut self, status: TurnStatus, error: Option<&ToldError>) -> Result<()> {
        self.finish_line()?;
        let cause = error.map(describe).unwrap_or_default();
        match status {
            TurnStatus::Completed => {}
            TurnStatus::Interrupted => self.note("interrupted"),
            TurnStatus::Failed => self.note(&format!("the turn failed: {cause}")),
            TurnStatus::Lost => self.note(&format!("the turn is lost: {cause}")),
        }
        Ok(())
    }

    fn write_out(&self, text: String) -> Result<()> {
        Ok(self.printer.print(Piece::Out(text))?)
    }

    fn finish_line(&mut self) -> Result<()> {
        if std::mem::take(&mut self.is_mid_line) {
            self.write_out("\n".into())?;
        }
        Ok(())
    }
}

fn describe(error: &ToldError) -> String {
    let kind = error.kind.as_deref().map(|kind| format!(" ({kind})"));
    format!("{}{}", error.message, kind.unwrap_or_default())
}
