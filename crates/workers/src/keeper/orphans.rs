//! Processes that hold the socket of a detached worker although the recorded process is gone, such as the child of a wrapper
//! that was killed. One that is the worker itself is adopted, any other of ours is ended, and a stranger's is left alone.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use supervise::{Detached, DetachedEntry, EndReason, HolderEvidence, Ladder, SocketClaim, SocketHolder};
use tokio::task::spawn_blocking;

use super::{Ended, Keeper};

impl Keeper {
    /// The process that listens in place of the recorded one, if it is the worker that would be started: the same mark, the
    /// same program, the same configuration. Only the program tells it from a command of its agent that has taken the socket.
    pub(super) async fn adopt(&self, entry: &DetachedEntry) -> Option<(DetachedEntry, Detached)> {
        if *entry.fingerprint != *self.fingerprint() {
            return None;
        }
        let (program, recorded) = (self.shared.group(&self.post).program.clone(), entry.clone());
        // Off the runtime: it looks at every process of the machine.
        let search = move || {
            let program = fs::canonicalize(program).ok()?;
            let is_worker = |holder: &SocketHolder| {
                holder.evidence == HolderEvidence::Listens
                    && holder.is_marked_as(&recorded)
                    && holder.executable().as_ref() == Some(&program)
            };
            SocketHolder::find(&recorded.socket).into_iter().find(is_worker)
        };
        let holder = spawn_blocking(search).await.ok().flatten()?;
        let entry = holder.take_place_of(entry);
        let detached = Detached::find(&entry, supervise::Limits::default())?;
        if let Err(error) = self.shared.ledger.record(entry.clone()) {
            tracing::warn!(worker = %self.post.name, %error, "ledger not written");
        }
        tracing::warn!(worker = %self.post.name, pid = entry.pid, "worker adopted");
        Some((entry, detached))
    }

    /// Ends what is left of a worker whose recorded process is gone, and forgets it.
    pub(super) async fn end_remains(&self, entry: &DetachedEntry) {
        self.shared.revoke_token(&self.post);
        self.end_holders(&entry.socket).await.ok();
        match self.shared.ledger.end_remains(entry).await {
            Ok(reaped) if reaped.killed > 0 => {
                tracing::warn!(worker = %self.post.name, processes = reaped.killed, "remains of a worker ended");
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(worker = %self.post.name, %error, "ledger not written"),
        }
    }

    /// Makes room for a new worker at the socket; refused if a process holds it that is not ours.
    pub(super) async fn clear_socket(&self, socket: &Path) -> Result<(), Ended> {
        self.end_holders(socket).await?;
        // One that is left by a worker that is gone would keep the next from listening.
        fs::remove_file(socket).ok();
        Ok(())
    }

    async fn end_holders(&self, socket: &Path) -> Result<(), Ended> {
        for (holder, claim) in self.claims(socket).await {
            let (pid, worker) = (holder.pid(), &self.post.name);
            match claim {
                SocketClaim::Own => {}
                SocketClaim::Stranger if holder.evidence == HolderEvidence::Listens => {
                    return Err(self.held_by_stranger(&holder, socket));
                }
                // The worker that is about to be started replaces the link that leads there.
                SocketClaim::OtherWorker | SocketClaim::Stranger => continue,
            }
            tracing::warn!(%worker, pid, socket = %socket.display(), "ending socket holder");
            if let Some(exit) = holder.end(&self.state_file("log"), Ladder::default()).await {
                tracing::info!(%worker, %exit, "socket holder ended");
            }
        }
        Ok(())
    }

    /// Who holds the socket, and whose they are. Off the runtime: it looks at every process of the machine.
    async fn claims(&self, socket: &Path) -> Vec<(SocketHolder, SocketClaim)> {
        let (ledger, worker, socket) = (self.shared.ledger.clone(), Arc::clone(&self.post.name), socket.to_owned());
        let program = self.shared.group(&self.post).program.clone();
        let look = move || {
            let claimed = |holder: SocketHolder| {
                let claim = ledger.claim(&worker, &holder, Path::new(&program));
                (holder, claim)
            };
            SocketHolder::find(&socket).into_iter().map(claimed).collect()
        };
        spawn_blocking(look).await.unwrap_or_default()
    }

    fn held_by_stranger(&self, holder: &SocketHolder, socket: &Path) -> Ended {
        let executable = holder.executable();
        let name = executable.as_deref().and_then(Path::file_name).unwrap_or(OsStr::new("an unknown program"));
        let words = format!(
            "PID {} ({}) holds the socket {} of worker {} and was not started by this Switchboard: end it, or choose \
             another state directory",
            holder.pid(),
            name.display(),
            socket.display(),
            self.post.name
        );
        // Refused, and not impossible: whoever ends that process should not have to restart the worker, too.
        Ended::Broke { reason: EndReason::StartRefused, words: words.into() }
    }
}
