//! The operating system user that a process is to run as, when that is another than ours. `setpriv` changes the user, because
//! only code between fork and exec could set the supplementary groups otherwise.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::launch::Launch;

/// Where `setpriv` is looked for; a `PATH` could lead to another program of that name, which would run as root.
const SETPRIV: [&str; 2] = ["/usr/bin/setpriv", "/bin/setpriv"];
/// Where the sockets of processes of other users are: the state directory is closed to them.
const RUN_DIRECTORY: &str = "/run/switchboard";

/// A user of this machine whom we can start processes as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OsUser {
    name: String,
    uid: u32,
    gid: u32,
    groups: BTreeSet<u32>,
    home: PathBuf,
    setpriv: PathBuf,
}

/// What a user must be able to do with a file.
#[derive(Clone, Copy, Debug)]
pub enum RequiredAccess {
    /// To enter and list a directory, or to run a program.
    Enter,
    /// The same, and to write.
    Write,
}

impl OsUser {
    /// The user of that name.
    ///
    /// # Errors
    /// There is none, or nothing can be started as another user.
    pub fn find(name: &str) -> Result<Self, UserError> {
        if !geteuid().is_root() {
            return Err(UserError::NotRoot(name.into()));
        }
        let setpriv = SETPRIV.iter().map(PathBuf::from).find(|file| file.is_file()).ok_or(UserError::NoSetpriv)?;
        let passwd =
            fs::read_to_string("/etc/passwd").map_err(|error| UserError::Unknown(name.into(), error.to_string()))?;
        let (uid, gid, home) = parse_passwd(&passwd, name)
            .ok_or_else(|| UserError::Unknown(name.into(), "/etc/passwd does not have it".into()))?;
        if uid == 0 {
            return Err(UserError::Root(name.into()));
        }
        let groups = parse_groups(&fs::read_to_string("/etc/group").unwrap_or_default(), name);
        Ok(Self { name: name.into(), uid, gid, groups, home, setpriv })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// The same launch as this user, with its groups and its home.
    #[must_use]
    pub fn wrap(&self, launch: Launch) -> Launch {
        let own: [OsString; 7] = [
            "--reuid".into(),
            self.uid.to_string().into(),
            "--regid".into(),
            self.gid.to_string().into(),
            "--init-groups".into(),
            "--".into(),
            launch.program,
        ];
        let named = [("HOME", self.home.clone().into_os_string())];
        let names = ["USER", "LOGNAME"].map(|variable| (variable, OsString::from(&self.name)));
        let env = named.into_iter().chain(names).map(|(name, value)| (name.into(), value));
        Launch {
            program: self.setpriv.clone().into(),
            args: own.into_iter().chain(launch.args).collect(),
            env: env.chain(launch.env).collect(),
            ..launch
        }
    }

    /// Whether the user can reach the file and do that with it, by the modes of all directories above it.
    ///
    /// # Errors
    /// What keeps it from that.
    pub fn check(&self, path: &Path, need: RequiredAccess) -> Result<(), UserError> {
        let denied = |at: &Path| UserError::Denied { user: self.name.clone(), path: path.into(), at: at.into() };
        let real = path.canonicalize().map_err(|_| denied(path))?;
        for directory in real.ancestors().skip(1) {
            let metadata = directory.metadata().map_err(|_| denied(directory))?;
            if !self.may(&metadata, 0o1) {
                return Err(denied(directory));
            }
        }
        let metadata = real.metadata().map_err(|_| denied(&real))?;
        let bits = match need {
            RequiredAccess::Enter => 0o5,
            RequiredAccess::Write => 0o7,
        };
        if self.may(&metadata, bits) { Ok(()) } else { Err(denied(&real)) }
    }

    fn may(&self, metadata: &Metadata, bits: u32) -> bool {
        let in_group = metadata.gid() == self.gid || self.groups.contains(&metadata.gid());
        allows(metadata.mode(), metadata.uid() == self.uid, in_group, bits) || self.uid == 0
    }

    /// A directory for the sockets of this user's processes, which it alone can enter. Below one of ours, so that the
    /// user cannot put another in its place.
    ///
    /// # Errors
    /// It cannot be made, or something else is there.
    pub fn socket_directory(&self, state_dir: &Path, name: &str) -> io::Result<PathBuf> {
        let state = fs::metadata(state_dir)?;
        let ours = Path::new(RUN_DIRECTORY).join(format!("{:x}-{:x}", state.dev(), state.ino()));
        for directory in [Path::new(RUN_DIRECTORY), &ours] {
            make(directory, 0o711, geteuid().as_raw())?;
        }
        let directory = ours.join(name);
        make(&directory, 0o700, self.uid)?;
        chown(&directory, Some(self.uid), Some(self.gid))?;
        Ok(directory)
    }
}

/// Makes a directory, or takes one that is there if nobody else could have made or changed it.
fn make(directory: &Path, mode: u32, owner: u32) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let metadata = fs::symlink_metadata(directory)?;
    let is_trusted = metadata.is_dir() && [owner, geteuid().as_raw()].contains(&metadata.uid());
    if !is_trusted {
        let what = format!("{} is no directory of uid {owner}: remove it", directory.display());
        return Err(io::Error::other(what));
    }
    fs::set_permissions(directory, Permissions::from_mode(mode))
}

/// Whether a mode has all of the bits for its owner, for its group, or for others: the first that applies decides.
fn allows(mode: u32, is_owner: bool, in_group: bool, bits: u32) -> bool {
    let granted = match (is_owner, in_group) {
        (true, _) => mode >> 6,
        (false, true) => mode >> 3,
        (false, false) => mode,
    };
    granted & bits == bits
}

fn parse_passwd(passwd: &str, name: &str) -> Option<(u32, u32, PathBuf)> {
    let fields = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let found = fields.into_iter().find(|fields| fields.first() == Some(&name))?;
    Some((found.get(2)?.parse().ok()?, found.get(3)?.parse().ok()?, found.get(5)?.into()))
}

/// The groups that list the user.
fn parse_groups(group: &str, name: &str) -> BTreeSet<u32> {
    let of_line = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        fields.get(3)?.split(',').any(|member| member == name).then(|| fields.get(2)?.parse().ok())?
    };
    group.lines().filter_map(of_line).collect()
}

/// Why nothing can be started as a user.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// Only root can.
    #[error("only root can start processes as the user `{0}`: start Switchboard as root, or leave `user` out")]
    NotRoot(String),
    /// It would not be confined by being another user.
    #[error("the user `{0}` is root: name one without rights, or leave `user` out")]
    Root(String),
    /// The program that changes the user is not installed.
    #[error("`setpriv` is not installed: install util-linux, or leave `user` out")]
    NoSetpriv,
    /// There is no such user.
    #[error("there is no user `{0}`: {1}")]
    Unknown(String, String),
    /// The user may not reach something that it needs.
    #[error("the user `{user}` cannot use {}: {} does not allow it", path.display(), at.display())]
    Denied {
        /// The user.
        user: String,
        /// What it needs.
        path: PathBuf,
        /// The file or directory whose mode forbids it.
        at: PathBuf,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_class_that_applies_decides() {
        assert!(allows(0o700, true, false, 0o7));
        assert!(!allows(0o077, true, true, 0o1), "the owner is not its group");
        assert!(allows(0o750, false, true, 0o5));
        assert!(!allows(0o705, false, true, 0o5), "the group is not others");
        assert!(allows(0o711, false, false, 0o1));
        assert!(!allows(0o711, false, false, 0o5));
    }

    #[test]
    fn root_is_no_user_to_confine_a_process_by() {
        let refused = OsUser::find("root").unwrap_err();
        assert!(matches!(refused, UserError::Root(_) | UserError::NotRoot(_)), "{refused}");
        assert_eq!(matches!(refused, UserError::Root(_)), geteuid().is_root());
    }

    #[test]
    fn a_user_is_read_with_its_groups() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nagent:x:1001:1002:an agent:/srv/agent:/bin/sh\n";
        assert_eq!(parse_passwd(passwd, "agent"), Some((1001, 1002, "/srv/agent".into())));
        assert_eq!(parse_passwd(passwd, "age"), None);
        let group = "root:x:0:\nbuild:x:50:agent,other\nwheel:x:51:other\n";
        assert_eq!(parse_groups(group, "agent"), BTreeSet::from([50]));
    }
}
