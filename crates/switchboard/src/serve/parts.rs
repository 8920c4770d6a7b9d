//! What each part is made of, out of the configuration.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use approvals::{Hook, Powers, Settings};
use codex::Sandbox;
use rustix::fs::{Access, access};
use supervise::{Ledger, RequiredAccess, Rlimits};
use workers::{Group, Plan, Profile, ToolsAccess, Transport};

use crate::config::{self, Config};
use crate::worker::{Worker, variables_of_ours};

/// A group whose worker is not installed.
pub(super) struct Replaced {
    pub(super) group: String,
    program: String,
}

impl fmt::Display for Replaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, program } = self;
        write!(
            f,
            "{program} is not on PATH: the demo worker answers for the group {group} (to install codex: npm install -g @openai/codex)"
        )
    }
}

/// Puts the demo worker in the place of every program that is not installed, so that the first start works everywhere.
pub(super) fn replace_missing(groups: &mut [config::Group]) -> Vec<Replaced> {
    let mut replaced = Vec::new();
    for group in groups.iter_mut().filter(|group| !matches!(group.transport, Transport::Ws(_))) {
        let Worker::Codex(program) = &group.command else { continue };
        if program.components().count() == 1 && !program.is_absolute() && !is_on_path(program) {
            let one = Replaced { group: group.name.clone(), program: program.display().to_string() };
            tracing::warn!(
                group = one.group,
                program = one.program,
                "not on PATH: the demo worker answers in its place"
            );
            group.command = Worker::Demo;
            replaced.push(one);
        }
    }
    replaced
}

fn is_on_path(program: &Path) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|directory| {
        let file = directory.join(program);
        file.is_file() && access(&file, Access::EXEC_OK).is_ok()
    })
}

/// `tools` is what each group is given of tool servers, `private` what no agent may read or write.
pub(super) fn plan(config: &Config, tools: Vec<Option<ToolsAccess>>, private: Vec<PathBuf>) -> Result<Plan> {
    let groups = config.groups.iter().zip(tools);
    let groups: Vec<Group> =
        groups.map(|(group, tools)| plan_group(group, tools, &config.state_dir)).collect::<Result<_>>()?;
    config.profiles.iter().for_each(|profile| warn_if_closed(profile, &groups));
    Ok(Plan {
        groups,
        profiles: config.profiles.clone(),
        limits: config.limits.pool.clone(),
        state_dir: config.state_dir.clone(),
        private,
        client_version: env!("CARGO_PKG_VERSION").into(),
    })
}

/// Warns of a profile whose directory the user of its workers cannot use: every command of its agents would fail.
fn warn_if_closed(profile: &Profile, groups: &[Group]) {
    let is_its = |group: &&Group| profile.group.as_ref().is_none_or(|name| *name == group.name);
    let user = groups.iter().find(is_its).and_then(|group| group.user.as_ref());
    let (Some(user), Some(cwd), false) = (user, &profile.cwd, profile.is_plain) else { return };
    let need = if profile.sandbox == Sandbox::WorkspaceWrite { RequiredAccess::Write } else { RequiredAccess::Enter };
    if let Err(error) = user.check(Path::new(cwd), need) {
        tracing::warn!(profile = &*profile.name, %error, "profile directory closed to its workers");
    }
}

fn plan_group(group: &config::Group, tools: Option<ToolsAccess>, state_dir: &Path) -> Result<Group> {
    let start = group.command.start(group.codex_home.as_deref(), state_dir)?;
    let user = group.os_user(&start)?;
    let wide = |limit: Option<usize>| limit.map(|limit| limit as u64);
    Ok(Group {
        name: group.name.as_str().into(),
        program: start.program.into(),
        args: start.args,
        transport: group.transport.clone(),
        count: group.count,
        codex_home: start.home,
        env: group.variables()?.into_iter().chain(start.env).collect(),
        cwd: group.cwd.clone(),
        turns_max: group.turns_max,
        threads_loaded_max: group.threads_loaded_max,
        user,
        rlimits: Rlimits {
            open_files: wide(group.open_files_max),
            processes: wide(group.processes_max),
            address_space_bytes: wide(group.memory_bytes_max),
            ..Rlimits::default()
        },
        tools,
    })
}

/// `address` is where we are really reached, whatever port was asked for.
pub(super) fn approvals(config: &Config, ledger: &Ledger, address: SocketAddr) -> Result<Settings> {
    Ok(Settings {
        rules: config.approvals.rules.clone(),
        hooks: config.approvals.hooks.iter().map(hook).collect::<Result<_>>()?,
        webhook: config.approvals.webhook.as_ref().map(|told| told.webhook_from(config, address)).transpose()?,
        owner: ledger.owner(),
        limits: approvals::Limits { decision_timeout: config.approvals.deadline, ..config.limits.approvals },
    })
}

fn hook(hook: &config::Hook) -> Result<Hook> {
    Ok(Hook {
        name: hook.name.clone(),
        command: hook.command.iter().map(OsString::from).collect(),
        cwd: hook.cwd.clone(),
        env: variables_of_ours(&hook.env).with_context(|| format!("`env` of the hook {}", hook.name))?,
        kinds: hook.kinds.clone(),
        timeout: hook.timeout,
        powers: Powers { for_session: hook.may_allow_for_session, own_turns: false, operator: true },
    })
}

pub(super) fn front(config: &Config) -> front::Settings {
    front::Settings {
        hosts: config.hosts.clone(),
        cors_origins: config.cors_origins.clone(),
        profiles: config.profiles.clone(),
        connections: config.limits.connections.clone(),
        requests: config.limits.requests.clone(),
        responses: config.limits.responses.clone(),
        turns: config.limits.turns.clone(),
        ..front::Settings::default()
    }
}
