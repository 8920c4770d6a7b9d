//! The list of what the client needs agrees with its sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use codex::protocol::{METHODS, NEEDS, Until};

use super::of_repository;

/// The client's sources but for the protocol itself, the first dialect and the tests, as one text.
fn sources() -> String {
    fn add(directory: &Path, text: &mut String) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            if ["protocol", "tests", "v1"].contains(&name) {
                continue;
            }
            if path.is_dir() {
                add(&path, text);
            } else {
                let source = fs::read_to_string(&path).unwrap();
                *text += source.split("#[cfg(test)]\nmod tests {").next().unwrap();
            }
        }
    }
    let mut text = String::new();
    add(&of_repository("crates/codex/src"), &mut text);
    text
}

/// A name as Rust writes types and variants: `thread/start` and `read-only` as `ThreadStart` and `ReadOnly`.
fn camel_case(name: &str) -> String {
    let words = name.split(['/', '-', '_']).filter(|word| !word.is_empty());
    words.map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}

fn snake_case(name: &str) -> String {
    name.chars()
        .flat_map(|c| if c.is_ascii_uppercase() { vec!['_', c.to_ascii_lowercase()] } else { vec![c] })
        .collect()
}

#[test]
fn every_method_that_the_client_names_is_listed_and_no_other() {
    let sources = sources();
    let today = METHODS.iter().filter(|row| row.until == Until::Today).map(|row| row.method);
    let is_named = |method: &&str| {
        sources.contains(&format!("\"{method}\"")) || sources.contains(&format!("<{}>", camel_case(method)))
    };
    let named: BTreeSet<&str> = today.filter(is_named).collect();
    let is_method = |need: &&&str| !need.contains(['.', ' ']);
    let listed: BTreeSet<&str> = NEEDS.iter().filter(is_method).copied().collect();
    assert_eq!(listed, named);
}

#[test]
fn every_field_and_word_that_is_listed_is_named_in_the_client() {
    let sources = sources();
    for need in NEEDS {
        let Some((owner, name)) = need.rsplit_once(['.', ' ']) else {
            continue;
        };
        let name = name.trim_matches('"');
        let spellings = [
            format!("\"{name}\""),
            format!("{}:", snake_case(name)),
            format!("::{}", camel_case(name)),
            // What is required is an argument.
            format!("{owner}::new("),
        ];
        assert!(spellings.iter().any(|spelling| sources.contains(spelling)), "{need} is named nowhere");
    }
}
