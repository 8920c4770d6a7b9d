//! Results that are too long for whoever reads them, cut with a note that says so: pure. What does not fit is left out whole,
//! but texts, which are cut.

use serde_json::{Value, json};

/// How many of the things that were left out the note names.
const NAMED_MAX: usize = 8;

/// The result, at most about `bytes_max` long. How long it was, if it was cut. What is no object is left as it is.
pub(crate) fn capped(mut result: Value, bytes_max: usize, server: &str) -> (Value, Option<usize>) {
    let bytes = result.to_string().len();
    let Some(fields) = result.as_object_mut().filter(|_| bytes > bytes_max) else { return (result, None) };
    let mut room = bytes_max;
    let mut left_out = Vec::new();
    // The structured content is mostly said once more as text, which can be cut.
    for field in ["structuredContent", "_meta"] {
        let size = fields.get(field).map_or(0, |value| value.to_string().len());
        if size > room / 2 {
            left_out.push(format!("`{field}`"));
            fields.remove(field);
        } else {
            room -= size;
        }
    }
    let blocks = fields.get_mut("content").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
    let mut kept = Vec::new();
    for (index, block) in blocks.into_iter().enumerate() {
        let size = block.to_string().len();
        if size <= room {
            room -= size;
            kept.push(block);
            continue;
        }
        match block["text"].as_str() {
            Some(text) if room > 0 => {
                let end = text.floor_char_boundary(room);
                left_out.push(format!(
                    "{} of {} bytes of the text in `content[{index}]`",
                    text.len() - end,
                    text.len()
                ));
                // Without its other fields, which may be what is too long.
                kept.push(json!({ "type": "text", "text": text[..end] }));
                room = 0;
            }
            _ => left_out.push(format!("`content[{index}]` ({size} bytes)")),
        }
    }
    let more = match left_out.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    left_out.truncate(NAMED_MAX);
    let note = format!(
        "[Switchboard: this result had {bytes} bytes, and {bytes_max} are passed on (`result_bytes_max` of the tool server {server}). Left out: {}{more}.]",
        left_out.join(", ")
    );
    kept.push(json!({ "type": "text", "text": note }));
    fields.insert("content".into(), kept.into());
    (result, Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_fits_is_left_as_it_is() {
        let result = json!({ "content": [{ "type": "text", "text": "short" }] });
        assert_eq!(capped(result.clone(), 1000, "fs"), (result, None));
    }

    #[test]
    fn a_long_text_is_cut_between_characters_and_says_so() {
        let result = json!({ "content": [{ "type": "text", "text": "ä".repeat(1000) }], "isError": false });
        let (cut, bytes) = capped(result, 501, "fs");
        assert_eq!(bytes, Some(2055));
        assert_eq!(cut["content"][0]["text"].as_str().unwrap().len(), 500);
        let note = cut["content"][1]["text"].as_str().unwrap();
        assert!(note.contains("1500 of 2000 bytes of the text in `content[0]`"), "{note}");
        assert_eq!(cut["isError"], false);
    }

    #[test]
    fn what_cannot_be_cut_is_left_out_and_named() {
        let result = json!({
            "content": [{ "type": "image", "data": "x".repeat(500), "mimeType": "image/png" }, { "type": "text", "text": "ok" }],
            "structuredContent": { "rows": "y".repeat(500) },
        });
        let (cut, _) = capped(result, 300, "fs");
        assert!(cut.get("structuredContent").is_none());
        assert_eq!(cut["content"][0]["text"], "ok");
        let note = cut["content"][1]["text"].as_str().unwrap();
        assert!(note.contains("`structuredContent`, `content[0]`"), "{note}");
    }

    #[test]
    fn neither_many_blocks_nor_what_stands_beside_the_text_makes_it_longer() {
        let block = json!({ "type": "image", "data": "x".repeat(50), "mimeType": "image/png" });
        let (cut, _) = capped(json!({ "content": vec![block; 1000] }), 300, "fs");
        assert!(cut.to_string().len() < 1500, "{cut}");
        assert!(cut["content"].as_array().unwrap().last().unwrap()["text"].as_str().unwrap().contains("more.]"));
        let long = "x".repeat(5000);
        let text = json!({ "type": "text", "text": "ok", "_meta": { "long": long } });
        let (cut, _) = capped(json!({ "content": [text], "_meta": { "long": long } }), 300, "fs");
        assert!(cut.to_string().len() < 1500, "{cut}");
        assert_eq!(cut["content"][0]["text"], "ok");
    }

    #[test]
    fn what_is_no_object_is_left_to_others() {
        for strange in [json!("x".repeat(500)), json!(vec![1; 500]), Value::Null] {
            assert_eq!(capped(strange.clone(), 10, "fs"), (strange, None));
        }
    }
}
