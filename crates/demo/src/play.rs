//! What a turn plays: a step in words, the marker that holds it, and the acts it is made of.

mod acts;
mod compose;
mod friendly;
mod marker;
mod provider;
mod step;
mod structured;

pub(crate) use acts::{Act, Patch, PlanStep, Shell, Source, ToolUse};
pub(crate) use compose::{Scene, compose};
pub(crate) use marker::last_marker;
pub(crate) use provider::waiting_for_network;
pub(crate) use step::{Fault, Rest, Step, StepError};
