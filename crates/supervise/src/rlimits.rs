//! What a child may use of the machine, as far as the kernel's limits of one process reach.

use std::io;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

/// The kernel's limits for a child and for each of its descendants; what is not named stays as it is for us.
///
/// They are set right after the program was started, because safe code cannot run between fork and exec: for its first
/// moments, in which its loader runs, the old limits hold. They can be lowered for anyone, and raised by root alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rlimits {
    /// Descriptors that a process may have open.
    pub open_files: Option<u64>,
    /// Processes and threads of this user, all that run of them anywhere and not the child's alone. Root is exempt.
    pub processes: Option<u64>,
    /// Bytes of address space, which a program may reserve far more of than it uses.
    pub address_space_bytes: Option<u64>,
    /// Bytes of a core dump; 0 for none.
    pub core_bytes: Option<u64>,
}

impl Rlimits {
    pub(crate) fn apply(self, pid: u32) -> io::Result<()> {
        let wanted = [
            (Resource::Nofile, self.open_files),
            (Resource::Nproc, self.processes),
            (Resource::As, self.address_space_bytes),
            (Resource::Core, self.core_bytes),
        ];
        for (resource, limit) in wanted {
            if limit.is_some() {
                prlimit(Pid::from_raw(pid.cast_signed()), resource, Rlimit { current: limit, maximum: limit })?;
            }
        }
        Ok(())
    }
}
