//! The OpenAI API as pure translation: a request to what a worker is to do, and what a turn tells to the bytes of an answer.
//! Nothing here waits, and nothing here knows HTTP but the names of its errors.

pub(crate) mod answer;
pub(crate) mod chunks;
pub(crate) mod failure;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
pub(crate) mod history;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod mapping;
pub(crate) mod message;
mod messages;
pub(crate) mod models;
pub(crate) mod parameters;
pub(crate) mod plan;
pub(crate) mod read;
pub(crate) mod reading;
pub(crate) mod request;
pub(crate) mod responses;
mod stop;
pub(crate) mod tools;
mod work;
