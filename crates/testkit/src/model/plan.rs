//! Decides, purely, what the stand-in answers to one request.
//!
//! | marker | answer |
//! |---|---|
//! | `[[text]]`, or none | "Hello from mock." in four deltas |
//! | `[[say WORDS]]` | those words, a delta each |
//! | `[[see]]` | "Images seen: N.", those of the prompt |
//! | `[[deltas N]]` · `[[slow N MS]]` | N deltas at once · with a pause after each |
//! | `[[reason]]` | reasoning with two summary parts and raw text, then a message |
//! | `[[shell CMD]]` · `[[shellesc CMD]]` | a command, by whichever tool is offered · with escalated permissions |
//! | `[[patch PATH TEXT]]` | a patch that adds a file |
//! | `[[plan]]` · `[[propose]]` | a plan of three steps, by its tool · in a message, as codex asks for it in plan mode |
//! | `[[tool NAME JSON]]` · `[[tools NAME N]]` | a client tool (`NAME` may be `namespace.name`) · N calls in one response |
//! | `[[json OBJ]]` | a message whose text is OBJ |
//! | `[[recall]]` | "You said N things before.": how many prompts with a marker came before this one |
//! | `[[http CODE]]` · `[[httponce CODE]]` | that HTTP status · the first time only |
//! | `[[ctx]]` · `[[quota]]` | a response that fails: context window, quota |
//! | `[[drop]]` · `[[hang]]` | a stream cut in mid message · a stream that never goes on |
//!
//! Once a tool's output follows the user message, the answer is what the last output's own marker says, or else "Done
//! after tool." in three deltas.

use std::time::Duration;

use serde_json::{Value, json};

use super::calls::{Offered, calls};
use super::marker::Marker;
use super::response::{Response, Usage};

/// What to answer to one request.
#[derive(Debug)]
pub(super) enum Answer {
    Refusal { status: u16, body: Value },
    Stream(Vec<Step>),
}

/// One step of a streamed answer; the stream ends after the last.
#[derive(Debug)]
pub(super) enum Step {
    Event(Value),
    Pause(Duration),
    Hang,
}

/// The part of a request's input that decides the answer.
pub(super) struct Prompt {
    pub text: String,
    pub images: usize,
    /// Prompts with a marker before it.
    pub said_before: usize,
    pub tool_has_answered: bool,
}

impl Prompt {
    /// The last user message, and whether a tool's output follows it. What codex adds as user messages of its own
    /// (`<environment_context>` and the like) does not count.
    pub(super) fn of(body: &Value) -> Self {
        let input = body["input"].as_array().map(Vec::as_slice).unwrap_or_default();
        let said: Vec<(usize, String)> = input
            .iter()
            .enumerate()
            .filter_map(|(at, item)| Some((at, user_text(item)?)))
            .filter(|(_, text)| !is_codex_own(text))
            .collect();
        let (after, text) = said.last().map_or((0, String::new()), |(at, text)| (at + 1, text.clone()));
        let images = said.last().map_or(0, |(at, _)| images_of(&input[*at]));
        // Some versions say more in the user's name than can be told from what it was.
        let prompts = said.iter().filter(|(_, text)| Marker::last(text).is_some()).count();
        let said_before = prompts.saturating_sub(1);
        let output = input[after..].iter().rfind(|item| kind(item).ends_with("_call_output"));
        let follows = output.map(|item| joined(&item["output"])).filter(|text| Marker::last(text).is_some());
        let tool_has_answered = output.is_some() && follows.is_none();
        Self { text: follows.unwrap_or(text), images, said_before, tool_has_answered }
    }
}

/// A picture that a person gives to codex is in tags too.
fn is_codex_own(text: &str) -> bool {
    text.starts_with('<') && !text.starts_with("<image ")
}

fn kind(item: &Value) -> &str {
    item["type"].as_str().unwrap_or("message")
}

fn user_text(item: &Value) -> Option<String> {
    if kind(item) != "message" || item["role"] != "user" {
        return None;
    }
    Some(joined(&item["content"]))
}

/// The text of a content, which is one or is made of parts.
fn joined(content: &Value) -> String {
    match content {
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        content => content.as_str().unwrap_or_default().to_owned(),
    }
}

fn images_of(item: &Value) -> usize {
    let parts = item["content"].as_array().into_iter().flatten();
    parts.filter(|part| part["type"] == "input_image").count()
}

/// The answer to the request `body`, the `number`th of this provider; its prompt was `asked_before` so often.
pub(super) fn plan(body: &Value, prompt: &Prompt, number: u64, asked_before: u64) -> Answer {
    let marker = Marker::last(&prompt.text).unwrap_or(Marker { name: "text", argument: "" });
    let argument = marker.argument;
    let mut response = Response::begin(number);
    if prompt.tool_has_answered {
        response.message(&["Done ", "after ", "tool."]);
        return response.complete(&Usage::TEXT);
    }
    match marker.name {
        "http" => return refusal(status(argument)),
        "httponce" if asked_before == 0 => return refusal(status(argument)),
        "deltas" => {
            let count = first_number(argument, 100);
            response.message(&numbered("t", count));
            return response.complete(&Usage { output: count, ..Usage::TEXT });
        }
        "say" => response.message(&argument.split_inclusive(' ').collect::<Vec<_>>()),
        "see" => response.message(&[format!("Images seen: {}.", prompt.images)]),
        "slow" => {
            let pause =
                Duration::from_millis(argument.split_whitespace().nth(1).map_or(200, |ms| first_number(ms, 200)));
            response.paced_message(&numbered("s", first_number(argument, 20)), pause);
        }
        "reason" => {
            response.reasoning();
            response.message(&["Reasoned ", "answer."]);
            return response.complete(&Usage { output: 30, reasoning: 20, ..Usage::TEXT });
        }
        "shell" | "shellesc" | "patch" | "plan" | "tool" | "tools" => {
            response.tool_calls(&calls(&marker, &Offered::by(body), number));
            return response.complete(&Usage::TOOL);
        }
        "propose" => response.message(&PROPOSAL),
        "json" => response.message(&[argument]),
        "recall" => response.message(&[format!("You said {} things before.", prompt.said_before)]),
        "ctx" => {
            return response.fail("context_length_exceeded", "Your input exceeds the context window of this model.");
        }
        "quota" => return response.fail("insufficient_quota", "You exceeded your current quota."),
        "drop" => return response.cut(),
        "hang" => return response.hang(),
        _ => response.message(&["Hello ", "from ", "mock", "."]),
    }
    response.complete(&Usage::TEXT)
}

/// A plan in the tags that codex makes an item of, a line a delta.
const PROPOSAL: [&str; 7] = [
    "Before.\n",
    "<proposed_plan>\n",
    "- Read the code\n",
    "- Change it\n",
    "- Run the tests\n",
    "</proposed_plan>\n",
    "After.",
];

pub(super) fn first_number(argument: &str, default: u64) -> u64 {
    argument.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(default)
}

fn status(argument: &str) -> u16 {
    argument.parse().unwrap_or(500)
}

fn numbered(letter: &str, count: u64) -> Vec<String> {
    (0..count).map(|index| format!("{letter}{index} ")).collect()
}

fn refusal(status: u16) -> Answer {
    let error = match status {
        400 => json!({
            "message": "Your input exceeds the context window of this model.",
            "type": "invalid_request_error",
            "code": "context_length_exceeded",
        }),
        401 => {
            json!({"message": "Incorrect API key", "type": "invalid_request_error", "code": "invalid_api_key"})
        }
        429 => json!({
            "message": "Rate limit reached for mock",
            "type": "rate_limit_exceeded",
            "code": "rate_limit_exceeded",
        }),
        other => json!({"message": format!("mock error {other}"), "type": "server_error"}),
    };
    Answer::Refusal { status, body: json!({"error": error}) }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    use super::{Answer, Prompt, Step, plan};

    /// Shows what the model says: deltas, whole items, failures, pauses.
    fn check(input: &Value, tools: &Value, expected: &Expect) {
        let body = json!({"input": input, "tools": tools});
        let shown = match plan(&body, &Prompt::of(&body), 1, 0) {
            Answer::Refusal { status, body } => format!("{status} {body}\n"),
            Answer::Stream(steps) => steps.iter().filter_map(shown).collect(),
        };
        expected.assert_eq(&shown);
    }

    fn shown(step: &Step) -> Option<String> {
        let Step::Event(event) = step else {
            return Some(format!("{step:?}\n"));
        };
        match event["type"].as_str()? {
            "response.output_item.done" => Some(format!("{}\n", event["item"])),
            "response.failed" => Some(format!("{}\n", event["response"]["error"])),
            name if name.ends_with(".delta") => Some(format!("{}\n", event["delta"])),
            _ => None,
        }
    }

    fn say(text: &str) -> Value {
        json!([
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>"}]},
        ])
    }

    #[test]
    fn a_pause_follows_every_slow_delta() {
        check(
            &say("[[slow 1 60000]]"),
            &json!([]),
            &expect![[r#"
                "s0 "
                Pause(60s)
                {"content":[{"annotations":[],"text":"s0 ","type":"output_text"}],"id":"msg_resp_1","role":"assistant","status":"completed","type":"message"}
            "#]],
        );
    }

    #[test]
    fn a_command_goes_by_the_tool_that_is_offered() {
        for (tool, expected) in [
            (
                "exec_command",
                expect![[r#"
                    {"arguments":"{\"cmd\":\"ls\",\"justification\":\"mock wants to run this\",\"sandbox_permissions\":\"require_escalated\"}","call_id":"call_resp_1","id":"fc_resp_1","name":"exec_command","type":"function_call"}
                "#]],
            ),
            (
                "shell_command",
                expect![[r#"
                    {"arguments":"{\"command\":\"ls\",\"justification\":\"mock wants to run this\",\"sandbox_permissions\":\"require_escalated\"}","call_id":"call_resp_1","id":"fc_resp_1","name":"shell_command","type":"function_call"}
                "#]],
            ),
            (
                "shell",
                expect![[r#"
                    {"arguments":"{\"command\":[\"bash\",\"-lc\",\"ls\"],\"justification\":\"mock wants to run this\",\"with_escalated_permissions\":true}","call_id":"call_resp_1","id":"fc_resp_1","name":"shell","type":"function_call"}
                "#]],
            ),
        ] {
            check(&say("[[shellesc ls]]"), &json!([{"type": "function", "name": tool}]), &expected);
        }
        check(
            &say("[[shell ls]]"),
            &json!([{"type": "local_shell"}]),
            &expect![[r#"
                {"action":{"command":["bash","-lc","ls"],"type":"exec"},"call_id":"call_resp_1","id":"lsh_resp_1","status":"completed","type":"local_shell_call"}
            "#]],
        );
    }

    #[test]
    fn a_patch_goes_by_the_tool_that_is_offered() {
        check(
            &say("[[patch a.txt hi there]]"),
            &json!([{"type": "custom", "name": "apply_patch"}]),
            &expect![[r#"
                {"call_id":"call_resp_1","id":"ctc_resp_1","input":"*** Begin Patch\n*** Add File: a.txt\n+hi there\n*** End Patch\n","name":"apply_patch","type":"custom_tool_call"}
            "#]],
        );
        check(
            &say("[[patch a.txt]]"),
            &json!([{"type": "function", "name": "apply_patch"}]),
            &expect![[r#"
                {"arguments":"{\"input\":\"*** Begin Patch\\n*** Add File: a.txt\\n+hello\\n*** End Patch\\n\"}","call_id":"call_resp_1","id":"fc_resp_1","name":"apply_patch","type":"function_call"}
            "#]],
        );
    }

    #[test]
    fn client_tools_are_called_by_name_and_namespace() {
        check(
            &say("[[tool tickets.lookup {\"id\":7}]]"),
            &json!([]),
            &expect![[r#"
                {"arguments":"{\"id\":7}","call_id":"call_resp_1","id":"fc_resp_1","name":"lookup","namespace":"tickets","type":"function_call"}
            "#]],
        );
        check(
            &say("[[tools ask 2]]"),
            &json!([]),
            &expect![[r#"
                {"arguments":"{\"question\":\"q1\"}","call_id":"call_resp_1_1","id":"fc_resp_1_1","name":"ask","type":"function_call"}
                {"arguments":"{\"question\":\"q2\"}","call_id":"call_resp_1_2","id":"fc_resp_1_2","name":"ask","type":"function_call"}
            "#]],
        );
    }

    #[test]
    fn a_tool_output_after_the_prompt_ends_the_turn() {
        let mut input = say("[[shell ls]]");
        input.as_array_mut().unwrap().push(json!({"type": "function_call_output", "call_id": "c", "output": "x"}));
        check(
            &input,
            &json!([]),
            &expect![[r#"
                "Done "
                "after "
                "tool."
                {"content":[{"annotations":[],"text":"Done after tool.","type":"output_text"}],"id":"msg_resp_1","role":"assistant","status":"completed","type":"message"}
            "#]],
        );
    }

    #[test]
    fn a_marker_in_a_tools_output_goes_on() {
        let mut input = say("[[tool lookup {\"id\":1}]]");
        let output = json!([{"type": "input_text", "text": "one, so now [[tool lookup {\"id\":2}]]"}]);
        input.as_array_mut().unwrap().push(json!({"type": "function_call_output", "call_id": "c", "output": output}));
        check(
            &input,
            &json!([]),
            &expect![[r#"
                {"arguments":"{\"id\":2}","call_id":"call_resp_1","id":"fc_resp_1","name":"lookup","type":"function_call"}
            "#]],
        );
    }

    #[test]
    fn images_of_the_prompt_are_counted() {
        let text = |text: &str| json!({"type": "input_text", "text": text});
        let picture = json!({"type": "input_image", "image_url": "data:"});
        for content in
            [json!([text("[[see]]"), picture]), json!([text("<image name=a>"), picture, text("</image>[[see]]")])]
        {
            check(
                &json!([{"role": "user", "content": content}]),
                &json!([]),
                &expect![[r#"
                    "Images seen: 1."
                    {"content":[{"annotations":[],"text":"Images seen: 1.","type":"output_text"}],"id":"msg_resp_1","role":"assistant","status":"completed","type":"message"}
                "#]],
            );
        }
    }

    #[test]
    fn earlier_prompts_are_recalled() {
        let said = |text: &str| json!({"role": "user", "content": text});
        let input =
            json!([said("# AGENTS.md"), said("[[text]]"), said("<note>"), said("[[text]]"), said("[[recall]]")]);
        check(
            &input,
            &json!([]),
            &expect![[r#"
            "You said 2 things before."
            {"content":[{"annotations":[],"text":"You said 2 things before.","type":"output_text"}],"id":"msg_resp_1","role":"assistant","status":"completed","type":"message"}
        "#]],
        );
    }

    #[test]
    fn failures_are_of_three_kinds() {
        check(
            &say("[[http 429]]"),
            &json!([]),
            &expect![[r#"
            429 {"error":{"code":"rate_limit_exceeded","message":"Rate limit reached for mock","type":"rate_limit_exceeded"}}
        "#]],
        );
        check(
            &say("[[quota]]"),
            &json!([]),
            &expect![[r#"
                {"code":"insufficient_quota","message":"You exceeded your current quota."}
            "#]],
        );
        check(
            &say("[[drop]]"),
            &json!([]),
            &expect![[r#"
                "partial"
            "#]],
        );
    }
}
