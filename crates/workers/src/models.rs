//! The models that the workers of a group offer: asked of one of them once in each of its lives.

use std::time::Duration;

use codex::CallError;
use tokio::time::timeout;

use crate::ModelView;
use crate::pool::Pool;
use crate::post::Link;

/// How long a worker may take to say which models it offers.
const MODELS_TIMEOUT: Duration = Duration::from_secs(5);

impl Pool {
    /// The models that the workers of a group offer, of the first one if none is named. There are none while no worker is
    /// ready, and none of a worker that cannot say.
    pub async fn models(&self, group: Option<&str>) -> Vec<ModelView> {
        let groups = &self.shared.plan.groups;
        let Some(at) = group.map_or(Some(0), |name| groups.iter().position(|group| *group.name == *name)) else {
            return Vec::new();
        };
        let links = self.shared.posts.iter().filter(|post| post.group == at).filter_map(|post| post.link());
        for link in links.collect::<Vec<_>>() {
            if let Some(models) = link.models().await {
                return models;
            }
        }
        Vec::new()
    }
}

impl Link {
    /// What its worker offers; `None` if it did not say this time.
    async fn models(&self) -> Option<Vec<ModelView>> {
        let asked = self.models.get_or_try_init(async || match timeout(MODELS_TIMEOUT, self.client.models()).await {
            Ok(Ok(models)) => Ok(models),
            Ok(Err(CallError::Unable(_))) => Ok(Vec::new()),
            Ok(Err(_)) | Err(_) => Err(()),
        });
        asked.await.ok().cloned()
    }
}
