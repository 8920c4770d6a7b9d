//! What has changed since a caller was last told. Every change has a number, and a caller has seen all up to one of them: so one
//! that was away misses nothing and costs nothing meanwhile.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use rmcp::model::{
    PromptListChangedNotification, ResourceListChangedNotification, ResourceUpdatedNotification,
    ResourceUpdatedNotificationParam, ServerNotification, ToolListChangedNotification,
};
use rmcp::service::{Peer, RoleServer, SubscriptionContext};

use crate::host::Shared;
use crate::post::lock;

/// Resources that one caller may be told of: each is asked of its server by itself.
pub(crate) const SUBSCRIBED_MAX: usize = 256;

/// The longest address of a resource that a caller may be told of: it is held for as long as the caller listens.
pub(crate) const SUBSCRIBED_URI_BYTES_MAX: usize = 4096;

/// How long all these addresses of one caller may be together. A session that listens has little else, and there may be thousands.
pub(crate) const SUBSCRIBED_TOTAL_BYTES_MAX: usize = 16 << 10;

/// The number of a change.
pub(crate) type Change = u64;

/// The resources that one caller is told of. Dropped, it is told of none any more.
pub(crate) struct Subscriptions {
    shared: Arc<Shared>,
    uris: Mutex<BTreeSet<String>>,
}

impl Subscriptions {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, uris: Mutex::default() }
    }

    /// Says whether there was room for it.
    pub(crate) fn subscribe(&self, uri: &str) -> bool {
        let mut uris = lock(&self.uris);
        if uris.contains(uri) {
            return true;
        }
        let bytes = uris.iter().map(String::len).sum::<usize>() + uri.len();
        let is_short = uri.len() <= SUBSCRIBED_URI_BYTES_MAX && bytes <= SUBSCRIBED_TOTAL_BYTES_MAX;
        let has_room = is_short && uris.len() < SUBSCRIBED_MAX;
        if has_room {
            uris.insert(uri.to_owned());
            self.shared.subscribe(uri);
        }
        has_room
    }

    pub(crate) fn unsubscribe(&self, uri: &str) {
        if lock(&self.uris).remove(uri) {
            self.shared.unsubscribe(uri);
        }
    }

    /// What a caller is to be told that has seen all up to this change, and the change that it has seen then.
    pub(crate) fn unseen(&self, seen: Change) -> (Change, Vec<ServerNotification>) {
        // Before anything is compared: what changes meanwhile is told now or the next time.
        let latest = self.shared.latest_change();
        let mut told = Vec::new();
        if latest > seen {
            let offers = self.shared.offers();
            if offers.tools_changed > seen {
                told.push(tools_changed());
            }
            if offers.resources_changed > seen {
                told.push(resources_changed());
            }
            if offers.prompts_changed > seen {
                told.push(prompts_changed());
            }
            told.extend(self.shared.updated_since(seen, &lock(&self.uris)).into_iter().map(updated));
        }
        (latest, told)
    }

    /// Tells a legacy caller of every change for as long as its connection lasts.
    pub(crate) async fn tell(self: Arc<Self>, peer: Peer<RoleServer>) {
        let (mut changes, mut seen) = (self.shared.changes(), self.shared.latest_change());
        while changes.changed().await.is_ok() {
            let (latest, told) = self.unseen(seen);
            seen = latest;
            for notification in told {
                if peer.send_notification(notification).await.is_err() {
                    return;
                }
            }
        }
    }

    /// Tells a modern caller what it has asked to be told, until it leaves.
    pub(crate) async fn serve(&self, context: &SubscriptionContext) {
        let (mut changes, mut seen) = (self.shared.changes(), self.shared.latest_change());
        for uri in context.accepted().resource_subscriptions.iter().flatten() {
            self.subscribe(uri);
        }
        loop {
            tokio::select! {
                Ok(()) = changes.changed() => {}
                () = context.cancelled() => return,
            }
            let (latest, told) = self.unseen(seen);
            seen = latest;
            for notification in told {
                // What the caller did not ask for is refused by the sink; the rest fails only if the caller is gone.
                _ = context.sink().send(notification).await;
            }
        }
    }
}

/// Leaves out the addresses for which one caller has no room.
pub(crate) fn keep_allowed(uris: &mut Vec<String>) {
    let mut room = SUBSCRIBED_TOTAL_BYTES_MAX;
    uris.retain(|uri| {
        let is_allowed = uri.len() <= SUBSCRIBED_URI_BYTES_MAX.min(room);
        room -= if is_allowed { uri.len() } else { 0 };
        is_allowed
    });
    uris.truncate(SUBSCRIBED_MAX);
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        for uri in std::mem::take(&mut *lock(&self.uris)) {
            self.shared.unsubscribe(&uri);
        }
    }
}

fn tools_changed() -> ServerNotification {
    ServerNotification::ToolListChangedNotification(ToolListChangedNotification {
        method: Default::default(),
        extensions: Default::default(),
    })
}

fn resources_changed() -> ServerNotification {
    ServerNotification::ResourceListChangedNotification(ResourceListChangedNotification {
        method: Default::default(),
        extensions: Default::default(),
    })
}

fn prompts_changed() -> ServerNotification {
    ServerNotification::PromptListChangedNotification(PromptListChangedNotification {
        method: Default::default(),
        extensions: Default::default(),
    })
}

fn updated(uri: String) -> ServerNotification {
    ServerNotification::ResourceUpdatedNotification(ResourceUpdatedNotification::new(
        ResourceUpdatedNotificationParam::new(uri),
    ))
}
