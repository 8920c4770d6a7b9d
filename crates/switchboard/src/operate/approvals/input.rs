//! What a person fills in, in the words of who asked: a form of a tool server, or questions of an agent. A decision stands, so
//! whatever can be seen to be wrong is said before it is made.

use serde_json::{Map, Value, json};

use super::super::cell;

/// Why nothing was answered.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unanswerable {
    #[error("an approval of the kind {0} asks for no input: use `switchboard approvals allow` or `deny`")]
    NoQuestion(String),
    #[error("it is decided already: {0}")]
    Over(String),
    #[error("{0} is not asked for: {1}")]
    Unknown(String, String),
    #[error("{0} is missing: {1}")]
    Missing(String, String),
    #[error("{0} must be of the type {1}")]
    OfAnotherType(String, String),
    #[error("{0} must be one of {1}")]
    NoChoice(String, String),
    #[error("the answer to {0} is neither a text nor a list of texts")]
    NoText(String),
}

/// The `content` of the verdict that answers the approval with what was given.
pub(super) fn content(approval: &Value, given: &Map<String, Value>) -> Result<Value, Unanswerable> {
    let (kind, state, params) = (&approval["kind"], &approval["state"], &approval["params"]);
    match kind.as_str() {
        Some("elicitation" | "user_input") if state != "pending" => Err(Unanswerable::Over(cell(state))),
        Some("elicitation") => form(&params["requestedSchema"], given),
        Some("user_input") => answers(&params["questions"], given),
        _ => Err(Unanswerable::NoQuestion(cell(kind))),
    }
}

/// As the tool server is told; with `action`, so that a field of that name is taken for nothing else.
fn form(schema: &Value, given: &Map<String, Value>) -> Result<Value, Unanswerable> {
    if let Some(fields) = schema["properties"].as_object() {
        let fields: Vec<&str> = fields.keys().map(String::as_str).collect();
        check_names(given, &fields)?;
        let mut needed = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        if let Some(missing) = needed.find(|name| !given.contains_key(*name)) {
            return Err(Unanswerable::Missing(quoted(missing), there_are(&fields)));
        }
        for (name, value) in given {
            check_value(name, value, &schema["properties"][name])?;
        }
    }
    Ok(json!({ "action": "accept", "content": given }))
}

/// Forms have only plain fields: texts, numbers, booleans, choices, and lists of choices.
fn check_value(name: &str, value: &Value, field: &Value) -> Result<(), Unanswerable> {
    let fits = match field["type"].as_str() {
        Some("string") => value.is_string(),
        Some("number") => value.is_number(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        _ => true,
    };
    if !fits {
        return Err(Unanswerable::OfAnotherType(quoted(name), cell(&field["type"])));
    }
    match field["enum"].as_array() {
        Some(choices) if !choices.contains(value) => {
            let choices: Vec<String> = choices.iter().map(cell).collect();
            Err(Unanswerable::NoChoice(quoted(name), choices.join(", ")))
        }
        _ => Ok(()),
    }
}

/// As the agent is told: a list of texts for each question.
fn answers(questions: &Value, given: &Map<String, Value>) -> Result<Value, Unanswerable> {
    let questions: Vec<&str> =
        questions.as_array().into_iter().flatten().filter_map(|question| question["id"].as_str()).collect();
    check_names(given, &questions)?;
    let told = given.iter().map(|(id, answer)| match answer {
        Value::String(_) => Ok((id.clone(), json!({ "answers": [answer] }))),
        Value::Array(texts) if texts.iter().all(Value::is_string) => Ok((id.clone(), json!({ "answers": texts }))),
        _ => Err(Unanswerable::NoText(quoted(id))),
    });
    Ok(json!({ "answers": told.collect::<Result<Map<_, _>, _>>()? }))
}

fn check_names(given: &Map<String, Value>, asked: &[&str]) -> Result<(), Unanswerable> {
    match given.keys().find(|name| !asked.contains(&name.as_str())) {
        Some(unknown) => Err(Unanswerable::Unknown(quoted(unknown), there_are(asked))),
        None => Ok(()),
    }
}

fn there_are(asked: &[&str]) -> String {
    match asked {
        [] => "nothing is".into(),
        asked => format!("there are {}", asked.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ")),
    }
}

fn quoted(name: &str) -> String {
    format!("`{}`", supervise::escaped(name))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::content;

    fn told(approval: &Value, given: &Value) -> String {
        match content(approval, given.as_object().unwrap()) {
            Ok(content) => content.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_form_is_accepted_with_what_was_filled_in() {
        let schema = json!({
            "type": "object",
            "properties": { "name": { "type": "string" }, "action": { "type": "string" } },
            "required": ["name"],
        });
        let asked = |schema: &Value| json!({ "kind": "elicitation", "state": "pending", "params": { "message": "Who?", "requestedSchema": schema } });
        let form = asked(&schema);
        assert_eq!(told(&form, &json!({ "name": "Ada" })), r#"{"action":"accept","content":{"name":"Ada"}}"#);
        assert_eq!(
            told(&form, &json!({ "name": "Ada", "action": "decline" })),
            r#"{"action":"accept","content":{"action":"decline","name":"Ada"}}"#
        );
        assert_eq!(told(&form, &json!({ "nmae": "Ada" })), "`nmae` is not asked for: there are `action`, `name`");
        assert_eq!(told(&form, &json!({ "action": "x" })), "`name` is missing: there are `action`, `name`");
        let no_fields = asked(&json!({ "type": "object", "properties": {} }));
        assert_eq!(told(&no_fields, &json!({})), r#"{"action":"accept","content":{}}"#);
        assert_eq!(told(&no_fields, &json!({ "a": 1 })), "`a` is not asked for: nothing is");
        // Newer forms say in other ways what they want.
        assert_eq!(told(&asked(&json!(null)), &json!({ "a": 1 })), r#"{"action":"accept","content":{"a":1}}"#);
    }

    #[test]
    fn each_question_of_an_agent_has_a_list_of_texts() {
        let questions = json!([{ "id": "q1", "question": "Sure?" }, { "id": "q2", "question": "Which?" }]);
        let asked = json!({ "kind": "user_input", "state": "pending", "params": { "questions": questions } });
        assert_eq!(
            told(&asked, &json!({ "q1": "yes", "q2": ["a", "b"] })),
            r#"{"answers":{"q1":{"answers":["yes"]},"q2":{"answers":["a","b"]}}}"#
        );
        assert_eq!(told(&asked, &json!({ "q1": true })), "the answer to `q1` is neither a text nor a list of texts");
        assert_eq!(told(&asked, &json!({ "answers": {} })), "`answers` is not asked for: there are `q1`, `q2`");
    }

    #[test]
    fn what_asks_for_no_input_or_waits_no_more_is_not_answered() {
        let command = json!({ "kind": "command", "state": "pending", "params": {} });
        assert_eq!(
            told(&command, &json!({})),
            "an approval of the kind command asks for no input: use `switchboard approvals allow` or `deny`"
        );
        let over = json!({ "kind": "elicitation", "state": "expired", "params": {} });
        assert_eq!(told(&over, &json!({})), "it is decided already: expired");
    }
}
