//! What is done for a server while it lives, beside its calls: its lists are read, what it tells is attended to, and it is
//! listened to for what callers want to hear of.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Keeper, Turn};
use crate::connection::{Call, CallError, Connection, Next, Telling, Told};
use crate::deadline::reached;
use crate::handshake::{Era, meta};
use crate::listing::{self, Read};
use crate::post::Wish;
use crate::strays;

/// How long several changes of a list may come together before it is read again.
const SETTLE: Duration = Duration::from_millis(50);
/// How long what was read is good enough: a server may announce changes without end.
const GOOD_FOR: Duration = Duration::from_secs(1);
/// How long a server that has ended what it is listened to with is left alone: some do so at once.
const LISTEN_AGAIN: Duration = Duration::from_secs(5);

/// The attention that one life of a server gets.
pub(super) struct Attendance<'a> {
    keeper: &'a Keeper,
    connection: Connection,
    telling: Telling,
    started: Instant,
    /// Until when the lists are not read again, and when they are to be.
    good_until: Instant,
    read_at: Option<Instant>,
    /// Questions that belong to no caller.
    strays: JoinSet<()>,
    /// What a modern server is listened to with.
    listening: Option<Call>,
    /// When to listen again, after the server ended that.
    listen_at: Option<Instant>,
    /// Whether it was ever listened to so.
    has_listened: bool,
    /// What it was asked to tell of.
    subscribed: Vec<String>,
}

impl<'a> Attendance<'a> {
    pub(super) fn new(keeper: &'a Keeper, connection: Connection, telling: Telling, started: Instant) -> Self {
        Self {
            keeper,
            connection,
            telling,
            started,
            good_until: started,
            read_at: None,
            strays: JoinSet::new(),
            listening: None,
            listen_at: None,
            has_listened: false,
            subscribed: Vec::new(),
        }
    }

    /// Attends to the server until somebody wishes otherwise. Whatever is waited for meanwhile, a wish is heard.
    pub(super) async fn serve(&mut self, turn: Turn) -> Wish {
        let post = &self.keeper.post;
        tokio::select! {
            wish = post.wished() => wish,
            never = self.attend_all(turn) => match never {},
        }
    }

    /// Reads the lists, lets callers in, and attends to what the server tells. `turn` is given back once the server is there.
    async fn attend_all(&mut self, turn: Turn) -> Infallible {
        let post = &self.keeper.post;
        // First, so that no change after the lists were read is missed.
        self.listen().await;
        let read = self.read().await;
        post.set_connection(Some(self.connection.clone()));
        self.keeper.learn(read, self.started).await;
        drop(turn);
        self.listen().await;
        loop {
            tokio::select! {
                never = attend(self.keeper, &mut self.telling.told, &mut self.strays) => match never {},
                () = self.telling.changed.notified() => {
                    self.read_at.get_or_insert((Instant::now() + SETTLE).max(self.good_until));
                }
                () = reached(self.read_at) => {
                    self.read_at = None;
                    let read = self.read().await;
                    self.good_until = Instant::now() + GOOD_FOR;
                    self.keeper.learn(read, self.started).await;
                    // What callers want to hear of may be among what is new.
                    self.listen().await;
                }
                () = post.resubscribe.notified() => self.listen().await,
                may_ask_again = over(&mut self.listening) => {
                    self.listening = None;
                    self.listen_at = may_ask_again.then(|| Instant::now() + LISTEN_AGAIN);
                }
                () = reached(self.listen_at) => self.listen().await,
            }
        }
    }

    async fn read(&mut self) -> Read {
        let Keeper { shared, post, .. } = self.keeper;
        let connection = self.connection.clone();
        self.meanwhile(listing::read_all(&connection, post.server.timeouts.list, &shared.limits)).await
    }

    /// Does something with the server while what it tells and asks is attended to: it may want an answer first.
    async fn meanwhile<T>(&mut self, doing: impl Future<Output = T>) -> T {
        tokio::select! {
            done = doing => done,
            never = attend(self.keeper, &mut self.telling.told, &mut self.strays) => match never {},
        }
    }

    /// Asks to be told of changes: all lists, and the resources that callers want to hear of.
    async fn listen(&mut self) {
        self.listen_at = None;
        let wanted = self.keeper.shared.subscribed_of(&self.keeper.post.name);
        match self.connection.agreement().era {
            Era::Modern => self.listen_as_modern(wanted).await,
            Era::Legacy => self.listen_as_legacy(wanted).await,
        }
    }

    async fn listen_as_modern(&mut self, wanted: Vec<String>) {
        if self.listening.is_some() && wanted == self.subscribed {
            return;
        }
        let capabilities = &self.connection.agreement().capabilities;
        let tells = |list: &str| capabilities[list]["listChanged"] == true;
        let mut notifications = json!({});
        for (list, field) in
            [("tools", "toolsListChanged"), ("resources", "resourcesListChanged"), ("prompts", "promptsListChanged")]
        {
            if tells(list) {
                notifications[field] = true.into();
            }
        }
        if !wanted.is_empty() && capabilities["resources"]["subscribe"] == true {
            notifications["resourceSubscriptions"] = json!(wanted);
        }
        self.subscribed = wanted;
        // The old one is given up once the new one stands.
        let _old = self.listening.take();
        if notifications.as_object().is_some_and(|fields| !fields.is_empty()) {
            let params = json!({ "notifications": notifications, "_meta": meta() });
            self.listening = self.connection.call(None, "subscriptions/listen", params).await.ok();
            if std::mem::replace(&mut self.has_listened, true) {
                // What changed while nobody listened was not told.
                self.telling.changed.notify_one();
            }
        }
    }

    async fn listen_as_legacy(&mut self, wanted: Vec<String>) {
        if self.connection.agreement().capabilities["resources"]["subscribe"] != true {
            return;
        }
        let connection = self.connection.clone();
        let timeout = self.keeper.post.server.timeouts.list;
        let before = std::mem::take(&mut self.subscribed);
        let unwanted = before.iter().filter(|uri| !wanted.contains(uri)).map(|uri| ("resources/unsubscribe", uri));
        let news = wanted.iter().filter(|uri| !before.contains(uri)).map(|uri| ("resources/subscribe", uri));
        let mut refused = Vec::new();
        for (method, uri) in unwanted.chain(news) {
            let asked = connection.ask(method, json!({ "uri": uri }), timeout);
            if let Err(error) = self.meanwhile(asked).await {
                tracing::warn!(server = &*self.keeper.post.name, method, %error, "a tool server would not do it");
                refused.push(uri.clone());
            }
        }
        // What was refused is asked for again when something else is.
        self.subscribed = wanted.into_iter().filter(|uri| !refused.contains(uri)).collect();
    }
}

/// Attends to what the server tells and asks, for as long as it lives.
async fn attend(keeper: &Keeper, told: &mut mpsc::Receiver<Told>, asked: &mut JoinSet<()>) -> Infallible {
    loop {
        tokio::select! {
            told = told.recv() => match told {
                Some(Told::ResourceUpdated { uri }) => keeper.shared.resource_updated(&uri),
                Some(Told::Asked(question)) => {
                    let (shared, name) = (Arc::clone(&keeper.shared), Arc::clone(&keeper.post.name));
                    asked.spawn(strays::answer(shared, name, question));
                }
                None => pending().await,
            },
            _ = asked.join_next(), if !asked.is_empty() => {}
        }
    }
}

/// Waits until the server ends what it is listened to with; says whether it may be asked for that again.
async fn over(listening: &mut Option<Call>) -> bool {
    let Some(call) = listening else { return pending().await };
    loop {
        match call.next().await {
            Next::Event(_) => {}
            Next::End(end) => return !matches!(end, Err(CallError::Refused(_))),
        }
    }
}
