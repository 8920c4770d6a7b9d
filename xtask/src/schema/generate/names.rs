//! Names on the wire as names in Rust.

use anyhow::{Result, bail};

const KEYWORDS: [&str; 11] = ["as", "async", "const", "enum", "fn", "in", "match", "mod", "ref", "self", "type"];

/// Two words of one type that would get the same name, and the name that the second one gets instead.
const TOLD_APART: [(&str, &str, &str); 1] = [("McpServerElicitationRequestParams", "openai/form", "OpenaiSlashForm")];

/// The variant of a type for a word on the wire; `Other` is left to the words that nobody knows.
pub(super) fn variant(owner: &str, word: &str) -> Result<String> {
    if let Some((_, _, name)) = TOLD_APART.iter().find(|(type_name, wire, _)| *type_name == owner && *wire == word) {
        return Ok((*name).to_owned());
    }
    let name = pascal(word);
    if name == "Other" {
        let last = words_of(owner).pop().unwrap_or_default();
        return Ok(format!("Other{}", capitalised(&last)));
    }
    if !name.starts_with(|first: char| first.is_ascii_uppercase()) {
        bail!("{owner}: {word:?} makes no name; give it one in {}", file!());
    }
    Ok(name)
}

/// `thread/tokenUsage/updated` → `ThreadTokenUsageUpdated`
pub(super) fn pascal(wire: &str) -> String {
    words_of(wire).iter().map(|word| capitalised(word)).collect()
}

/// `threadId` → `thread_id`, with `r#` where it must be.
pub(super) fn field(wire: &str) -> String {
    let name = words_of(wire).join("_");
    if KEYWORDS.contains(&name.as_str()) { format!("r#{name}") } else { name }
}

/// The words of a name in lower case, however they are joined.
fn words_of(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut previous = None::<char>;
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() {
            previous = None;
            continue;
        }
        let begins = match previous {
            None => true,
            Some(before) => c.is_ascii_uppercase() && !before.is_ascii_uppercase(),
        };
        if begins {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.push(c.to_ascii_lowercase());
        }
        previous = Some(c);
    }
    words
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::{field, pascal, variant};

    #[test]
    fn names_of_every_style_become_rust() {
        let fields = ["threadId", "exclude_tmpdir_env_var", "_meta", "$schema", "ca-certificate", "type", "PreToolUse"];
        let expected =
            ["thread_id", "exclude_tmpdir_env_var", "meta", "schema", "ca_certificate", "r#type", "pre_tool_use"];
        assert_eq!(fields.map(field), expected);
        assert_eq!(pascal("thread/tokenUsage/updated"), "ThreadTokenUsageUpdated");
        assert_eq!(pascal("DISABLED_BY_ADMIN"), "DisabledByAdmin");
        assert_eq!(pascal("on-request"), "OnRequest");
    }

    #[test]
    fn the_variant_for_unknown_words_stays_free() {
        assert_eq!(variant("CodexErrorInfo", "other").unwrap(), "OtherInfo");
        assert_eq!(variant("CodexErrorInfo", "badRequest").unwrap(), "BadRequest");
        assert!(variant("Size", "2x").is_err());
    }
}
