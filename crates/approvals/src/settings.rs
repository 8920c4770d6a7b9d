//! What the approvals are configured with, and what they tell of themselves.

use std::sync::Arc;

use serde::Serialize;
use supervise::Owner;

use crate::hook::Hook;
use crate::limits::Limits;
use crate::rules::Rules;
use crate::view::View;
use crate::webhook::Webhook;

/// Who and what decides besides people.
#[derive(Clone)]
pub struct Settings {
    /// The rules, which come first.
    pub rules: Rules,
    /// The hooks, asked one after the other until one decides.
    pub hooks: Vec<Hook>,
    /// Where people are told of what waits for them. Without one there are no decision links.
    pub webhook: Option<Webhook>,
    /// The Switchboard process that hooks belong to.
    pub owner: Owner,
    /// All limits.
    pub limits: Limits,
}

impl Default for Settings {
    /// People alone decide.
    fn default() -> Self {
        Self {
            rules: Rules::default(),
            hooks: Vec::new(),
            webhook: None,
            owner: Owner::generate(),
            limits: Limits::default(),
        }
    }
}

/// Told of every approval that opens or ends; it neither blocks nor awaits.
pub type Notify = Arc<dyn Fn(Notice) + Send + Sync>;

/// What happened to an approval.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Notice {
    /// It waits for a decision.
    ApprovalWanted {
        /// As it is shown.
        approval: Box<View>,
    },
    /// It waits no more.
    ApprovalDecided {
        /// With its decision.
        approval: Box<View>,
    },
}
