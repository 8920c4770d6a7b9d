//! The JSON object that a command is given: as an argument, or on stdin where that is `-`.

use std::io::{self, Read as _};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Map, Value};

/// The longest object that is read from stdin.
const OBJECT_BYTES_MAX: u64 = 16 << 20;

/// The object that was given; `what` it is stands in whatever is wrong with it.
pub(crate) fn read(given: &str, what: &str) -> Result<Map<String, Value>> {
    if given != "-" {
        return parse(given, what);
    }
    let mut text = String::new();
    let read = io::stdin().take(OBJECT_BYTES_MAX + 1).read_to_string(&mut text);
    read.with_context(|| format!("cannot read {what} from stdin"))?;
    ensure!(text.len() as u64 <= OBJECT_BYTES_MAX, "cannot read {what}: longer than {OBJECT_BYTES_MAX} bytes");
    parse(&text, what)
}

fn parse(text: &str, what: &str) -> Result<Map<String, Value>> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => bail!("cannot read {what}: no JSON object; write {{\"name\": value}}"),
        Err(error) => {
            bail!("cannot read {what}: no JSON: {error}; quote it for the shell, as '{{\"name\": \"value\"}}'")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn what_is_given_is_one_object() {
        let wrong = |text: &str| parse(text, "the answer").unwrap_err().to_string();
        assert_eq!(parse(r#"{"a":1}"#, "the answer").unwrap()["a"], 1);
        assert!(wrong("[1]").starts_with("cannot read the answer: no JSON object; "));
        assert!(wrong("{a:1}").starts_with("cannot read the answer: no JSON: key must be a string"));
        assert!(wrong("{a:1}").contains("quote it for the shell"));
        assert!(wrong("").contains("no JSON: "));
    }
}
