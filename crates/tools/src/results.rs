//! The results of tool servers as the types that `rmcp` writes for callers, pure: what it does not know of them is lost, what
//! it refuses is told.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// How much is said of why a result cannot be used: it may quote any part of it.
const REASON_BYTES_MAX: usize = 200;

/// The result as its type, or why it is none.
pub(crate) fn decoded<T: DeserializeOwned>(mut result: Value) -> Result<T, String> {
    let Some(fields) = result.as_object_mut() else { return Err("it is no object".into()) };
    // A legacy server does not say it, and a modern caller wants it said; rmcp takes it away for others.
    fields.entry("resultType").or_insert_with(|| "complete".into());
    serde_json::from_value(result).map_err(|error| {
        let mut why = error.to_string();
        why.truncate(why.floor_char_boundary(REASON_BYTES_MAX));
        why
    })
}

#[cfg(test)]
mod tests {
    use rmcp::model::CallToolResult;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_no_result_is_told_in_a_few_words() {
        let why = |result| decoded::<CallToolResult>(result).unwrap_err();
        assert_eq!(why(json!("text")), "it is no object");
        let long = why(json!({ "content": "x".repeat(1000) }));
        assert!(long.len() <= REASON_BYTES_MAX && long.contains("xxx"), "{long}");
        assert!(decoded::<CallToolResult>(json!({ "content": [] })).is_ok());
    }
}
