//! An agent that may write to its workspace, and everything that it must not find there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use expect_test::{Expect, expect};
use tempfile::TempDir;

use super::super::{File, Typed, resolve};
use super::Boundaries;
use super::resolved_path::{ResolvedPath, can_change};

/// A home directory with `project`, and a directory for temporary files.
struct Home {
    directory: TempDir,
}

impl Home {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["project/sub", "config", "temporary"] {
            fs::create_dir_all(directory.path().join(name)).unwrap();
        }
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    fn boundaries(&self, file: &str, text: &str) -> Boundaries {
        let path = self.path(file);
        let home = self.path("").to_str().unwrap().to_owned();
        let typed = Typed {
            file: Some(File { path: path.clone(), text: text.into() }),
            variables: BTreeMap::from([("HOME".to_owned(), home)]),
            flags: Vec::new(),
            cwd: self.path("project"),
        };
        let config = resolve(&typed).map_err(|problems| problems.to_string()).unwrap().config;
        Boundaries::with_temporary(&config, Some(&path), &[self.path("temporary")])
    }

    /// The private paths besides the state directory and the homes of workers.
    fn hidden(&self, file: &str, text: &str) -> Vec<String> {
        let home = self.path("").to_str().unwrap().trim_end_matches('/').to_owned();
        let paths = self.boundaries(file, text).private_paths();
        let paths: BTreeSet<String> = paths.iter().map(|path| path.to_str().unwrap().replace(&home, "~")).collect();
        paths.into_iter().filter(|path| ["~/config", "~/tls"].iter().any(|ours| path.starts_with(ours))).collect()
    }

    /// What is said of a configuration that is read from `file`.
    fn said(&self, file: &str, text: &str) -> String {
        let home = self.path("").to_str().unwrap().to_owned();
        let said = match self.boundaries(file, text).check() {
            Ok(warnings) => warnings.into_iter().map(|warning| format!("warning: {warning}\n")).collect(),
            Err(problems) => format!("{problems}\n"),
        };
        said.replace(home.trim_end_matches('/'), "~")
    }

    fn check(&self, file: &str, text: &str, expected: &Expect) {
        expected.assert_eq(&self.said(file, text));
    }
}

const WRITES: &str = "[profiles.codex]\ncwd = \"~/project\"\nsandbox = \"workspace-write\"\n";

#[test]
fn what_can_be_changed_from_a_directory() {
    let home = Home::new();
    fs::write(home.path("config/file"), "").unwrap();
    symlink(home.path("config"), home.path("project/link")).unwrap();
    symlink(home.path("project/sub"), home.path("config/into")).unwrap();
    symlink("../../config/file", home.path("project/sub/hop")).unwrap();
    symlink(home.path("project/sub/hop"), home.path("config/far")).unwrap();
    symlink("loop", home.path("loop")).unwrap();
    symlink(home.path("project"), home.path("alias")).unwrap();
    let mut seen = String::new();
    for (root, path) in [
        ("project", "project/file"),
        ("project", "project"),
        ("project", "project/unmade/deep/file"),
        ("project", "config/file"),
        ("project", "project-2/file"),
        ("project/sub", "project/file"),
        // Through a link that the agent can replace.
        ("project", "project/link/file"),
        // Through a link that leads into the directory, and one that leads through it.
        ("project", "config/into/file"),
        ("project", "config/far"),
        // The agent cannot replace its root, but what lies in it.
        ("project", "project/../config/file"),
        ("project", "project/sub/../../config/file"),
        ("project", "unmade/../config/file"),
        ("project", "loop"),
        ("project", "config/file/below"),
        ("alias", "project/file"),
        ("alias", "config/file"),
        ("loop", "config/file"),
        ("unmade", "unmade/file"),
        ("unmade", "config/file"),
    ] {
        let is_inside = can_change(&ResolvedPath::of(&home.path(root)), &ResolvedPath::of(&home.path(path)));
        writeln!(seen, "{} {path} from {root}", if is_inside { "yes" } else { "no " }).unwrap();
    }
    expect![[r#"
        yes project/file from project
        yes project from project
        yes project/unmade/deep/file from project
        no  config/file from project
        no  project-2/file from project
        no  project/file from project/sub
        yes project/link/file from project
        yes config/into/file from project
        yes config/far from project
        no  project/../config/file from project
        yes project/sub/../../config/file from project
        yes unmade/../config/file from project
        yes loop from project
        yes config/file/below from project
        yes project/file from alias
        no  config/file from alias
        yes config/file from loop
        yes unmade/file from unmade
        no  config/file from unmade
    "#]]
    .assert_eq(&seen);
    let everything = ResolvedPath::of(Path::new("/"));
    assert!(can_change(&everything, &ResolvedPath::of(&home.path("config/file"))));
    assert!(can_change(&ResolvedPath::of(Path::new("relative")), &ResolvedPath::of(&home.path("config/file"))));
}

#[test]
fn a_file_in_the_workspace_is_refused() {
    let home = Home::new();
    home.check("project/switchboard.toml", WRITES, &expect![[r#"
        profile "codex": the configuration file (~/project/switchboard.toml) can be changed from inside ~/project, which its agents may write to (its `cwd`): move it with --config, or change [profiles.codex]
    "#]]);
    home.check("config/switchboard.toml", WRITES, &expect![[""]]);
    for harmless in
        ["[profiles.codex]\n", &WRITES.replace("workspace-write", "read-only"), &format!("{WRITES}plain = true\n")]
    {
        assert_eq!(home.said("project/switchboard.toml", harmless), "", "{harmless}");
    }
}

#[test]
fn state_and_homes_in_the_workspace_are_refused() {
    let home = Home::new();
    let text = format!(
        "state_dir = \"~/project/state\"\n[[workers]]\ncodex_home = \"~/project/.codex\"\n\
         [[workers]]\nname = \"b\"\ncommand = \"demo\"\ncodex_home = \"~/project/b\"\n{WRITES}"
    );
    home.check("config/switchboard.toml", &text, &expect![[r#"
        profile "codex": the state directory (~/project/state) can be changed from inside ~/project, which its agents may write to (its `cwd`): move it with state_dir, or change [profiles.codex]
        profile "codex": codex_home of the group "main" (~/project/.codex) can be changed from inside ~/project, which its agents may write to (its `cwd`): move it with codex_home, or change [profiles.codex]
    "#]]);
}

#[test]
fn temporary_directories_are_part_of_the_workspace() {
    let home = Home::new();
    home.check("temporary/switchboard.toml", WRITES, &expect![[r#"
        profile "codex": the configuration file (~/temporary/switchboard.toml) can be changed from inside ~/temporary, which its agents may write to (/tmp and TMPDIR are part of every workspace): move it with --config, or change [profiles.codex]
    "#]]);
    home.check("config/switchboard.toml", &format!("state_dir = \"~/temporary/x\"\n{WRITES}"), &expect![[r#"
        profile "codex": the state directory (~/temporary/x) can be changed from inside ~/temporary, which its agents may write to (/tmp and TMPDIR are part of every workspace): move it with state_dir, or change [profiles.codex]
    "#]]);
}

#[test]
fn links_are_followed_on_both_sides() {
    let home = Home::new();
    symlink(home.path("project/sub"), home.path("linked")).unwrap();
    symlink(home.path("config"), home.path("project/work")).unwrap();
    home.check("linked/switchboard.toml", WRITES, &expect![[r#"
        profile "codex": the configuration file (~/linked/switchboard.toml) can be changed from inside ~/project, which its agents may write to (its `cwd`): move it with --config, or change [profiles.codex]
    "#]]);
    let text = WRITES.replace("~/project", "~/project/work");
    home.check("config/switchboard.toml", &text, &expect![[r#"
        profile "codex": the configuration file (~/config/switchboard.toml) can be changed from inside ~/project/work, which its agents may write to (its `cwd`): move it with --config, or change [profiles.codex]
    "#]]);
}

#[test]
fn roots_that_codex_adds_count() {
    let home = Home::new();
    fs::create_dir(home.path(".codex")).unwrap();
    let text = format!("[sandbox_workspace_write]\nwritable_roots = [{:?}]\n", home.path("config"));
    fs::write(home.path(".codex/config.toml"), text).unwrap();
    home.check("config/switchboard.toml", WRITES, &expect![[r#"
        profile "codex": the configuration file (~/config/switchboard.toml) can be changed from inside ~/config, which its agents may write to (`writable_roots` in the config.toml of its codex_home): move it with --config, or change [profiles.codex]
    "#]]);
}

#[test]
fn full_access_must_be_accepted() {
    let home = Home::new();
    let full = WRITES.replace("workspace-write", "danger-full-access");
    home.check("config/switchboard.toml", &full, &expect![[r#"
        profile "codex": danger-full-access lets its agents write wherever their user can, and move the directories above Switchboard's own files: set `allow_unconfined = true` in [profiles.codex] to accept that, or choose another `sandbox`
    "#]]);
    home.check("config/switchboard.toml", &format!("{full}allow_unconfined = true\n"), &expect![[r#"
        warning: agents of the profile "codex" are not confined: they can write wherever their user can, and move the directories above Switchboard's own files
    "#]]);
    let both =
        format!("{full}allow_unconfined = true\n[profiles.w]\ncwd = \"~/config\"\nsandbox = \"workspace-write\"\n");
    home.check("config/switchboard.toml", &both, &expect![[r#"
        profile "w": the configuration file (~/config/switchboard.toml) can be changed from inside ~/config, which its agents may write to (its `cwd`): move it with --config, or change [profiles.w]
    "#]]);
}

#[test]
fn programs_that_agents_can_change_are_warned_of() {
    let home = Home::new();
    for name in ["project/server.js", "project/hook", "config/codex"] {
        fs::write(home.path(name), "").unwrap();
    }
    let text = format!(
        "[[workers]]\ncommand = \"~/config/codex\"\n{WRITES}\
         [[approvals.hooks]]\nname = \"look\"\ncommand = [\"./hook\"]\ncwd = \"~/project\"\n\
         [tools.files]\ncommand = [\"node\", \"server.js\"]\ncwd = \"~/project\"\n\
         [tools.other]\ncommand = [\"node\", \"server.js\"]\ncwd = \"~/config\"\n"
    );
    home.check("config/switchboard.toml", &text, &expect![[r#"
        warning: profile "codex": the tool server "files" uses ~/project/server.js, which can be changed from inside ~/project: its agents can decide what runs outside their sandbox
        warning: profile "codex": the hook "look" uses ~/project/./hook, which can be changed from inside ~/project: its agents can decide what runs outside their sandbox
    "#]]);
}

#[test]
fn a_trusted_project_that_agents_can_change_is_refused() {
    let home = Home::new();
    let text = |projects: &str| format!("{WRITES}trusted_projects = [{projects}]\n");
    home.check("config/switchboard.toml", &text("\"~/project/sub\", \"~/config\""), &expect![[r#"
        profile "codex": the trusted project ~/project/sub can be changed from inside ~/project, which its agents may write to, and Codex runs outside their sandbox what its configuration says: list only directories that no agent can write to, or the `cwd` of the profile itself, whose configuration Codex protects
    "#]]);
    home.check("config/switchboard.toml", &text("\"~/project\""), &expect![""]);
    symlink(home.path("project"), home.path("project/sub/link")).unwrap();
    assert!(home.said("config/switchboard.toml", &text("\"~/project/sub/link\"")).contains("can be changed"));
}

#[test]
fn the_directory_of_a_file_is_hidden_if_nothing_else_is_there() {
    let home = Home::new();
    for name in ["config/switchboard", "tls/live", "tls/archive"] {
        fs::create_dir_all(home.path(name)).unwrap();
    }
    fs::write(home.path("tls/archive/key1.pem"), "").unwrap();
    fs::write(home.path("tls/archive/certificate.pem"), "").unwrap();
    symlink("../archive/key1.pem", home.path("tls/live/key.pem")).unwrap();
    let tls = "[tls]\ncertificate = \"~/tls/archive/certificate.pem\"\nkey = \"~/tls/live/key.pem\"\n";
    let hidden = |file: &str, text: &str| home.hidden(file, text);
    assert_eq!(hidden("config/switchboard/switchboard.toml", WRITES), ["~/config/switchboard"]);
    assert_eq!(hidden("config/switchboard.toml", WRITES), ["~/config/switchboard.toml"], "others are in `config`");
    let inside = "[profiles.codex]\ncwd = \"~/config/switchboard\"\n";
    assert_eq!(hidden("config/switchboard/a.toml", inside), ["~/config/switchboard/a.toml"], "agents work there");
    let keys = hidden("config/switchboard/switchboard.toml", &format!("{WRITES}{tls}"));
    assert_eq!(keys, ["~/config/switchboard", "~/tls/archive", "~/tls/live"], "a renewed key is in one of them");
    let warned = |file: &str| home.boundaries(file, WRITES).warnings_of_files().count();
    assert_eq!(warned("config/switchboard.toml"), 1);
    assert_eq!((warned("config/switchboard/switchboard.toml"), warned("unmade/switchboard/switchboard.toml")), (0, 0));
}
