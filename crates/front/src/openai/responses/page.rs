//! `docs/responses.md`, made of the table that the code uses.

use expect_test::expect_file;

use super::super::mapping::parameters;
use super::parameters::TABLE;

const INTRODUCTION: &str = "\
# The Responses API

What `/v1/responses` makes of a request and of a turn. This page is made by the tests from the table that the code uses;
`UPDATE_EXPECT=1 cargo test -p front responses::page` makes it anew. Keys, limits, idempotency, failures and the way of a conversation to the
model are those of [mapping.md](mapping.md).

| route | does |
|---|---|
| `POST /v1/responses` | makes a response: whole, streamed or in the background |
| `GET /v1/responses/{id}` | a response that was made, or is being made; `?stream=true&starting_after=N` follows one of the background |
| `POST /v1/responses/{id}/cancel` | stops one of the background |
| `GET /v1/responses/{id}/input_items` | what it was asked with |
| `DELETE /v1/responses/{id}` | forgets it |
| `POST /v1/responses/compact` | makes a conversation short |
| `POST /v1/conversations`, `GET`, `POST`, `DELETE /v1/conversations/{id}` | begins, shows, changes the metadata of or forgets a conversation |
| `GET /v1/conversations/{id}/items` | what was said in it |
| `GET /v1/responses` with `upgrade: websocket` | the same responses over one connection |

    curl http://127.0.0.1:4180/v1/responses -H \"Authorization: Bearer $KEY\" -H 'content-type: application/json' \\
         -d '{\"model\":\"codex\",\"input\":\"tidy up\",\"background\":true}'                 # its id is in the answer
    curl -N \"http://127.0.0.1:4180/v1/responses/$ID?stream=true&starting_after=7\" -H \"Authorization: Bearer $KEY\"
    curl -X POST http://127.0.0.1:4180/v1/responses/$ID/cancel -H \"Authorization: Bearer $KEY\"
";

const REST: &str = "
## How a response goes on

| request | becomes |
|---|---|
| `previous_response_id` whose thread still stands there | the next turn of that thread |
| one from which another response went on | a turn on a copy of the thread as it stood then |
| one whose thread was made with other instructions, tools, model or effort, or is gone | a new thread that is told everything |
| `conversation` | the same after its last response; one response at a time, another is refused with 409 |
| the items repeated, without an id | the thread that stands at their end, as for chat |
| `function_call_output` for calls of the response before | the very same turn goes on; if it does not wait any more, a new thread is told everything |

`instructions` are for one response alone. Reasoning items that are passed back are passed over: a worker keeps that of its own threads. What
the agent did itself stays on its thread. An item that is only named (`item_reference`) is found as long as its response is kept.

## What comes of a turn

| the worker tells | item |
|---|---|
| a message | `message`, with `phase` where the worker says it |
| a thought, its summaries | `reasoning` with `content`, with `summary` |
| a command, an edit, a search, a tool server's call | a line in the `summary` of a `reasoning` item; with the header `x-switchboard-work: items` a `shell_call` and its `shell_call_output`, an `apply_patch_call`, a `web_search_call`, an `mcp_call` |
| something that a person has to decide | a line in the `summary` of a `reasoning` item, with where to decide it |
| a call of the caller's function | `function_call`; the response is complete, and the turn waits |

There are no events of other types than those of the public API: some clients break on them. A worker does not tell a refusal apart from
any other text, so there are no `refusal` parts: what the model refuses it says in a message. A stream ends with `data: [DONE]`. A failure after the first byte is an `error` event and
`response.failed`, or `response.incomplete` where the provider refuses the content. The end holds everything that was told, and it is stored
before it is told: an end with `store: true` can be retrieved and continued, also after a crash.

## Over a WebSocket

`GET /v1/responses` with `upgrade: websocket` opens a connection for any number of responses, one after the other. Send
`{\"type\":\"response.create\", …}` with the fields of a request beside `type`; `stream` is passed over, `background` refused. The events of a
stream come as text frames, without `[DONE]`. What is refused is `{\"type\":\"error\",\"status\":…,\"error\":{…}}`, with `headers.retry-after`
where waiting helps, and the connection stays open. A second request while one runs is `response_in_progress`.

The connection remembers its newest response, so `previous_response_id` works with `store: false` too; a continuation that fails forgets it,
and a new connection knows nothing of it. `generate: false` gives an empty response to go on from. Closing gives up the response that
runs, unless its turn waits for somebody.

A message is as long as a body may be. A connection lives for `websocket_age_max` (`websocket_connection_limit_reached`), without a response for
`websocket_idle_timeout`, and ends with its key (1008) and with the server (1001). Pings come as often as heartbeats. A
caller that sends more than 100 pings in ten seconds is closed (1008, `too many pings`).

## What is kept

A response belongs to the key that made it; to any other there is none. It is kept for `retention.responses`, and the oldest ones
go first when there are too many, or when they are too long together (`docs/configuration.md`). With `store: false` there is no record of it, and its thread is
forgotten as soon as no function call waits there. One that is deleted while others went on from it is hidden, and goes with them.

While the disk is full or cannot be written (`/healthz` says `degraded`), a response is still answered, but its end says `store: false`: it cannot be
retrieved or continued by its id, not even later. Only the end counts: the events before it repeat what was asked. A request that needs the store is refused with 503 `store_unavailable` and
`retry-after`: `background`, `conversation`, and `previous_response_id` unless the connection remembers that response or `store` is `false`. A background response that ends meanwhile stays
`in_progress` until the store recovers, for 15 minutes at most; then it is `failed` with `store_unavailable`, and its output is lost.
A response that an earlier run of the server left keeps its own end, which is stored as soon as the store recovers.

Of a conversation that another response of it has left the store only a thread can go on that still holds it; a new thread cannot be told, and
the request is refused (`previous_response_not_found`).

A response in the `background` goes on without its caller. Its events can be followed (`?stream=true&starting_after=N`) while it runs and for as long as it is
among the last (`responses_finished_max`, `responses_finished_bytes_max`); of one response the last `response_events_bytes_max`. After a restart its turn may still run, with
`transport = \"unix\"`: then it is `in_progress`, can be cancelled, holds its conversation, and ends as ever, also with a function call; its earlier events cannot be followed any more. Otherwise it has `failed`, and says so. The same
holds for a response whose caller waited for it; one that waits for a person's decision goes on when its caller asks the same again. Whoever follows events when the server stops
hears an `error` with the code `draining` in place of an end, and asks again.

A conversation that was made short (`/v1/responses/compact`) is what its user said and a summary by the model, which callers carry and pass back; its `encrypted_content` is encoded, not encrypted: it is their own conversation. Of conversations, items
cannot be added or deleted one by one.
";

#[test]
fn the_page_is_as_the_code_is() {
    let page = format!("{INTRODUCTION}\n## Parameters\n\n{}{REST}", parameters(TABLE));
    expect_file!["../../../../../docs/responses.md"].assert_eq(&page);
}
