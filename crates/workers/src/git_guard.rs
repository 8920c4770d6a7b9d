//! A `git` that stands before the real one on the `PATH` of a worker, and refuses the worker itself.
//!
//! Codex runs git in the directory of each thread, outside its sandbox, and git runs what a repository's own configuration
//! names: a filter of a hostile workspace would be a way out. Codex does without what git tells it. Commands of agents and MCP
//! servers still find the real git.

use std::env;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use supervise::{CHILD_VARIABLE, Durability, replace_state_file};

use crate::plan::COMMAND_VARIABLE;

/// Puts a guard for this program in front of `PATH` in the variables of a worker. Each worker has a directory of its own.
///
/// # Errors
/// It cannot be written.
pub(crate) fn install(directory: &Path, program: &Path, variables: &mut Vec<(OsString, OsString)>) -> io::Result<()> {
    write(directory, &fs::canonicalize(program).unwrap_or_else(|_| program.into()))?;
    let named = variables.iter().rposition(|(name, _)| name == "PATH").map(|at| variables.swap_remove(at).1);
    let path = named.or_else(|| env::var_os("PATH")).unwrap_or_default();
    let entries = [directory.to_owned()].into_iter().chain(env::split_paths(&path));
    let path = env::join_paths(entries).map_err(io::Error::other)?;
    variables.push(("PATH".into(), path));
    Ok(())
}

fn write(directory: &Path, program: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let program = program.to_str().and_then(|program| shlex::try_quote(program).ok());
    let program = program.ok_or_else(|| io::Error::other("the path of the worker cannot be written into a script"))?;
    let text = format!(
        "#!/bin/sh\n\
         # Refuses git to the worker itself; everybody else gets the next git on the PATH.\n\
         # A command of an agent has both variables, an MCP server of the worker's neither.\n\
         if [ -z \"${COMMAND_VARIABLE}\" ]; then\n\
         [ -z \"${CHILD_VARIABLE}\" ] || exit 1\n\
         case \"$(readlink \"/proc/$PPID/exe\")\" in\n\
         {program} | */codex | */'codex (deleted)') exit 1 ;;\n\
         esac\n\
         fi\n\
         PATH=${{PATH#*:}} exec git \"$@\"\n"
    );
    // Replaced as a whole: an earlier worker of this name may be running it.
    replace_state_file(&directory.join("git"), text.as_bytes(), 0o700, Durability::Unflushed)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::install;

    #[test]
    fn the_guard_is_the_first_git_on_the_path() {
        let directory = tempfile::tempdir().unwrap();
        let guard = directory.path().join("guard");
        let mut variables = vec![("PATH".into(), "/usr/bin:/bin".into()), ("HOME".into(), "/home/dev".into())];
        install(&guard, Path::new("/opt/it's/codex"), &mut variables).unwrap();
        let path = &variables.iter().find(|(name, _)| name == "PATH").unwrap().1;
        assert_eq!(path.to_str(), Some(&*format!("{}:/usr/bin:/bin", guard.display())));
        let text = std::fs::read_to_string(guard.join("git")).unwrap();
        assert!(text.contains("\"/opt/it's/codex\" |"), "{text}");
    }
}
