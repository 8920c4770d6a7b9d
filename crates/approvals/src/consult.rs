//! Asking others: the hooks, one after the other until one decides, and the webhook, until it has taken the post.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use serde_json::{Map, Value, json};
use store::{Change, Store};
use tokio::sync::Semaphore;

use crate::audit;
use crate::link::{self, LINK_POWERS, LinkVerdict};
use crate::settings::Settings;
use crate::shown::Shown;
use crate::stamp::Stamp;
use crate::verdict::Verdict;
use crate::view::View;
use crate::webhook::Webhook;

/// What hooks and posts work with.
pub(crate) struct Desk {
    pub(crate) store: Store,
    pub(crate) settings: Settings,
    /// How many wait for a decision; the clerk keeps it.
    pub(crate) pending: AtomicUsize,
    hooks: Semaphore,
    posts: Semaphore,
}

impl Desk {
    pub(crate) fn new(store: Store, settings: Settings) -> Self {
        let limits = settings.limits;
        let (hooks, posts) = (Semaphore::new(limits.hooks_running_max), Semaphore::new(limits.posts_running_max));
        Self { store, settings, pending: AtomicUsize::new(0), hooks, posts }
    }

    pub(crate) fn audit(&self, approval: &str, step: &str, by: &dyn Display, detail: &dyn Display) {
        self.store.note(Change::Audit(audit::entry(approval, step, by, detail)));
    }

    /// The first verdict that a hook gives and the request offers, with the hook's name.
    pub(crate) async fn ask_hooks(self: Arc<Self>, view: View, shown: Shown) -> Option<(String, Verdict)> {
        let _place = self.hooks.acquire().await.ok()?;
        let input = json!({"version": 1, "approval": view}).to_string();
        let settings = &self.settings;
        for hook in settings.hooks.iter().filter(|hook| hook.is_for(shown.kind)) {
            let run = hook.run(&input, settings.owner, settings.limits.hook_output_bytes_max).await;
            if let Some(stderr) = run.stderr {
                self.audit(&view.id, "hook_stderr", &hook.name, &stderr);
            }
            match run.answer {
                Ok(Some(verdict)) if shown.admit(&verdict, hook.powers).is_ok() => {
                    return Some((hook.name.clone(), verdict));
                }
                Ok(Some(verdict)) => {
                    let what = format!("{} is not offered, or not for it to say", verdict.name());
                    self.audit(&view.id, "hook_refused", &hook.name, &what);
                }
                Ok(None) => self.audit(&view.id, "hook_asks", &hook.name, &""),
                Err(error) => self.audit(&view.id, "hook_failed", &hook.name, &error.told(shown.kind)),
            }
        }
        None
    }

    /// Posts it with its links, with retries until it is taken or given up. A post that an earlier run made is not
    /// repeated: its links still decide, and new ones would replace them.
    pub(crate) async fn post(self: Arc<Self>, webhook: Webhook, view: View, shown: Shown) {
        let Ok(_place) = self.posts.acquire().await else {
            return;
        };
        if self.is_posted(&view.id).await {
            return;
        }
        let limits = &self.settings.limits;
        let links = self.links(&webhook, &view, &shown).await;
        let body = json!({"type": "approval_wanted", "approval": view, "links": links}).to_string();
        let mut wait = limits.post_retry_min;
        for attempt in 1..=limits.post_attempts_max {
            match webhook.post(body.clone(), limits.post_timeout).await {
                Ok(()) => return self.audit(&view.id, "posted", &"webhook", &format!("attempt {attempt}")),
                Err(error) => {
                    self.audit(&view.id, "post_failed", &"webhook", &format!("attempt {attempt}: {error}"));
                    if !error.may_pass() || attempt == limits.post_attempts_max {
                        return;
                    }
                }
            }
            tokio::time::sleep(jittered(wait)).await;
            wait = (wait * 2).min(limits.post_retry_max);
        }
    }

    async fn is_posted(&self, approval: &str) -> bool {
        let approval = approval.to_owned();
        let entries = self.store.read(move |reader| reader.audit(&approval)).await;
        entries.is_ok_and(|entries| entries.iter().any(|entry| entry.step == "posted"))
    }

    /// A link for each verdict on offer, stored before it is sent; none if the store cannot keep them.
    async fn links(&self, webhook: &Webhook, view: &View, shown: &Shown) -> Map<String, Value> {
        let expires = view.deadline_at.unwrap_or_else(Stamp::now);
        let (mut links, mut rows) = (Map::new(), Vec::new());
        let is_offered = |verdict: &LinkVerdict| shown.admit(&verdict.verdict(), LINK_POWERS).is_ok();
        for verdict in LinkVerdict::ALL.into_iter().filter(is_offered) {
            match link::create(&view.id, &view.shown_hash, verdict, expires) {
                Ok((token, row)) => {
                    links.insert(verdict.name().into(), webhook.link(&token).into());
                    rows.push(Change::DecisionLink(row));
                }
                Err(error) => self.audit(&view.id, "link_not_created", &"webhook", &error),
            }
        }
        match self.store.commit(rows).await {
            Ok(()) => links,
            Err(error) => {
                self.audit(&view.id, "links_not_recorded", &"webhook", &error);
                Map::new()
            }
        }
    }
}

/// Between half of the wait and all of it, so that many do not come back at once.
fn jittered(wait: Duration) -> Duration {
    wait.mul_f64(0.5 + fastrand::f64() / 2.0)
}
