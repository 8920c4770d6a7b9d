//! `/api/workers` and `/api/wire`: the workers, starting one anew, and what was said to and by one.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use serde::Serialize;
use workers::{NoSuchWorker, WorkerView};

use crate::Desk;
use crate::error::{Code, Error};

#[derive(Serialize)]
pub(crate) struct Workers {
    workers: Vec<WorkerView>,
}

#[derive(Serialize)]
pub(crate) struct Restarting {
    worker: String,
    restarting: bool,
}

#[derive(Serialize)]
pub(crate) struct Frames {
    worker: String,
    frames: Vec<codex::Frame>,
}

pub(crate) async fn list(State(desk): State<Arc<Desk>>) -> Json<Workers> {
    Json(Workers { workers: desk.pool.workers() })
}

pub(crate) async fn restart(
    State(desk): State<Arc<Desk>>,
    Path(worker): Path<String>,
) -> Result<Json<Restarting>, Error> {
    desk.pool.restart_worker(&worker)?;
    Ok(Json(Restarting { worker, restarting: true }))
}

pub(crate) async fn wire(State(desk): State<Arc<Desk>>, Path(worker): Path<String>) -> Result<Json<Frames>, Error> {
    let frames = desk.pool.frames(&worker)?;
    Ok(Json(Frames { worker, frames }))
}

impl From<NoSuchWorker> for Error {
    fn from(error: NoSuchWorker) -> Self {
        Self::new(Code::WorkerNotFound, format!("{error}; GET /api/workers lists them"))
    }
}
