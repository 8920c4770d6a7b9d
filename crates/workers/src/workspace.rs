//! The directory of a thread, looked at through an open handle: where it really is, which project it belongs to, and what
//! the project tells agents. A path that cannot be opened is not a workspace.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, open, openat2};

/// How much of all instruction files together is passed on, as much as Codex itself reads.
const INSTRUCTIONS_BYTES_MAX: u64 = 32 * 1024;
/// The file names of instructions in a directory; the first that is there counts.
const INSTRUCTION_FILES: [&str; 2] = ["AGENTS.override.md", "AGENTS.md"];

/// A directory that exists.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// Its real path.
    pub(crate) path: PathBuf,
    /// The top of the git repository that holds it, or the directory itself.
    pub(crate) project: PathBuf,
}

impl Workspace {
    /// Opens a directory, whatever links lead there.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let path = real_path(&open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)?;
        let project = path.ancestors().find(|directory| directory.join(".git").symlink_metadata().is_ok());
        Ok(Self { project: project.unwrap_or(&path).to_owned(), path })
    }

    /// The same, with what its project tells agents.
    pub(crate) fn with_instructions(path: &Path, private: &[PathBuf]) -> io::Result<(Self, Option<String>)> {
        let workspace = Self::open(path)?;
        let instructions = workspace.instructions(private);
        Ok((workspace, instructions))
    }

    /// A directory of another machine, by its name alone.
    pub(crate) fn remote(path: &Path) -> Self {
        Self { path: path.into(), project: path.into() }
    }

    /// What the project tells agents: the instruction files from its top down to the directory, each with its place.
    /// Links that lead out of a file's own directory are not followed, and private and irregular files are left out.
    fn instructions(&self, private: &[PathBuf]) -> Option<String> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let project = openat2(CWD, &self.project, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS).ok()?;
        let mut left = INSTRUCTIONS_BYTES_MAX;
        let mut texts = Vec::new();
        for directory in self.directories() {
            let Ok(below) = directory.strip_prefix(&self.project) else { continue };
            let Ok(holder) = open_below(&project, below) else { continue };
            let mut found = INSTRUCTION_FILES.iter().filter_map(|name| read(&holder, name, left, private));
            if let Some(text) = found.next() {
                left -= text.len() as u64;
                texts.push(format!("# AGENTS.md instructions for {}\n\n{}", directory.display(), text.trim_end()));
            }
        }
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }

    /// From the top of the project down to the directory itself.
    fn directories(&self) -> Vec<&Path> {
        let mut directories: Vec<_> =
            self.path.ancestors().take_while(|directory| directory.starts_with(&self.project)).collect();
        directories.reverse();
        directories
    }
}

fn real_path(handle: &OwnedFd) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", handle.as_raw_fd()))
}

/// A directory of the project, without following any link.
fn open_below(project: &OwnedFd, directory: &Path) -> io::Result<OwnedFd> {
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    Ok(openat2(project.as_fd(), directory, flags, Mode::empty(), resolve)?)
}

/// At most `bytes_max` of a file in the directory. A link to another place below the directory is followed; one that leads
/// out of it could name a file that the agent may not read.
fn read(directory: &OwnedFd, file: &str, bytes_max: u64, private: &[PathBuf]) -> Option<String> {
    // A pipe that nobody writes to must not hold us up.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let file = openat2(directory.as_fd(), file, flags, Mode::empty(), resolve).ok()?;
    let is_file = fstat(&file).is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::RegularFile);
    let path = real_path(&file).ok()?;
    let is_private = private.iter().any(|private| path.starts_with(private));
    let mut bytes = Vec::new();
    if !is_file || is_private || File::from(file).take(bytes_max).read_to_end(&mut bytes).is_err() {
        return None;
    }
    let text = String::from_utf8_lossy(&bytes);
    // Replacements are longer than what they replace.
    let end = text.floor_char_boundary(usize::try_from(bytes_max).unwrap_or(usize::MAX));
    Some(text[..end].to_owned()).filter(|text| !text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use expect_test::expect;
    use tempfile::TempDir;

    use super::{INSTRUCTIONS_BYTES_MAX, Workspace};

    fn repository() -> (TempDir, Workspace) {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("repository/.git")).unwrap();
        fs::create_dir_all(directory.path().join("repository/sub/deep")).unwrap();
        let workspace = Workspace::open(&directory.path().join("repository/sub/deep")).unwrap();
        (directory, workspace)
    }

    #[test]
    fn the_project_is_the_enclosing_repository_behind_any_link() {
        let (directory, workspace) = repository();
        let repository = directory.path().canonicalize().unwrap().join("repository");
        assert_eq!(workspace.project, repository);
        symlink(repository.join("sub"), directory.path().join("link")).unwrap();
        let linked = Workspace::open(&directory.path().join("link")).unwrap();
        assert_eq!((linked.path, linked.project), (repository.join("sub"), repository));
        assert!(Workspace::open(&directory.path().join("nowhere")).is_err());
        fs::write(directory.path().join("file"), "").unwrap();
        assert!(Workspace::open(&directory.path().join("file")).is_err());
    }

    #[test]
    fn instructions_come_from_the_top_down_and_an_override_replaces_its_neighbour() {
        let (_directory, workspace) = repository();
        assert_eq!(workspace.instructions(&[]), None);
        fs::write(workspace.project.join("AGENTS.md"), "Use tabs.\n").unwrap();
        fs::write(workspace.project.join("sub/AGENTS.md"), "not read").unwrap();
        fs::write(workspace.project.join("sub/AGENTS.override.md"), "Use spaces.\n").unwrap();
        fs::write(workspace.project.join("sub/deep/AGENTS.md"), "  \n").unwrap();
        let text = workspace.instructions(&[]).unwrap().replace(workspace.project.to_str().unwrap(), "PROJECT");
        expect![[r#"
            # AGENTS.md instructions for PROJECT

            Use tabs.

            # AGENTS.md instructions for PROJECT/sub

            Use spaces."#]]
        .assert_eq(&text);
    }

    #[test]
    fn no_link_out_of_the_project_is_read() {
        let (directory, workspace) = repository();
        fs::write(directory.path().join("secret"), "SECRET").unwrap();
        let at = workspace.project.join("AGENTS.md");
        for target in ["../secret", directory.path().join("secret").to_str().unwrap(), "/proc/self/environ"] {
            symlink(target, &at).unwrap();
            assert_eq!(workspace.instructions(&[]), None, "{target}");
            fs::remove_file(&at).unwrap();
        }
        // The project may be a whole home directory.
        fs::create_dir(workspace.project.join(".codex")).unwrap();
        fs::write(workspace.project.join(".codex/auth.json"), "SECRET").unwrap();
        symlink("../.codex/auth.json", workspace.project.join("sub/AGENTS.md")).unwrap();
        assert_eq!(workspace.instructions(&[]), None);
        fs::write(workspace.project.join("GUIDE.md"), "a guide").unwrap();
        symlink("GUIDE.md", &at).unwrap();
        assert!(workspace.instructions(&[]).unwrap().contains("a guide"), "a link beside it is fine");
        assert_eq!(
            workspace.instructions(&[workspace.project.join("GUIDE.md")]),
            None,
            "unless it leads to a private file"
        );
    }

    #[test]
    fn a_pipe_does_not_block_and_a_long_file_is_cut() {
        let (_directory, workspace) = repository();
        let pipe = workspace.project.join("AGENTS.md");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        fs::write(workspace.project.join("sub/AGENTS.md"), "é".repeat(40_000)).unwrap();
        let text = workspace.instructions(&[]).unwrap();
        assert!(text.len() as u64 <= INSTRUCTIONS_BYTES_MAX + 200, "{}", text.len());
    }
}
