//! `control.sock`: the control socket in the state directory, as the server binds it and the commands find it.

use std::io;
use std::os::unix::net::UnixListener;
use std::path::Path;

use supervise::SocketPath;

const FILE_NAME: &str = "control.sock";

/// Removes the socket when the server is over.
pub(crate) struct ControlSocketGuard {
    socket: SocketPath,
}

/// Binds the control socket. The caller holds the lock of the directory.
pub(crate) fn bind_control(state_dir: &Path) -> io::Result<(UnixListener, ControlSocketGuard)> {
    let socket = SocketPath::open(state_dir, FILE_NAME)?;
    Ok((socket.bind()?, ControlSocketGuard { socket }))
}

/// The control socket of the server that keeps its state there.
pub(super) fn socket(state_dir: &Path) -> io::Result<SocketPath> {
    SocketPath::open(state_dir, FILE_NAME)
}

impl Drop for ControlSocketGuard {
    fn drop(&mut self) {
        // What stays refuses every caller, and the next start replaces it.
        _ = self.socket.remove();
    }
}
