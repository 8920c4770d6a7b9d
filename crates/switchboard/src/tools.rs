//! `switchboard tools`: the MCP tool servers, listed, checked, called, and served to other clients.

mod call;
mod check;
mod list;
mod own;
mod patience;
mod serve;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

pub(crate) use check::examine;

use crate::operate::{EXIT_CODES, ServerFlags};
use crate::{wait_for, wait_for_many};

#[derive(Args)]
#[command(after_help = "\
Examples:
  switchboard tools                                   how every tool server of the running server is
  switchboard tools list files                        one of them: its tools, what is wrong with it
  switchboard tools check                             every configured one, without a server
  switchboard tools check -- python3 server.py        any program
  switchboard tools call files__read_file '{\"path\":\"a\"}'
  switchboard tools serve                             all tools for one MCP client, over stdin and stdout

docs/tools.md says more.")]
pub(crate) struct Tools {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    flags: ServerFlags,
}

#[derive(Subcommand)]
enum Action {
    List(list::List),
    Check(check::Check),
    Call(call::Call),
    Serve(serve::Serve),
    /// Start a tool server of the running server anew, also one that has failed; calls that it works on are lost
    #[command(after_help = EXIT_CODES)]
    Restart {
        /// Its name in the configuration
        name: String,
    },
}

/// Runs the command.
pub(crate) fn run(tools: &Tools) -> ExitCode {
    let flags = &tools.flags;
    match &tools.action {
        None => wait_for(list::run(&list::List::default(), flags)),
        Some(Action::List(list)) => wait_for(list::run(list, flags)),
        Some(Action::Restart { name }) => wait_for(list::restart(name, flags)),
        Some(Action::Check(check)) => wait_for(or_two(check::run(check, flags))),
        Some(Action::Call(call)) => wait_for_many(or_two(call::run(call, flags))),
        Some(Action::Serve(serve)) => serve::run(serve, flags),
    }
}

/// The exit code of what could not be done at all: 1 says that it was done, and something is wrong.
const NOT_DONE: u8 = 2;
/// The exit code of a program that its user interrupted.
const INTERRUPTED: u8 = 130;

async fn or_two(command: impl Future<Output = Result<ExitCode>>) -> Result<ExitCode> {
    Ok(command.await.unwrap_or_else(|error| {
        crate::print::complain(&error);
        ExitCode::from(NOT_DONE)
    }))
}

/// Says that there is no such thing, and what may have been meant.
fn unknown<'a>(what: &str, name: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    let shown = supervise::escaped(name);
    match (crate::config::nearest(name, names.iter().copied()), names.as_slice()) {
        (Some(near), _) => format!("there is no {what} {shown:?}: did you mean {near:?}?"),
        (None, []) => format!("there is no {what} {shown:?}, and no other: configure tool servers with [tools.NAME]"),
        (None, names) => format!("there is no {what} {shown:?}: there are {}", few(names)),
    }
}

/// The first names of a list that may be long.
fn few(names: &[&str]) -> String {
    const NAMES_MAX: usize = 12;
    let shown = names.iter().take(NAMES_MAX).map(|name| supervise::escaped(name)).collect::<Vec<_>>();
    let more = names.len().saturating_sub(NAMES_MAX);
    let more = if more == 0 { String::new() } else { format!(" and {more} more (`switchboard tools list NAME`)") };
    shown.join(", ") + &more
}

#[cfg(test)]
mod tests {
    use super::unknown;

    #[test]
    fn who_mistypes_a_name_is_told_the_nearest_or_all_of_them() {
        let names = ["files", "time"];
        assert_eq!(
            unknown("tool server", "flies", names),
            "there is no tool server \"flies\": did you mean \"files\"?"
        );
        assert_eq!(unknown("tool server", "x", names), "there is no tool server \"x\": there are files, time");
        assert!(unknown("tool server", "x", []).ends_with("configure tool servers with [tools.NAME]"));
        let many: Vec<String> = (0..20).map(|number| format!("tool-number-{number}")).collect();
        let told = unknown("tool", "x", many.iter().map(String::as_str));
        assert!(told.ends_with("tool-number-11 and 8 more (`switchboard tools list NAME`)"), "{told}");
    }
}
