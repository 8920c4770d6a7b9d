//! The one table of every parameter of a chat request, and what becomes of it. What is ignored is told to the caller by this
//! table, and the documentation is made of it.

use super::read::{Bad, Fields, wrong};

/// What becomes of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The worker is told.
    Worker,
    /// We do it ourselves.
    Ours,
    /// It is accepted and named in `x-switchboard-ignored`: no worker can do it.
    Ignored,
    /// A value that asks for something is refused.
    Refused,
}

/// A row of the table.
pub(crate) struct Parameter {
    pub name: &'static str,
    pub fate: Fate,
    /// How, or why not.
    pub note: &'static str,
}

pub(crate) const fn row(name: &'static str, fate: Fate, note: &'static str) -> Parameter {
    Parameter { name, fate, note }
}

/// All parameters. What is not here is nobody's, and is passed over.
pub(crate) const TABLE: &[Parameter] = {
    use Fate::{Ignored, Ours, Refused, Worker};
    &[
        row("model", Ours, "a profile, or a model of the worker; `:EFFORT` behind it sets the effort"),
        row("messages", Worker, "instructions, injected history, and the last user message as the turn's input"),
        row("input", Worker, "the same in the shape of the Responses API, if there are no `messages`"),
        row("instructions", Worker, "with `input`: in front of it"),
        row("tools", Worker, "functions, nested or flat; any other type is refused"),
        row("functions", Worker, "the older form of `tools`; the answer is then in that form too"),
        row("tool_choice", Worker, "`auto`, `none` and the choice among tools; that one *must* be called is ignored"),
        row("function_call", Worker, "the older form of `tool_choice`"),
        row(
            "parallel_tool_calls",
            Ignored,
            "a worker always lets the model call several; `true` is what happens anyway",
        ),
        row("response_format", Worker, "`json_schema` as the turn's output schema, `json_object` as an instruction"),
        row("reasoning_effort", Worker, "any word; it wins over the profile's and over the suffix of `model`"),
        row("reasoning", Worker, "`effort` and `summary` of it"),
        row("verbosity", Worker, "as the worker's `model_verbosity`"),
        row("service_tier", Worker, "any word but `auto` and `default`, which mean the worker's own choice"),
        row("n", Ours, "1 to 8: so many turns run, each of its own"),
        row("stop", Ours, "up to 4 texts; the answer ends before the first that appears, and the turn is interrupted"),
        row("stream", Ours, "server-sent events"),
        row("stream_options", Ours, "`include_usage`: a last chunk with the usage"),
        row("max_tokens", Ignored, "a worker cannot bound its answer"),
        row("max_completion_tokens", Ignored, "a worker cannot bound its answer"),
        row("max_output_tokens", Ignored, "a worker cannot bound its answer"),
        row("temperature", Ignored, "a worker does not pass it on"),
        row("top_p", Ignored, "a worker does not pass it on"),
        row("top_k", Ignored, "a worker does not pass it on"),
        row("presence_penalty", Ignored, "a worker does not pass it on"),
        row("frequency_penalty", Ignored, "a worker does not pass it on"),
        row("logit_bias", Ignored, "a worker does not pass it on"),
        row("seed", Ignored, "a worker does not pass it on"),
        row("logprobs", Ignored, "a worker tells none"),
        row("top_logprobs", Ignored, "a worker tells none"),
        row("prediction", Ignored, "a worker does not pass it on"),
        row("web_search_options", Ignored, "whether an agent may search is the profile's to say"),
        row("store", Ignored, "threads are kept for `thread_idle_max`, whatever is asked"),
        row("metadata", Ignored, "nothing is kept of it"),
        row("prompt_cache_key", Ignored, "a worker caches by thread, and a conversation stays on its thread"),
        row("prompt_cache_retention", Ignored, "the provider's own is used"),
        row("user", Ignored, "callers are told apart by their keys"),
        row("safety_identifier", Ignored, "callers are told apart by their keys"),
        row("truncation", Ignored, "a worker compacts long threads by itself"),
        row("messages.name", Ignored, "a worker knows no names of speakers"),
        row("image_url.detail", Ignored, "a worker does not pass it on; `auto` is what happens anyway"),
        row("previous_response_id", Refused, "a chat request carries its whole conversation"),
        row("conversation", Refused, "a chat request carries its whole conversation"),
        row("prompt", Refused, "a worker knows no stored prompts"),
        row("modalities", Refused, "anything but `text`"),
        row("audio", Refused, "a worker speaks no audio"),
    ]
};

/// What must not be there at all, and why.
const REFUSED: &[(&str, &str)] = &[
    ("audio", "cannot be had: a worker speaks no audio"),
    ("previous_response_id", "is of the Responses API; a chat request carries its whole conversation"),
    ("conversation", "is of the Responses API; a chat request carries its whole conversation"),
    ("prompt", "cannot be used: a worker knows no stored prompts; send `messages`"),
];

/// What is ignored, but must make sense.
const NUMBERS: &[&str] = &[
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "temperature",
    "top_p",
    "top_k",
    "presence_penalty",
    "frequency_penalty",
    "seed",
    "top_logprobs",
    "max_tool_calls",
];

/// What of a chat request is not done, by name; refuses what must not be passed over in silence.
pub(crate) fn ignored(body: Fields<'_>) -> Result<Vec<&'static str>, Bad> {
    if body.list("modalities")?.is_some_and(|list| list.iter().any(|kind| kind != "text")) {
        return Err(Bad::unsupported("must be [\"text\"]: a worker answers in text alone").at("modalities"));
    }
    ignored_of(TABLE, REFUSED, body)
}

/// The same of the request that a table describes.
pub(crate) fn ignored_of(
    table: &'static [Parameter],
    refused: &[(&str, &str)],
    body: Fields<'_>,
) -> Result<Vec<&'static str>, Bad> {
    for (name, why) in refused {
        if body.get(name).is_some() {
            return Err(Bad::unsupported(*why).at(name));
        }
    }
    for name in NUMBERS {
        body.read(name, |value| if value.is_number() { Ok(()) } else { Err(wrong(value, "a number")) })?;
    }
    let is_harmless = |name: &str| match name {
        "parallel_tool_calls" => body.flag(name).ok().flatten() == Some(true),
        "store" | "logprobs" => body.flag(name).ok().flatten() == Some(false),
        "include" => body.list(name).ok().flatten().is_some_and(<[_]>::is_empty),
        _ => false,
    };
    let asked = |row: &&Parameter| row.fate == Fate::Ignored && body.get(row.name).is_some() && !is_harmless(row.name);
    Ok(table.iter().filter(asked).map(|row| row.name).collect())
}
