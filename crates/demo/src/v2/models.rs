//! `model/list`: the demo worker's two models, which are none.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::config::DEMO_MODEL;
use crate::lines::Refusal;
use crate::stage::Call;
use crate::worker::Worker;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ModelListParams {
    cursor: Option<String>,
    limit: Option<usize>,
    #[expect(dead_code, reason = "its type is checked as the real worker checks it")]
    include_hidden: Option<bool>,
}

/// A page of models; the cursor is the number of those before it.
pub(super) fn list(worker: &mut Worker, call: &Call, params: &ModelListParams) -> Result<(), Refusal> {
    let models = [model(DEMO_MODEL, "Demo", true), model("demo-mini", "Demo mini", false)];
    let start = match &params.cursor {
        None => 0,
        Some(cursor) => cursor
            .parse()
            .ok()
            .filter(|start| *start <= models.len())
            .ok_or_else(|| Refusal::invalid(format!("invalid cursor: {cursor}")))?,
    };
    let end = models.len().min(start + params.limit.unwrap_or(models.len()).max(1));
    let next_cursor = (end < models.len()).then(|| end.to_string());
    worker.stage.answer(call, &json!({"data": models[start..end], "nextCursor": next_cursor}));
    Ok(())
}

fn model(id: &str, name: &str, is_default: bool) -> Value {
    json!({
        "id": id,
        "model": id,
        "upgrade": null,
        "upgradeInfo": null,
        "availabilityNux": null,
        "displayName": name,
        "description": "Switchboard's built-in demo worker: no model, the same protocol.",
        "modelSpecialty": null,
        "hidden": false,
        "supportedReasoningEfforts": [{"reasoningEffort": "low", "description": "It does not reason"}],
        "defaultReasoningEffort": "low",
        "inputModalities": ["text", "image"],
        "supportsPersonality": false,
        "multiAgentVersion": null,
        "additionalSpeedTiers": [],
        "serviceTiers": [],
        "defaultServiceTier": null,
        "availableAccessPrograms": null,
        "isDefault": is_default,
    })
}
