//! The path of a Unix socket in a form that `bind` and `connect` take, however long the path of its directory is.

use std::fmt;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, open};

/// A socket in a directory that is held open: the system has room for 107 bytes of path, and a state directory can have
/// more.
#[derive(Clone)]
pub struct SocketPath {
    path: PathBuf,
    name: Box<str>,
    directory: Arc<OwnedFd>,
}

impl SocketPath {
    /// The socket with this name in a directory.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn open(directory: &Path, name: &str) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = open(directory, flags, Mode::empty())?;
        Ok(Self { path: directory.join(name), name: name.into(), directory: Arc::new(opened) })
    }

    /// Where it is, for people.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The form to connect to. It holds in this process, for as long as `self` lives.
    #[must_use]
    pub fn short(&self) -> PathBuf {
        self.of(&self.name)
    }

    /// Listens there for our user alone, in place of whatever has the name: a socket that a killed server left refuses
    /// every caller. The caller holds the lock of the directory.
    ///
    /// # Errors
    /// It cannot be bound, for example because a directory has the name.
    pub fn bind(&self) -> io::Result<UnixListener> {
        let unfinished = self.of(&format!("{}.new", self.name));
        match fs::remove_file(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&unfinished)?;
        fs::set_permissions(&unfinished, Permissions::from_mode(0o600))?;
        fs::rename(&unfinished, self.short())?;
        Ok(listener)
    }

    /// Removes the socket.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self) -> io::Result<()> {
        fs::remove_file(self.short())
    }

    fn of(&self, name: &str) -> PathBuf {
        format!("/proc/self/fd/{}/{name}", self.directory.as_raw_fd()).into()
    }
}

/// The same place, whichever descriptor it is reached by.
impl PartialEq for SocketPath {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for SocketPath {}

impl fmt::Debug for SocketPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SocketPath").field(&self.path).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
    use std::os::unix::net::UnixStream;

    use super::SocketPath;

    #[test]
    fn a_socket_in_a_directory_with_a_long_path_is_reached() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("d".repeat(120)).join("e".repeat(120));
        fs::create_dir_all(&directory).unwrap();
        let listener = SocketPath::open(&directory, "control.sock").unwrap().bind().unwrap();
        let metadata = fs::metadata(directory.join("control.sock")).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        let mut connected = UnixStream::connect(SocketPath::open(&directory, "control.sock").unwrap().short()).unwrap();
        connected.write_all(b"x").unwrap();
        let mut byte = [0];
        listener.accept().unwrap().0.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
    }

    #[test]
    fn whatever_has_the_name_is_replaced_and_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (victim, path) = (directory.path().join("victim"), directory.path().join("control.sock"));
        fs::write(&victim, "untouched").unwrap();
        for name in ["control.sock", "control.sock.new"] {
            symlink(&victim, directory.path().join(name)).unwrap();
        }
        let socket = SocketPath::open(directory.path(), "control.sock").unwrap();
        drop(socket.bind().unwrap());
        assert!(fs::symlink_metadata(&path).unwrap().file_type().is_socket());
        assert!(UnixStream::connect(&path).is_err(), "nothing listens there any more");
        let _listener = socket.bind().unwrap();
        assert!(UnixStream::connect(&path).is_ok());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
    }
}
