//! `switchboard doctor`: looks at everything that a server needs, without starting one, and says what to do.

mod finding;
mod machine;
mod tools;
mod workers;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::config::{Resolved, load};
use crate::print::{Form, print};
use finding::{Finding, State, to_text};

/// What to look at.
#[derive(Args)]
#[command(after_help = "Exits with 1 if there is a problem, and with 0 if there are only warnings.")]
pub(crate) struct Doctor {
    /// The configuration file, if not the usual one
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print a list of JSON objects with `check`, `state` (ok, warning, problem), `what` and `advice`
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) async fn run(doctor: &Doctor) -> Result<ExitCode> {
    let findings = match load(doctor.config.as_deref(), Vec::new()) {
        Ok(mut resolved) => examine(&mut resolved).await,
        Err(error) => {
            vec![Finding::problem("configuration", format!("{error:#}"), "correct it, or name another with --config")]
        }
    };
    let is_ill = findings.iter().any(|finding| finding.state == State::Problem);
    print(&match Form::of(doctor.json) {
        Form::Json => serde_json::to_string_pretty(&findings)? + "\n",
        Form::Text => to_text(&findings),
    })?;
    Ok(if is_ill { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn examine(resolved: &mut Resolved) -> Vec<Finding> {
    let mut findings = configuration(resolved);
    findings.extend(boundaries(resolved));
    let config = &resolved.config;
    findings.extend(machine::network(config));
    findings.push(machine::state_directory(&config.state_dir));
    let server = machine::server(&config.state_dir).await;
    match server {
        Some(told) => findings.extend(told),
        None => findings.extend([machine::port(config.listen).await, machine::store(&config.state_dir).await]),
    }
    for group in &config.groups {
        findings.extend(workers::examine(group, config).await);
    }
    findings.extend(tools::examine(config).await);
    findings
}

/// What `serve` checks before it starts.
fn boundaries(resolved: &Resolved) -> Vec<Finding> {
    const CHECK: &str = "confinement";
    let of_warning =
        |warning: String| Finding::warning(CHECK, warning, "do what it says, or accept what SECURITY.md says of it");
    let boundaries = resolved.boundaries();
    match boundaries
        .check()
        .map(|warnings| warnings.into_iter().chain(boundaries.warnings_of_files()).collect::<Vec<_>>())
    {
        Ok(warnings) if warnings.is_empty() => {
            vec![Finding::ok(CHECK, "no agent may write to configuration, state or a codex_home")]
        }
        Ok(warnings) => warnings.into_iter().map(of_warning).collect(),
        Err(problems) => {
            vec![Finding::problem(CHECK, problems.to_string(), "do what each line says; the server does not start so")]
        }
    }
}

fn configuration(resolved: &mut Resolved) -> Vec<Finding> {
    const CHECK: &str = "configuration";
    let first = match (resolved.may_serve(), &resolved.file) {
        (Err(problems), _) => {
            Finding::problem(CHECK, problems.to_string(), "fix each problem; `serve` refuses to start until then")
        }
        (Ok(()), Some(file)) => Finding::ok(CHECK, format!("{} is right", file.display())),
        (Ok(()), None) => Finding::ok(CHECK, "no file, all defaults"),
    };
    let warnings = resolved
        .warnings
        .iter()
        .map(|warning| Finding::warning(CHECK, warning.clone(), "correct its name, or unset it"));
    [first].into_iter().chain(warnings).collect()
}
