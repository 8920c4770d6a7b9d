//! Removes the paths of this machine from what a worker said, before a caller reads it. The log keeps the whole text.

/// What stands in the place of a path.
const PLACEHOLDER: &str = "<path>";

/// The text without absolute paths and those below a home (`~/`). A slash between words, as in `turn/start` or `and/or`, is
/// no path, and neither are those of an address such as `https://example.com/a`.
pub(crate) fn hide_paths(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let (mut rest, mut before) = (text, None);
    while let Some(next) = rest.chars().next() {
        if begins_path(before, rest) {
            shown.push_str(PLACEHOLDER);
            rest = rest.trim_start_matches(|char: char| !ends_path(char));
            before = Some('/');
        } else if let Some(address) = rest.strip_prefix("://").filter(|_| !shown.ends_with("file")) {
            let end = address.find(ends_path).unwrap_or(address.len());
            shown.push_str(&rest[..end + 3]);
            rest = &address[end..];
            before = Some('/');
        } else {
            shown.push(next);
            rest = &rest[next.len_utf8()..];
            before = Some(next);
        }
    }
    shown
}

/// Whether this text, behind that character, begins with a path.
fn begins_path(before: Option<char>, text: &str) -> bool {
    let is_inside_word = before.is_some_and(|char| char.is_alphanumeric() || "/._-~".contains(char));
    let names = text.strip_prefix('~').unwrap_or(text);
    let names_behind = names.trim_start_matches('/');
    let has_name = names_behind.starts_with(|char: char| char.is_alphanumeric() || "._-".contains(char));
    !is_inside_word && names.len() > names_behind.len() && has_name
}

/// Paths with spaces are cut at the first one: what follows is a name without its place.
fn ends_path(char: char) -> bool {
    char.is_whitespace() || "\"'`,;:()[]{}<>|".contains(char)
}

#[cfg(test)]
mod tests {
    use super::hide_paths;

    #[test]
    fn paths_are_hidden_and_everything_else_stays() {
        for (text, shown) in [
            ("failed to read /home/dev/.codex/config.toml: bad key", "failed to read <path>: bad key"),
            ("\"/etc/passwd\" (/root), '/srv/a b'", "\"<path>\" (<path>), '<path> b'"),
            (
                "turn/start failed: no model gpt-5/mini and/or 3 / 4",
                "turn/start failed: no model gpt-5/mini and/or 3 / 4",
            ),
            ("see https://example.com/a/b", "see https://example.com/a/b"),
            ("path=/var/lib/x\n/tmp", "path=<path>\n<path>"),
            ("é/è 3 // 4", "é/è 3 // 4"),
            ("//srv/a and ~/.codex/auth.json", "<path> and <path>"),
            ("cause:/home/dev/x: file:///etc/passwd", "cause:<path>: file:<path>"),
            ("at http://localhost:4180/v1, wss://host/a", "at http://localhost:4180/v1, wss://host/a"),
        ] {
            assert_eq!(hide_paths(text), shown);
        }
    }
}
