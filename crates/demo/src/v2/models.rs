//! `model/list`: the demo worker's one model.

use serde::Deserialize;
use serde_json::json;

use crate::config::DEMO_MODEL;
use crate::lines::Refusal;
use crate::stage::Call;
use crate::worker::Worker;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ModelListParams {
    cursor: Option<String>,
    #[expect(dead_code, reason = "its type is checked as the real worker checks it")]
    limit: Option<u32>,
    #[expect(dead_code, reason = "its type is checked as the real worker checks it")]
    include_hidden: Option<bool>,
}

pub(super) fn list(
    worker: &mut Worker,
    call: &Call,
    params: &ModelListParams,
) -> Result<(), Refusal> {
    if let Some(cursor) = &params.cursor {
        return Err(Refusal::invalid(format!("invalid cursor: {cursor}")));
    }
    let model = json!({
        "id": DEMO_MODEL,
        "model": DEMO_MODEL,
        "upgrade": null,
        "upgradeInfo": null,
        "availabilityNux": null,
        "displayName": "Demo",
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
        "isDefault": true,
    });
    worker
        .stage
        .answer(call, &json!({"data": [model], "nextCursor": null}));
    Ok(())
}
