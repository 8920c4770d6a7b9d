//! Puts what was said earlier into the values of a script: `$NAME.path.to.value`, and `$$` for a dollar.

use std::collections::BTreeMap;

use serde_json::Value;

/// `template` with each `$NAME.path` in its strings replaced; a string that is nothing else becomes the value itself.
pub(crate) fn substitute(template: &Value, values: &BTreeMap<String, Value>) -> Result<Value, String> {
    Ok(match template {
        Value::String(text) => match text.strip_prefix('$') {
            Some(path) if path.chars().all(is_path) => lookup(path, values)?.clone(),
            _ => Value::String(interpolate(text, values)?),
        },
        Value::Array(items) => items.iter().map(|item| substitute(item, values)).collect::<Result<_, _>>()?,
        Value::Object(fields) => {
            let substituted = fields.iter().map(|(key, value)| Ok((key.clone(), substitute(value, values)?)));
            Value::Object(substituted.collect::<Result<_, String>>()?)
        }
        other => other.clone(),
    })
}

fn interpolate(text: &str, values: &BTreeMap<String, Value>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let end = after.find(|c| !is_path(c)).unwrap_or(after.len());
        match lookup(&after[..end], values)? {
            Value::String(value) => out.push_str(value),
            other => out.push_str(&other.to_string()),
        }
        rest = &after[end..];
    }
    out.push_str(rest);
    Ok(out)
}

fn is_path(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '.' || c == '_'
}

fn lookup<'v>(path: &str, values: &'v BTreeMap<String, Value>) -> Result<&'v Value, String> {
    let (name, fields) = path.split_once('.').unwrap_or((path, ""));
    let value = values.get(name).ok_or_else(|| format!("`${name}` has no value yet"))?;
    let pointer = if fields.is_empty() { String::new() } else { format!("/{}", fields.replace('.', "/")) };
    value.pointer(&pointer).ok_or_else(|| format!("`${path}`: no such value in {value}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::substitute;

    fn put(template: &Value) -> Result<Value, String> {
        let values = BTreeMap::from([("turn".to_owned(), json!({"id": "t1", "items": [7]}))]);
        substitute(template, &values)
    }

    #[test]
    fn a_text_that_is_nothing_else_becomes_the_value() {
        assert_eq!(put(&json!({"n": "$turn.items.0"})), Ok(json!({"n": 7})));
    }

    #[test]
    fn inside_a_text_the_value_is_written_out() {
        assert_eq!(put(&json!(["at $turn.id/$turn.items, $$1"])), Ok(json!(["at t1/[7], $1"])));
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        assert_eq!(put(&json!("$thread.id")), Err("`$thread` has no value yet".to_owned()));
        assert!(put(&json!("$turn.name")).unwrap_err().starts_with("`$turn.name`: no such value"));
    }
}
