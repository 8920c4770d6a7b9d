//! How whoever asks for a response again wants it: as the object that it is now, or as its events.

use serde::Deserialize;

use crate::error::Error;
use crate::openai::read::Bad;

/// The parameters as they came.
#[derive(Default, Deserialize)]
pub(crate) struct Wish {
    stream: Option<String>,
    starting_after: Option<String>,
}

/// What they mean.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Object,
    /// All that are kept, or those after the one of this number.
    Events {
        after: Option<u64>,
    },
}

impl Wish {
    pub(super) fn read(&self) -> Result<Wanted, Error> {
        let after = self.starting_after.as_deref().map(number).transpose()?;
        match self.stream.as_deref() {
            None | Some("false") => Ok(Wanted::Object),
            Some("true") => Ok(Wanted::Events { after }),
            Some(other) => Err(Bad::value(format!("must be true or false, not {other:?}")).at("stream").into()),
        }
    }
}

fn number(text: &str) -> Result<u64, Error> {
    let bad = |_| Bad::value(format!("must be the number of an event, such as 7, not {text:?}")).at("starting_after");
    Ok(text.parse().map_err(bad)?)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::Wish;

    fn check(query: &str, expected: &Expect) {
        let mut wish = Wish::default();
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let field = if name == "stream" { &mut wish.stream } else { &mut wish.starting_after };
            *field = Some(value.into());
        }
        expected.assert_eq(&wish.read().map_or_else(|error| error.frame(), |wanted| format!("{wanted:?}")));
    }

    #[test]
    fn events_are_given_to_who_says_so() {
        check("", &expect!["Object"]);
        check("stream=false&starting_after=7", &expect!["Object"]);
        check("stream=true", &expect!["Events { after: None }"]);
        check("stream=true&starting_after=7", &expect!["Events { after: Some(7) }"]);
    }

    #[test]
    fn what_means_nothing_is_named_with_what_would() {
        check(
            "stream=yes",
            &expect![[
                r#"{"type":"error","status":400,"error":{"message":"`stream` must be true or false, not \"yes\"","type":"invalid_request_error","param":"stream","code":"invalid_value"}}"#
            ]],
        );
        check(
            "stream=true&starting_after=-1",
            &expect![[
                r#"{"type":"error","status":400,"error":{"message":"`starting_after` must be the number of an event, such as 7, not \"-1\"","type":"invalid_request_error","param":"starting_after","code":"invalid_value"}}"#
            ]],
        );
    }
}
