//! Files in the state directory. None is opened through a symbolic link: whoever could place one would choose which file of
//! this user is read, truncated or replaced.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::geteuid;

/// Whether a file must survive a power cut.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// It must.
    Flushed,
    /// For what means nothing after a restart of the machine.
    Unflushed,
}

/// Opens a file of the state directory; one that is made is readable by its owner alone.
pub(crate) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // A pipe would keep us waiting for somebody at its other end.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = options.custom_flags(flags).mode(0o600).open(path).map_err(|error| explain(path, error))?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::other("it is no regular file: remove it"))
}

/// The whole file.
///
/// # Errors
/// It cannot be read, or is a symbolic link.
pub fn read_state_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut open(path, OpenOptions::new().read(true))?, &mut bytes)?;
    Ok(bytes)
}

/// Replaces the file as a whole: a reader sees the old one or the new one.
///
/// # Errors
/// It cannot be written, or is a symbolic link.
pub fn replace_state_file(path: &Path, bytes: &[u8], mode: u32, durability: Durability) -> io::Result<()> {
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let draft = PathBuf::from(draft);
    // What lies there is a draft that was never finished, or a link that must not be written through.
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = open(&draft, OpenOptions::new().write(true).create_new(true))?;
    file.write_all(bytes)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    if durability == Durability::Flushed {
        file.sync_all()?;
    }
    refuse_link(path)?;
    fs::rename(&draft, path)?;
    match (durability, path.parent()) {
        (Durability::Flushed, Some(directory)) => File::open(directory)?.sync_all(),
        _ => Ok(()),
    }
}

/// Refuses a path that is a symbolic link; one that leads nowhere is fine.
pub(crate) fn refuse_link(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => Err(explain(path, Errno::LOOP.into())),
        _ => Ok(()),
    }
}

fn explain(path: &Path, error: io::Error) -> io::Error {
    let is_link = || fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    if Errno::from_io_error(&error) == Some(Errno::LOOP) && is_link() {
        return io::Error::other(
            "it is a symbolic link, and state files are never opened through one: remove the link",
        );
    }
    error
}

/// Makes the state directory if there is none, and closes it to everybody but its owner.
pub(crate) fn prepare_directory(state_dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(state_dir)?;
    check_state_directory(state_dir)?;
    if fs::metadata(state_dir)?.permissions().mode() & 0o077 != 0 {
        fs::set_permissions(state_dir, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Whether the directory can be trusted with state: it belongs to this user, and nobody else may write into it. One that
/// others may only read or enter is accepted, because [`Ledger::open`](crate::Ledger::open) closes it.
///
/// # Errors
/// Why it cannot be trusted.
pub fn check_state_directory(state_dir: &Path) -> io::Result<()> {
    let metadata = fs::metadata(state_dir)?;
    if !metadata.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    let (owner, us) = (metadata.uid(), geteuid().as_raw());
    if owner != us {
        let what =
            format!("it belongs to uid {owner}, and Switchboard runs as uid {us}: choose a directory of your own");
        return Err(io::Error::other(what));
    }
    if metadata.permissions().mode() & 0o022 != 0 {
        return Err(io::Error::other(
            "other users may write to it: run `chmod 700` on it, or choose a directory of your own",
        ));
    }
    Ok(())
}
