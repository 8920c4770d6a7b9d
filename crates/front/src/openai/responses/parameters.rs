//! The one table of every parameter of a request of the Responses API, and what becomes of it.

use super::super::parameters::{Fate, Parameter, ignored_of, row};
use super::super::read::{Bad, Fields};

/// All parameters. What is not here is nobody's, and is passed over.
pub(crate) const TABLE: &[Parameter] = {
    use Fate::{Ignored, Ours, Refused, Worker};
    &[
        row("model", Ours, "a profile, or a model of the worker; `:EFFORT` behind it sets the effort"),
        row("input", Worker, "a text or items: messages, function calls and their outputs, reasoning, references"),
        row("instructions", Worker, "for this response alone: they do not pass on to the next one"),
        row("previous_response_id", Ours, "goes on after that response: on its thread, on a copy of it, or told anew"),
        row("conversation", Ours, "goes on after the last response of that conversation"),
        row("store", Ours, "`false`: nothing is kept, unless a function call waits for its output"),
        row("background", Ours, "the response goes on without its caller; needs `store`"),
        row("stream", Ours, "server-sent events"),
        row("stream_options", Ours, "`include_obfuscation`: nothing is ever obfuscated"),
        row("metadata", Ours, "kept and given back"),
        row("tools", Worker, "functions; any other type is refused"),
        row("tool_choice", Worker, "`auto`, `none` and the choice among tools; that one *must* be called is ignored"),
        row(
            "parallel_tool_calls",
            Ignored,
            "a worker always lets the model call several; `true` is what happens anyway",
        ),
        row("text", Worker, "`format` as the turn's output schema or as an instruction, `verbosity`"),
        row("reasoning", Worker, "`effort` and `summary` of it"),
        row("service_tier", Worker, "any word but `auto` and `default`, which mean the worker's own choice"),
        row("include", Ignored, "a worker tells none of these"),
        row("max_output_tokens", Ignored, "a worker cannot bound its answer"),
        row("max_tool_calls", Ignored, "a worker cannot bound its calls"),
        row("temperature", Ignored, "a worker does not pass it on"),
        row("top_p", Ignored, "a worker does not pass it on"),
        row("presence_penalty", Ignored, "a worker does not pass it on"),
        row("frequency_penalty", Ignored, "a worker does not pass it on"),
        row("top_logprobs", Ignored, "a worker tells none"),
        row("prompt_cache_key", Ignored, "a worker caches by thread, and a conversation stays on its thread"),
        row("prompt_cache_retention", Ignored, "the provider's own is used"),
        row("safety_identifier", Ignored, "callers are told apart by their keys"),
        row("user", Ignored, "callers are told apart by their keys"),
        row("truncation", Ignored, "a worker compacts long threads by itself"),
        row("context_management", Ignored, "a worker compacts long threads by itself"),
        row("prompt", Refused, "a worker knows no stored prompts"),
    ]
};

const REFUSED: &[(&str, &str)] = &[("prompt", "cannot be used: a worker knows no stored prompts; send `input`")];

/// What of a request is not done, by name; refuses what must not be passed over in silence.
pub(crate) fn ignored(body: Fields<'_>) -> Result<Vec<&'static str>, Bad> {
    ignored_of(TABLE, REFUSED, body)
}
