//! What a command line is to a rule: its words, the words behind `bash -lc '…'` where they are plain, and whether its
//! first word is a program that runs whatever its arguments say.

/// The words that `bash -lc 'plain words'` runs. `None` unless the shell is a system's own, the script is all there is,
/// and no character of it means anything to a shell: then what runs is exactly these words.
pub(crate) fn behind_shell(argv: &[String]) -> Option<Vec<String>> {
    let [shell, flag, script] = argv else {
        return None;
    };
    let is_shell = SHELL_DIRECTORIES.iter().any(|directory| {
        shell.strip_prefix(directory).is_some_and(|name| ["bash", "sh", "zsh", "dash"].contains(&name))
    });
    if !is_shell || !["-c", "-lc"].contains(&flag.as_str()) {
        return None;
    }
    let words: Vec<String> = script.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
    // A first word with `=` would be a variable, not a program; `=word` is a path to zsh.
    let is_program = words.first().is_some_and(|word| !word.contains('='));
    let are_plain = script.chars().all(is_plain) && words.iter().all(|word| !word.starts_with('='));
    (is_program && are_plain).then_some(words)
}

/// Whether a command line means the same words however it is taken apart: outside of quotes only characters that mean
/// nothing, and nothing in double quotes that a shell would replace.
pub(crate) fn is_plainly_quoted(line: &str) -> bool {
    let mut quote = None;
    for char in line.chars() {
        match (quote, char) {
            (None, '\'' | '"') => quote = Some(char),
            (Some(open), _) if open == char => quote = None,
            (Some('\''), _) => {}
            (Some(_), '$' | '`' | '\\' | '!') => return false,
            (Some(_), _) => {}
            (None, _) if is_plain(char) => {}
            (None, _) => return false,
        }
    }
    quote.is_none()
}

/// Whether a character means nothing to any shell but itself, or the space between two words.
fn is_plain(char: char) -> bool {
    char.is_alphanumeric() || "_@%+=:,./- ".contains(char)
}

/// Where a shell is the system's own; a `bash` in the project may be anything.
const SHELL_DIRECTORIES: [&str; 5] = ["", "/bin/", "/usr/bin/", "/usr/local/bin/", "/opt/homebrew/bin/"];

/// Whether the program's arguments are themselves a program: shells, interpreters, and what runs another command.
/// Allowing its first words would allow everything.
pub(crate) fn runs_its_arguments(program: &str) -> bool {
    let name = program.rsplit(['/', '\\']).next().unwrap_or_default().to_ascii_lowercase();
    let name = name.strip_suffix(".exe").unwrap_or(&name);
    // `python3.12` and `perl5.36.0` are python and perl.
    let bare = name.trim_end_matches(|char: char| char.is_ascii_digit() || ".-".contains(char));
    RUNS_ITS_ARGUMENTS.iter().any(|known| *known == name || *known == bare) || bare.is_empty()
}

#[rustfmt::skip]
const RUNS_ITS_ARGUMENTS: &[&str] = &[
    // shells, and the words of a shell that run others
    "ash", "bash", "busybox", "cmd", "csh", "dash", "elvish", "fish", "ksh", "mksh", "nu", "powershell", "pwsh", "rbash",
    "sh", "tcsh", "toybox", "xonsh", "zsh",
    "!", "[", "[[", "alias", "builtin", "command", "coproc", "eval", "exec", "function", "source", "trap",
    // interpreters
    "awk", "bun", "clojure", "deno", "elixir", "erl", "expect", "gawk", "ghc", "groovy", "guile", "irb", "java", "jshell",
    "julia", "lua", "luajit", "m4", "mawk", "nawk", "node", "nodejs", "ocaml", "octave", "osascript", "perl", "php",
    "pypy", "python", "pythonw", "r", "racket", "rscript", "ruby", "sbcl", "scala", "scheme", "swift", "tclsh", "ts-node",
    "tsx", "wish",
    // what runs another command
    "at", "batch", "bwrap", "capsh", "chpst", "chroot", "chrt", "dbus-run-session", "doas", "dumb-init", "entr", "env",
    "fakeroot", "find", "fd", "firejail", "flock", "gdb", "gosu", "ionice", "lldb", "ltrace", "machinectl", "nice", "nohup",
    "nsenter", "numactl", "parallel", "perf", "pkexec", "prlimit", "proot", "rlwrap", "rsh", "run0", "runuser", "screen",
    "script", "setarch", "setpriv", "setsid", "setuidgid", "socat", "ssh", "sshpass", "start-stop-daemon", "stdbuf",
    "strace", "su", "sudo", "systemd-run", "taskset", "tini", "time", "timeout", "tmux", "unbuffer", "unshare", "valgrind",
    "watch", "watchexec", "winpty", "xargs", "xvfb-run",
    // what fetches a program and runs it, or runs one elsewhere
    "bunx", "docker", "kubectl", "nerdctl", "nix-shell", "npx", "pipx", "pnpx", "podman", "uvx", "wsl",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).into()).collect()
    }

    #[test]
    fn plain_words_are_seen_behind_a_shell() {
        for shell in ["/bin/bash", "bash", "/usr/bin/zsh", "sh"] {
            assert_eq!(behind_shell(&argv(&[shell, "-lc", "git log  -n 3"])), Some(argv(&["git", "log", "-n", "3"])));
        }
    }

    #[test]
    fn a_script_that_a_shell_would_read_otherwise_is_opaque() {
        for script in [
            "ls; rm x",
            "ls && rm x",
            "ls | sh",
            "ls > x",
            "ls $HOME",
            "ls `id`",
            "ls *",
            "ls ~",
            "ls {a,b}",
            "ls 'a b'",
            "ls \"a\"",
            "ls \\x",
            "ls #x",
            "ls\nrm x",
            "ls\tx",
            "X=1 ls",
            "ls =x",
            "!ls",
            "ls ?",
            "ls [a]",
            "(ls)",
            "ls\u{a0}x",
            "",
            " ",
        ] {
            assert_eq!(behind_shell(&argv(&["/bin/bash", "-lc", script])), None, "{script:?}");
        }
        for words in [&["./bash", "-lc", "ls"][..], &["/srv/bash", "-c", "ls"], &["bash", "-x", "ls"], &["bash", "-lc"]]
        {
            assert_eq!(behind_shell(&argv(words)), None, "{words:?}");
        }
        assert_eq!(behind_shell(&argv(&["bash", "-lc", "ls", "x"])), None);
    }

    #[test]
    fn a_line_is_plainly_quoted_or_not_to_be_trusted() {
        for line in ["git status", "/bin/bash -lc 'ls; rm $x'", "touch \"a b\" 'c\"d'", "touch é", ""] {
            assert!(is_plainly_quoted(line), "{line}");
        }
        for line in
            ["git status; rm x", "git status #x", "git \"$x\"", "git a\\ b", "git 'x", "git\nrm", "git ~", "ls *"]
        {
            assert!(!is_plainly_quoted(line), "{line}");
        }
    }

    #[test]
    fn interpreters_and_wrappers_are_known_by_any_path_and_version() {
        for program in
            ["sh", "/usr/bin/env", "python3.12", "/opt/x/Perl5.36.0", "xargs", "nohup", "timeout", "cmd.exe", "."]
        {
            assert!(runs_its_arguments(program), "{program}");
        }
        for program in ["git", "ls", "cargo", "./shell", "rg", "touch"] {
            assert!(!runs_its_arguments(program), "{program}");
        }
    }
}
