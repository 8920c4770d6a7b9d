//! What is said of commands that are not run and of patches that are not applied.

use std::path::Path;
use std::time::Duration;

use crate::items::FileChange;

/// The words of the first command of a line: what an amendment of the rules would be about.
pub(crate) fn first_command(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for word in line.split_whitespace() {
        if matches!(word, "&&" | "||" | "|" | ";" | "&") {
            break;
        }
        words.push(word.trim_end_matches(';').to_owned());
        if word.ends_with(';') {
            break;
        }
    }
    words
}

/// `/bin/bash -lc 'touch a'`, quoted where it must be.
pub(crate) fn login_shell(command: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=/,.+:@%^".contains(c);
    if !command.is_empty() && command.chars().all(plain) {
        format!("/bin/bash -lc {command}")
    } else {
        format!("/bin/bash -lc '{}'", command.replace('\'', r"'\''"))
    }
}

/// What a command is said to print: nothing, if it is one of those that print nothing.
pub(crate) fn output(command: &str) -> Option<String> {
    const SILENT: &[&str] = &["cd", "cp", "exit", "export", "false", "mkdir", "mv", "rm", "sleep", "touch", "true"];
    let mut programs = command.split([';', '&', '|']).filter_map(|part| part.split_whitespace().next());
    let prints = programs.any(|program| !SILENT.contains(&program));
    prints.then(|| format!("demo worker: `{command}` was not run\n"))
}

/// How long a command is said to run: as long as it says it sleeps.
pub(crate) fn duration(command: &str) -> Duration {
    let mut words = command.split(|c: char| c.is_whitespace() || c == ';');
    let seconds = words.find(|word| *word == "sleep").and_then(|_| words.next()?.parse().ok());
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or_default()
}

/// `exit N` at the end of a command, or `false`, is taken at its word.
pub(crate) fn exit_code(command: &str) -> i32 {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words.as_slice() {
        [.., "exit", code] => code.parse().unwrap_or(0),
        [.., "false"] => 1,
        _ => 0,
    }
}

pub(crate) fn absolute(cwd: &str, path: &str) -> String {
    Path::new(cwd).join(path).to_string_lossy().into_owned()
}

/// The diff of a new file, as git writes it. The blob's hash is not computed, for there is no blob.
pub(crate) fn unified_diff(cwd: &str, change: &FileChange) -> String {
    let path = Path::new(&change.path);
    let path = path.strip_prefix(cwd).unwrap_or(path).to_string_lossy().into_owned();
    let path = path.trim_start_matches('/');
    let none = "0".repeat(40);
    let some = "d".repeat(40);
    format!(
        "diff --git a/{path} b/{path}\nnew file mode 100644\nindex {none}..{some}\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{}",
        change.diff
    )
}
