//! Names that are nearly the one that was wanted: another way to write it, or a word that people put in its place.

use serde_json::{Map, Value};

/// The key of this object that somebody wrote in place of the wanted one.
pub(super) fn miss<'a>(object: &'a Map<String, Value>, wanted: &str, taken_for_it: &[&str]) -> Option<&'a str> {
    let is_near = |key: &&String| {
        let plain = plain(key);
        key.as_str() != wanted && (plain == self::plain(wanted) || taken_for_it.contains(&plain.as_str()))
    };
    object.keys().find(is_near).map(String::as_str)
}

/// A name without what people write differently: `server_info`, `ServerInfo` and `serverinfo` are the same.
pub(super) fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}
