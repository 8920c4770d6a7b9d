//! Hides secrets in a text that a person may read or keep: a line of the protocol, a part of one, or any other text.
//!
//! It is one pass over the text and no parser, so that a line which was cut, or never was JSON, is treated like any other,
//! and what is not secret stays as it was, byte for byte. A secret that a worker streams in pieces is not found.

use std::borrow::Cow;

/// What stands in the place of a secret.
pub const HIDDEN: &str = "[hidden]";

/// JSON in strings of JSON, as in the arguments of a tool, is looked into so often.
const NESTING_MAX: usize = 4;
/// A shorter word behind `Bearer` is prose.
const BEARER_BYTES_MIN: usize = 8;

/// How the names of secrets end, in small letters and without anything between the words.
const SECRET_NAMES: [&str; 18] = [
    "accesskey",
    "apikey",
    "authorization",
    "authtokens",
    "cookie",
    "cookies",
    "credential",
    "credentials",
    "passphrase",
    "passwd",
    "password",
    "passwords",
    "privatekey",
    "secret",
    "secretkey",
    "secrets",
    "signingkey",
    "token",
];

/// What well-known secrets begin with, and how long such a word is at least.
const SECRET_PREFIXES: [(&str, usize); 8] = [
    ("sk-", 8),
    ("sb_", 40),
    ("ghp_", 36),
    ("github_pat_", 40),
    ("xoxb-", 20),
    ("xoxp-", 20),
    ("AKIA", 20),
    ("eyJ", 40),
];

/// The text without the values of keys such as `token`, `api_key` or `Authorization`, at any depth and however they are
/// spelled, and without anything that looks like a key or a bearer token.
#[must_use]
pub fn hide(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    hide_quoted(text, 0, &mut shown);
    shown
}

/// Goes from one quoted string to the next; between them there is no JSON to understand.
fn hide_quoted(text: &str, nesting: usize, shown: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find('"') {
        hide_plain(&rest[..at], shown);
        let string = leading_string(&rest[at..]);
        rest = &rest[at + string.len()..];
        match value_behind(rest) {
            Some(value_at) if is_secret_name(&content(string)) => {
                let (between, behind) = rest.split_at(value_at);
                let value = leading_value(behind);
                shown.push_str(string);
                shown.push_str(between);
                show_value(value, shown);
                rest = &behind[value.len()..];
            }
            _ => hide_in_string(string, nesting, shown),
        }
    }
    hide_plain(rest, shown);
}

/// A string with its quotes; one that was cut has no second one.
fn leading_string(text: &str) -> &str {
    let mut is_escaped = true;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return &text[..=at],
            _ => {}
        }
    }
    text
}

/// Where the value begins, if what precedes the text is a key.
fn value_behind(text: &str) -> Option<usize> {
    let behind = text.trim_start().strip_prefix(':')?.trim_start();
    Some(text.len() - behind.len())
}

/// One value of JSON, as far as it is there.
fn leading_value(text: &str) -> &str {
    match text.bytes().next() {
        Some(b'"') => leading_string(text),
        Some(b'{' | b'[') => leading_container(text),
        _ => &text[..text.find([',', '}', ']']).unwrap_or(text.len())],
    }
}

fn leading_container(text: &str) -> &str {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'"' => at += leading_string(&text[at..]).len() - 1,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            break;
        }
    }
    &text[..at]
}

/// That there is none, or which of two it is, is no secret.
fn show_value(value: &str, shown: &mut String) {
    if matches!(value.trim_end(), "" | "null" | "true" | "false" | "\"\"" | "{}" | "[]") {
        shown.push_str(value);
    } else {
        shown.extend(["\"", HIDDEN, "\""]);
    }
}

fn hide_in_string(string: &str, nesting: usize, shown: &mut String) {
    let text = content(string);
    let mut hidden = String::with_capacity(text.len());
    if nesting < NESTING_MAX && matches!(text, Cow::Owned(_)) {
        hide_quoted(&text, nesting + 1, &mut hidden);
    } else {
        hide_plain(&text, &mut hidden);
    }
    if hidden == text {
        return shown.push_str(string);
    }
    let written = serde_json::to_string(&hidden).expect("a string can be written");
    let is_whole = string.len() > 1 && string.ends_with('"');
    shown.push_str(if is_whole { &written } else { &written[..written.len() - 1] });
}

/// What a string says, without its quotes and escapes; an escape that was cut goes with it.
fn content(string: &str) -> Cow<'_, str> {
    let inner = string.strip_prefix('"').unwrap_or(string);
    let inner = inner.strip_suffix('"').unwrap_or(inner);
    let Some(last_escape) = inner.rfind('\\') else {
        return Cow::Borrowed(inner);
    };
    let unescaped = |text: &str| serde_json::from_str::<String>(&format!("\"{text}\"")).ok();
    match unescaped(inner).or_else(|| unescaped(&inner[..last_escape])) {
        Some(text) => Cow::Owned(text),
        None => Cow::Borrowed(inner),
    }
}

/// Goes from word to word.
fn hide_plain(text: &str, shown: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find(is_of_word) {
        shown.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.find(|letter| !is_of_word(letter)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        if is_secret(word) {
            shown.push_str(HIDDEN);
            rest = &rest[leading_token(rest).len()..];
            continue;
        }
        shown.push_str(word);
        rest = behind;
        if let Some(gap) = gap_before_secret(word, behind) {
            shown.push_str(&behind[..gap]);
            shown.push_str(HIDDEN);
            rest = &behind[gap + leading_token(&behind[gap..]).len()..];
        }
    }
    shown.push_str(rest);
}

/// How far behind a word its secret is: behind `Bearer`, or as in `API_KEY=…` and `Authorization: Basic …`.
fn gap_before_secret(word: &str, behind: &str) -> Option<usize> {
    let gap_of = |text: &str| behind.len() - text.len();
    if is_scheme(word) {
        let token = behind.trim_start_matches(' ');
        let found = leading_token(token);
        let is_random = found.len() >= BEARER_BYTES_MIN && found.bytes().any(|byte| byte.is_ascii_digit());
        return (gap_of(token) > 0 && is_random).then(|| gap_of(token));
    }
    let value = behind.strip_prefix('=').or_else(|| Some(behind.strip_prefix(':')?.trim_start_matches(' ')))?;
    let scheme = leading_token(value);
    let value = if is_scheme(scheme) { value[scheme.len()..].trim_start_matches(' ') } else { value };
    (is_secret_name(word) && !leading_token(value).is_empty()).then(|| gap_of(value))
}

fn is_scheme(word: &str) -> bool {
    word.eq_ignore_ascii_case("bearer") || word.eq_ignore_ascii_case("basic")
}

fn is_secret_name(name: &str) -> bool {
    let letters: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    SECRET_NAMES.iter().any(|ending| letters.ends_with(ending))
}

fn is_secret(word: &str) -> bool {
    SECRET_PREFIXES.iter().any(|(prefix, bytes_min)| word.starts_with(prefix) && word.len() >= *bytes_min)
}

fn leading_token(text: &str) -> &str {
    let is_of_token = |letter: char| is_of_word(letter) || matches!(letter, '.' | '~' | '+' | '/' | '=' | '%');
    &text[..text.find(|letter| !is_of_token(letter)).unwrap_or(text.len())]
}

fn is_of_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-')
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use proptest::prelude::*;

    use super::hide;

    fn check(lines: &[&str], expect: &expect_test::Expect) {
        expect.assert_eq(&lines.iter().map(|line| hide(line) + "\n").collect::<String>());
    }

    #[test]
    fn values_of_secret_keys_are_hidden_at_any_depth_and_in_any_spelling() {
        check(
            &[
                r#"{"token":"abc","n":1}"#,
                r#"{"a":[{"b":{"accessToken" : "abc", "refresh_token":"def","ID-TOKEN":"ghi"}}]}"#,
                r#"{"password":12345,"api_key":["a","]b"],"cookie":{"a":"}"},"x":"kept"}"#,
                r#"{"env":{"OPENAI_API_KEY":"abc","AWS_SECRET_ACCESS_KEY":"def","HOME":"/root"}}"#,
                r#"{"to\u006ben":"abc"}"#,
            ],
            &expect![[r#"
                {"token":"[hidden]","n":1}
                {"a":[{"b":{"accessToken" : "[hidden]", "refresh_token":"[hidden]","ID-TOKEN":"[hidden]"}}]}
                {"password":"[hidden]","api_key":"[hidden]","cookie":"[hidden]","x":"kept"}
                {"env":{"OPENAI_API_KEY":"[hidden]","AWS_SECRET_ACCESS_KEY":"[hidden]","HOME":"/root"}}
                {"to\u006ben":"[hidden]"}
            "#]],
        );
    }

    #[test]
    fn keys_and_bearer_tokens_are_hidden_wherever_they_stand() {
        check(
            &[
                r#"{"delta":"the key is sk-proj-12ab34cd, is it?"}"#,
                r#"{"headers":["Bearer abc.def-123=","x"],"text":"say\nsk-12345678\n"}"#,
                r#"{"arguments":"{\"token\":\"abc\",\"n\":1}","command":"API_KEY=abc curl -H 'Authorization: Basic dXNlcg=='"}"#,
                "panic: token=abc at main.rs",
            ],
            &expect![[r#"
                {"delta":"the key is [hidden], is it?"}
                {"headers":["Bearer [hidden]","x"],"text":"say\n[hidden]\n"}
                {"arguments":"{\"token\":\"[hidden]\",\"n\":1}","command":"API_KEY=[hidden] curl -H 'Authorization: Basic [hidden]'"}
                panic: token=[hidden] at main.rs
            "#]],
        );
    }

    #[test]
    fn a_line_that_was_cut_shows_no_part_of_a_secret() {
        check(
            &[
                r#"{"a":1,"token":"abc"#,
                r#"{"a":1,"token":{"b":"c"#,
                r#"{"a":1,"tok"#,
                r#"{"a":"use sk-1234567"#,
                r#"{"a":"{\"token\":\"ab\"#,
                r#"{"a":"\n\u00"#,
            ],
            &expect![[r#"
                {"a":1,"token":"[hidden]"
                {"a":1,"token":"[hidden]"
                {"a":1,"tok
                {"a":"use [hidden]
                {"a":"{\"token\":\"[hidden]\"
                {"a":"\n\u00
            "#]],
        );
    }

    #[test]
    fn what_is_no_secret_stays_as_it_was() {
        for line in [
            r#"{"id":1,"result":{"usage":{"inputTokens":100,"totalTokens":110},"token":null,"hasToken":true}}"#,
            r#"{"method":"item/agentMessage/delta","params":{"delta":"a \"quoted\" word: \\ and \u00e9"}}"#,
            r#"{"text":"bearer tokens are basic knowledge; a risk-averse task-force"}"#,
            "",
            "\"",
            "not JSON at all: {]",
        ] {
            assert_eq!(hide(line), line);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_treated_without_harm(text in "[\"\\\\:{}\\[\\], a-c=\n\u{e9}tokensk1-]{0,80}") {
            let hidden = hide(&text);
            prop_assert_eq!(hide(&hidden), hidden);
        }

        #[test]
        fn a_hidden_object_is_still_one(value in "\\PC{0,20}", key in "\\PC{0,20}") {
            let line = serde_json::json!({"token": value, "a": key, "b": {"password": [value]}}).to_string();
            let hidden: serde_json::Value = serde_json::from_str(&hide(&line)).unwrap();
            prop_assert!(value.is_empty() || hidden["token"] == super::HIDDEN);
            prop_assert_eq!(&hidden["b"]["password"], super::HIDDEN);
        }
    }
}
