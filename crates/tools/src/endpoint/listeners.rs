//! Callers that want to be told of changes: a legacy one on its connection for as long as that lasts, a modern one on the
//! stream of its request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use rmcp::model::{
    PromptListChangedNotification, ResourceListChangedNotification, ResourceUpdatedNotification,
    ResourceUpdatedNotificationParam, ServerNotification, ToolListChangedNotification,
};
use rmcp::service::{Peer, RoleServer, SubscriptionContext};
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

use crate::host::Shared;
use crate::offers::Offers;
use crate::post::lock;

/// Resources that one caller may be told of: each is asked of its server by itself.
pub(super) const SUBSCRIBED_MAX: usize = 256;

/// What one connection listens to. Dropped, it is told nothing more.
pub(super) struct Listening {
    shared: Arc<Shared>,
    /// At most one: what tells a legacy caller.
    telling: Mutex<JoinSet<()>>,
    subscribed: Arc<Mutex<HashMap<String, Subscribed>>>,
}

/// A resource that a caller wants to be told of, for as long as this is kept.
struct Subscribed {
    shared: Arc<Shared>,
    uri: String,
}

impl Subscribed {
    fn new(shared: &Arc<Shared>, uri: &str) -> Self {
        shared.subscribe(uri);
        Self { shared: Arc::clone(shared), uri: uri.to_owned() }
    }
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        self.shared.unsubscribe(&self.uri);
    }
}

impl Listening {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, telling: Mutex::default(), subscribed: Arc::default() }
    }

    /// Tells a legacy caller of every change from now on.
    pub(super) fn begin(&self, peer: Peer<RoleServer>) {
        let mut telling = lock(&self.telling);
        if telling.is_empty() {
            telling.spawn(tell(Arc::clone(&self.shared), peer, Arc::clone(&self.subscribed)));
        }
    }

    /// Says whether there was room for it.
    pub(super) fn subscribe(&self, uri: &str) -> bool {
        let mut subscribed = lock(&self.subscribed);
        let has_room = subscribed.len() < SUBSCRIBED_MAX || subscribed.contains_key(uri);
        if has_room {
            subscribed.entry(uri.to_owned()).or_insert_with(|| Subscribed::new(&self.shared, uri));
        }
        has_room
    }

    pub(super) fn unsubscribe(&self, uri: &str) {
        lock(&self.subscribed).remove(uri);
    }

    /// Tells a modern caller what it has asked to be told, until it leaves.
    pub(super) async fn serve(&self, context: &SubscriptionContext) {
        let uris = context.accepted().resource_subscriptions.clone().unwrap_or_default();
        let _subscribed: Vec<Subscribed> = uris.iter().map(|uri| Subscribed::new(&self.shared, uri)).collect();
        let mut changes = Changes::new(&self.shared);
        loop {
            let told = tokio::select! {
                told = changes.next() => told,
                () = context.cancelled() => return,
            };
            for notification in told {
                // What the caller did not ask for is refused by the sink; the rest fails only if the caller is gone.
                _ = context.sink().send(notification).await;
            }
        }
    }
}

async fn tell(shared: Arc<Shared>, peer: Peer<RoleServer>, subscribed: Arc<Mutex<HashMap<String, Subscribed>>>) {
    let mut changes = Changes::new(&shared);
    drop(shared);
    loop {
        for notification in changes.next().await {
            let is_wanted = match &notification {
                ServerNotification::ResourceUpdatedNotification(update) => {
                    lock(&subscribed).contains_key(&update.params.uri)
                }
                _ => true,
            };
            if is_wanted && peer.send_notification(notification).await.is_err() {
                return;
            }
        }
    }
}

/// What changes, as it is told to callers.
struct Changes {
    offers: tokio::sync::watch::Receiver<Arc<Offers>>,
    before: Arc<Offers>,
    updates: tokio::sync::broadcast::Receiver<crate::host::Update>,
}

impl Changes {
    fn new(shared: &Shared) -> Self {
        let mut offers = shared.changes();
        let before = offers.borrow_and_update().clone();
        Self { offers, before, updates: shared.updates() }
    }

    /// Waits for the next change. For ever, if the host is gone.
    async fn next(&mut self) -> Vec<ServerNotification> {
        tokio::select! {
            changed = self.offers.changed() => {
                if changed.is_err() {
                    std::future::pending::<()>().await;
                }
                let now = self.offers.borrow_and_update().clone();
                let before = std::mem::replace(&mut self.before, Arc::clone(&now));
                difference(&before, &now)
            }
            update = self.updates.recv() => match update {
                Ok(update) => vec![updated(update.uri)],
                Err(RecvError::Lagged(_)) => vec![resources_changed()],
                Err(RecvError::Closed) => std::future::pending().await,
            },
        }
    }
}

fn difference(before: &Offers, now: &Offers) -> Vec<ServerNotification> {
    let mut told = Vec::new();
    if before.tools != now.tools {
        told.push(ServerNotification::ToolListChangedNotification(ToolListChangedNotification {
            method: Default::default(),
            extensions: Default::default(),
        }));
    }
    if before.resources != now.resources || before.templates != now.templates {
        told.push(resources_changed());
    }
    if before.prompts != now.prompts {
        told.push(ServerNotification::PromptListChangedNotification(PromptListChangedNotification {
            method: Default::default(),
            extensions: Default::default(),
        }));
    }
    told
}

fn resources_changed() -> ServerNotification {
    ServerNotification::ResourceListChangedNotification(ResourceListChangedNotification {
        method: Default::default(),
        extensions: Default::default(),
    })
}

fn updated(uri: String) -> ServerNotification {
    ServerNotification::ResourceUpdatedNotification(ResourceUpdatedNotification::new(
        ResourceUpdatedNotificationParam::new(uri),
    ))
}
