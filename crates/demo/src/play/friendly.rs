//! The answer to someone who just wants to see it work.

use std::time::Duration;

use crate::shapes::Tokens;

/// However long the answer, it streams in about this time.
const WHOLE_ANSWER: Duration = Duration::from_millis(1800);
const WORD_PAUSE: Duration = Duration::from_millis(25);
const ECHO_CHARS_MAX: usize = 240;

/// Says where one is, echoes what was asked, and tells how to get the real thing.
pub(super) fn answer(asked: &str) -> String {
    let echo = match quoted(asked) {
        Some(asked) => format!("You asked: “{asked}” And"),
        None => "You asked nothing yet, but".to_owned(),
    };
    format!(
        "Hello from Switchboard's built-in demo worker. There is no model here: I understand nothing, \
         but I speak the same protocol as the real one. {echo} this answer streams to you word by word, \
         as a model's would.\n\n\
         For real answers, install Codex (`npm install -g @openai/codex`), run `codex login`, and ask again \
         with `--worker codex`."
    )
}

/// The pause after each of so many words.
pub(super) fn pause(words: usize) -> Duration {
    let share = WHOLE_ANSWER / u32::try_from(words.max(1)).unwrap_or(u32::MAX);
    share.min(WORD_PAUSE)
}

/// A guess at four characters a token.
pub(super) fn tokens(asked: &str, answer: &str) -> Tokens {
    let guess = |text: &str| u64::try_from(text.chars().count().div_ceil(4)).unwrap_or(u64::MAX);
    Tokens { cached_input_tokens: 0, ..Tokens::of(guess(asked), guess(answer), 0) }
}

fn quoted(asked: &str) -> Option<String> {
    let words = asked.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(ECHO_CHARS_MAX) {
        _ if words.is_empty() => None,
        Some((end, _)) => Some(format!("{}…", &words[..end])),
        None => Some(words),
    }
}
