//! Nothing in the repository names a place on somebody's machine: it would work there and nowhere else.
//! System paths such as `/bin/sh` and `/proc` are the same everywhere and allowed. Recordings and examples use the
//! neutral home directory; a temporary file gets its name at run time, so no fixed path below `/tmp` is right either.

use super::finding::Finding;
use super::tree::Tree;

/// Places that differ from machine to machine, when a name follows.
const PLACES: [&str; 5] = ["/home/", "/Users/", "/root/", "/tmp/", "/work/"];

/// The home directory of nobody, which recordings and examples may name.
const NEUTRAL_HOME: &str = "/home/dev";

const WHAT_TO_DO: &str = "use a relative path, a temporary directory, or /home/dev in an example";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let complaints = tree.files_except(file!()).flat_map(|file| {
        file.numbered_lines().filter_map(move |(number, line)| Some((file, number, machine_path_in(line)?)))
    });
    complaints
        .map(|(file, number, found)| {
            let what = format!("`{found}` exists on one machine only; {WHAT_TO_DO}");
            Finding::new(&file.path, number, what)
        })
        .collect()
}

fn machine_path_in(line: &str) -> Option<&str> {
    PLACES.iter().find_map(|place| {
        line.match_indices(place)
            .map(|(start, _)| (&line[..start], path_at_start(&line[start..])))
            .find(|(before, path)| path.len() > place.len() && !continues_a_path(before) && !is_neutral(path))
            .map(|(_, path)| path)
    })
}

fn path_at_start(text: &str) -> &str {
    let end = text.find(|c: char| !(is_name(c) || c == '/')).unwrap_or(text.len());
    text[..end].trim_end_matches('.')
}

/// `crates/demo/home/x` and `$HOME/work/x` only contain such a place, `unix:///home/x` begins with one.
fn continues_a_path(before: &str) -> bool {
    match before.chars().next_back() {
        None => false,
        Some('/') => !before.ends_with("://"),
        Some(last) => is_name(last) || "~}$)>*".contains(last),
    }
}

fn is_neutral(path: &str) -> bool {
    path.strip_prefix(NEUTRAL_HOME).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || "._-".contains(c)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::{finding::listed, tree::Tree};

    #[test]
    fn paths_of_one_machine_are_found() {
        let text = "cwd = \"/home/anna/code\"\n/root/.cargo\nunix:///tmp/a.sock\n(/Users/bo)\n\\\"/work/x\n--out=/tmp/out.\n\
            /home/developer\n";
        expect![[r#"
            a.toml:1: `/home/anna/code` exists on one machine only; use a relative path, a temporary directory, or /home/dev in an example
            a.toml:2: `/root/.cargo` exists on one machine only; use a relative path, a temporary directory, or /home/dev in an example
            a.toml:3: `/tmp/a.sock` exists on one machine only; use a relative path, a temporary directory, or /home/dev in an example
            a.toml:4: `/Users/bo` exists on one machine only; use a relative path, a temporary directory, or /home/dev in an example
            a.toml:5: `/work/x` exists on one machine only; use a relative path, a temporary directory, or /home/dev in an example
            a.toml:6: `/tmp/out` exists on one machine only; use a relative path, a temporary directory, or /home/dev in an example
            a.toml:7: `/home/developer` exists on one machine only; use a relative path, a temporary directory, or /home/dev in an example
        "#]].assert_eq(&listed(&super::check(&Tree::of(&[("a.toml", text)]))));
    }

    #[test]
    fn system_paths_neutral_homes_and_relative_paths_are_allowed() {
        let text = "/bin/bash\n/proc/self\n/home/dev/project\n/home/dev\ncrates/demo/home/x\n$HOME/work/x\n{dir}/tmp/x\n\
            below /tmp/ and /home/<name>\nhttps://host/home/x\n../sibling\n";
        expect![""].assert_eq(&listed(&super::check(&Tree::of(&[("transcripts/a.jsonl", text)]))));
    }
}
