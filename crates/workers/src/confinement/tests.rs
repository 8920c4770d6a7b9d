use std::path::{Path, PathBuf};

use codex::{ApprovalPolicy, Sandbox, ThreadOptions};
use expect_test::{Expect, expect};

use super::{Confinement, Enforcement, NotConfinable, UnconfinedPolicy};
use crate::workspace::Workspace;

fn confinement() -> Confinement<'static> {
    Confinement {
        private: &[],
        base: Path::new("/srv/app"),
        readable: None,
        programs: &[],
        trusted: &[],
        network: false,
        worker: Enforcement::Profiles,
        if_unconfined: UnconfinedPolicy::Refuse,
    }
}

fn workspace(path: &str, project: &str) -> Workspace {
    Workspace { path: path.into(), project: project.into() }
}

fn options(sandbox: Sandbox) -> ThreadOptions {
    ThreadOptions { sandbox, approval_policy: ApprovalPolicy::OnRequest, ..ThreadOptions::default() }
}

fn check(confinement: &Confinement<'_>, options: &ThreadOptions, expected: &Expect) {
    let applied = confinement.apply(options, &workspace("/srv/app/sub", "/srv/app"), Some("Use tabs.".into()));
    let text = match applied {
        Err(error) => format!("refused: {error}\n"),
        Ok(ThreadOptions { cwd, permissions, config, developer_instructions, .. }) => {
            let mut lines = vec![format!("cwd {}", cwd.unwrap())];
            if let Some(permissions) = permissions {
                lines.extend(permissions.paths.iter().map(|(path, access)| format!("{access:?} {path}")));
                lines.push(format!("network {}", permissions.network));
            }
            lines.push(format!("config {}", config.keys().cloned().collect::<Vec<_>>().join(" ")));
            lines.extend(developer_instructions.map(|text| format!("says {text:?}")));
            lines.join("\n") + "\n"
        }
    };
    expected.assert_eq(&text);
}

fn paths(of: &[&str]) -> Vec<PathBuf> {
    of.iter().map(PathBuf::from).collect()
}

#[test]
fn an_agent_reads_everything_but_what_is_private_and_writes_nothing() {
    let private = paths(&["/home/dev/.codex", "/var/lib/switchboard/switchboard.toml", "/var/lib/switchboard"]);
    check(
        &Confinement { private: &private, ..confinement() },
        &options(Sandbox::ReadOnly),
        &expect![[r#"
            cwd /srv/app/sub
            Deny /home/dev/.codex
            Deny /var/lib/switchboard
            Read :root
            network false
            config features.goals features.multi_agent features.unbounded_connection_retries project_doc_max_bytes projects skills.include_instructions
            says "Use tabs."
        "#]],
    );
}

#[test]
fn a_writing_agent_has_its_workspace_and_the_temporary_directories() {
    let private = paths(&["/var/lib/switchboard"]);
    check(
        &Confinement { private: &private, ..confinement() },
        &options(Sandbox::WorkspaceWrite),
        &expect![[r#"
            cwd /srv/app/sub
            Write /srv/app
            Deny /var/lib/switchboard
            Read :root
            Write :slash_tmp
            Write :tmpdir
            network false
            config features.goals features.multi_agent features.unbounded_connection_retries project_doc_max_bytes projects skills.include_instructions
            says "Use tabs."
        "#]],
    );
}

#[test]
fn full_access_still_leaves_out_what_is_private() {
    let private = paths(&["/var/lib/switchboard"]);
    check(
        &Confinement { private: &private, ..confinement() },
        &options(Sandbox::FullAccess),
        &expect![[r#"
            cwd /srv/app/sub
            Deny /var/lib/switchboard
            Write :root
            network true
            config features.goals features.multi_agent features.unbounded_connection_retries project_doc_max_bytes projects skills.include_instructions
            says "Use tabs."
        "#]],
    );
}

#[test]
fn readable_paths_hide_everything_else() {
    let (private, readable, programs) = (paths(&["/data/secret"]), paths(&["/data"]), paths(&["/opt/codex/bin/codex"]));
    let confinement = Confinement {
        private: &private,
        readable: Some(&readable),
        programs: &programs,
        network: true,
        ..confinement()
    };
    check(
        &confinement,
        &options(Sandbox::WorkspaceWrite),
        &expect![[r#"
            cwd /srv/app/sub
            Read /data
            Deny /data/secret
            Read /opt/codex/bin/codex
            Write /srv/app
            Read :minimal
            network true
            config features.goals features.multi_agent features.unbounded_connection_retries project_doc_max_bytes projects skills.include_instructions
            says "Use tabs."
        "#]],
    );
}

#[test]
fn readable_paths_that_are_missing_open_nothing_instead() {
    check(
        &Confinement { readable: Some(&[]), ..confinement() },
        &options(Sandbox::ReadOnly),
        &expect![[r#"
            cwd /srv/app/sub
            Read /srv/app
            Read :minimal
            network false
            config features.goals features.multi_agent features.unbounded_connection_retries project_doc_max_bytes projects skills.include_instructions
            says "Use tabs."
        "#]],
    );
}

#[test]
fn a_trusted_project_brings_its_own_configuration() {
    let trusted = paths(&["/srv/app", "/srv/app/sub"]);
    check(
        &Confinement { trusted: &trusted, ..confinement() },
        &options(Sandbox::ReadOnly),
        &expect![[r#"
            cwd /srv/app/sub
            Read :root
            network false
            config features.goals features.multi_agent features.unbounded_connection_retries projects
        "#]],
    );
    let applied = Confinement { trusted: &trusted, ..confinement() }
        .apply(&options(Sandbox::ReadOnly), &workspace("/srv/app/sub", "/srv/app"), None)
        .unwrap();
    let level = |directory: &str| applied.config["projects"][directory]["trust_level"].clone();
    assert_eq!(["/srv", "/srv/app", "/srv/app/sub"].map(level), ["untrusted", "trusted", "trusted"]);
    let only_project = paths(&["/srv/app"]);
    let below = Confinement { trusted: &only_project, ..confinement() }
        .apply(&options(Sandbox::ReadOnly), &workspace("/srv/app/sub", "/srv/app"), None)
        .unwrap();
    assert_eq!(below.config["projects"]["/srv/app"]["trust_level"], "untrusted", "an agent may have made `sub`");
    let above = paths(&["/srv"]);
    let applied = Confinement { trusted: &above, ..confinement() }
        .apply(&options(Sandbox::ReadOnly), &workspace("/srv/app", "/srv/app"), None)
        .unwrap();
    assert_eq!(applied.config["projects"]["/srv/app"]["trust_level"], "untrusted", "trust is not inherited");
}

#[test]
fn no_directory_above_the_thread_is_trusted() {
    let applied =
        confinement().apply(&options(Sandbox::ReadOnly), &workspace("/srv/app/sub", "/srv/app"), None).unwrap();
    let config: Vec<_> = applied.config.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
    expect![[r#"
        features.goals = false
        features.multi_agent = false
        features.unbounded_connection_retries = false
        project_doc_max_bytes = 0
        projects = {"/":{"trust_level":"untrusted"},"/srv":{"trust_level":"untrusted"},"/srv/app":{"trust_level":"untrusted"},"/srv/app/sub":{"trust_level":"untrusted"}}
        skills.include_instructions = false
    "#]].assert_eq(&config.concat());
}

#[test]
fn a_plain_model_sees_no_file() {
    let plain = ThreadOptions { is_plain: true, ..options(Sandbox::ReadOnly) };
    check(
        &confinement(),
        &plain,
        &expect![[r#"
            cwd /srv/app/sub
            network false
            config features.goals features.multi_agent features.unbounded_connection_retries projects
        "#]],
    );
}

#[test]
fn an_old_worker_serves_those_who_accept_it() {
    let old = Confinement { worker: Enforcement::WritesOnly, ..confinement() };
    check(
        &old,
        &options(Sandbox::ReadOnly),
        &expect![[r#"
        refused: this Codex is older than 0.145 and cannot confine agents: update it, use an operator's key, or set `allow_unconfined = true` in the profile
    "#]],
    );
    check(
        &Confinement { if_unconfined: UnconfinedPolicy::Allow, ..old },
        &options(Sandbox::WorkspaceWrite),
        &expect![[r#"
            cwd /srv/app/sub
            config features.goals features.multi_agent features.unbounded_connection_retries projects
        "#]],
    );
}

#[test]
fn a_worker_that_runs_project_configuration_never_writes() {
    let old =
        Confinement { worker: Enforcement::RunsProjectConfig, if_unconfined: UnconfinedPolicy::Allow, ..confinement() };
    check(
        &old,
        &options(Sandbox::WorkspaceWrite),
        &expect![[r#"
        refused: this Codex runs commands from a workspace's own configuration, so that it serves read-only profiles alone: update it to 0.145 or newer
    "#]],
    );
    let refused = Confinement { if_unconfined: UnconfinedPolicy::Refuse, ..old };
    let refusal = refused.apply(&options(Sandbox::ReadOnly), &workspace("/srv", "/srv"), None).err();
    assert_eq!(refusal, Some(NotConfinable::TooOld));
}

#[test]
fn no_thread_works_in_a_private_directory() {
    let private = paths(&["/srv/app"]);
    check(
        &Confinement { private: &private, ..confinement() },
        &options(Sandbox::ReadOnly),
        &expect![[r#"
        refused: the directory /srv/app/sub is private to Switchboard: choose another `cwd`
    "#]],
    );
    let beside = Confinement { private: &private, ..confinement() }.apply(
        &options(Sandbox::ReadOnly),
        &workspace("/srv/application", "/srv/application"),
        None,
    );
    assert_eq!(beside.unwrap().cwd.as_deref().map(Path::new), Some(Path::new("/srv/application")));
}

#[test]
fn no_agent_writes_above_a_private_path() {
    let private = paths(&["/srv/app/state"]);
    let confinement = Confinement { private: &private, ..confinement() };
    check(
        &confinement,
        &options(Sandbox::WorkspaceWrite),
        &expect![[r#"
            refused: the directory /srv/app contains files that are private to Switchboard: choose another `cwd`, or a read-only profile
        "#]],
    );
    assert!(confinement.apply(&options(Sandbox::ReadOnly), &workspace("/srv/app", "/srv/app"), None).is_ok());
    let beside = workspace("/srv/other", "/srv/other");
    assert!(confinement.apply(&options(Sandbox::WorkspaceWrite), &beside, None).is_ok(), "an operator's own choice");
}

#[test]
fn the_caller_has_the_last_word_after_the_project() {
    let said = ThreadOptions { developer_instructions: Some("Be brief.".into()), ..options(Sandbox::ReadOnly) };
    let applied = confinement().apply(&said, &workspace("/srv/app", "/srv/app"), Some("Use tabs.".into())).unwrap();
    assert_eq!(applied.developer_instructions.as_deref(), Some("Use tabs.\n\nBe brief."));
}

#[test]
fn a_worker_that_always_offers_view_image_serves_no_plain_model_of_others() {
    let plain = ThreadOptions { is_plain: true, ..options(Sandbox::ReadOnly) };
    let old = Confinement { worker: Enforcement::ProfilesWithViewImage, ..confinement() };
    let here = || workspace("/srv/app", "/srv/app");
    assert_eq!(old.apply(&plain, &here(), None).err(), Some(NotConfinable::ViewImage));
    assert!(old.apply(&options(Sandbox::ReadOnly), &here(), None).is_ok(), "agents may read such files anyway");
    let accepted = Confinement { if_unconfined: UnconfinedPolicy::Allow, ..old };
    assert!(accepted.apply(&plain, &here(), None).is_ok());
}
