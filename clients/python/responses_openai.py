"""OpenAI's own library for Python, in two major versions, on the Responses API.

| scenario | by |
|---|---|
| text, usage, image, multi_turn | `responses.create` |
| stream, reasoning | `create` with `stream`, event by event, and the helper `responses.stream` |
| tools, tools_repeated | `create` with `previous_response_id`, or with all items again |
| tools_streamed, parallel_tools | the same by the helper, which puts the pieces of a call together |
| structured | `responses.parse` with a model of pydantic |
| retrieve, input_items, delete | the calls of that name |
| background, resumed, cancelled | `background=True` with `retrieve`, `retrieve(stream=True, starting_after=N)`, `cancel` |
| owned | another key |
| refused, provider_error, failed_once, retry, cancel | the library's own classes and retries |
"""

import threading

import openai
from pydantic import BaseModel

import scenarios as s

client = openai.OpenAI(base_url=s.BASE_URL, api_key=s.KEY, timeout=s.TIMEOUT_SECONDS)
narrow = openai.OpenAI(base_url=s.BASE_URL, api_key=s.NARROW_KEY, timeout=s.TIMEOUT_SECONDS, max_retries=5)
responses = client.responses


class Weather(BaseModel):
    city: str
    degrees: int


def create(content, **more):
    return responses.create(model=s.MODEL, input=content, **more)


def helped(content, **more):
    """What the helper for streams makes of its events."""
    with responses.stream(model=s.MODEL, input=content, **more) as events:
        return events.get_final_response()


def output(call, text):
    return {"type": "function_call_output", "call_id": call.call_id, "output": text}


def calls_of(answer):
    return [item for item in answer.output if item.type == "function_call"]


def text():
    answer = create(s.SAY, metadata={"ticket": "7"})
    assert answer.output_text == s.SAID and answer.status == "completed", answer
    assert answer.object == "response" and answer.model == s.MODEL and answer.id.startswith("resp_"), answer
    assert answer.metadata == {"ticket": "7"} and answer.error is None, answer
    assert answer._request_id, "no x-request-id"


def stream():
    events = list(create(s.SAY, stream=True))
    names = [event.type for event in events]
    assert [event.sequence_number for event in events] == list(range(len(events))), events
    assert names[:2] == ["response.created", "response.in_progress"] and names[-1] == "response.completed", names
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == s.SAID
    assert events[-1].response.output_text == s.SAID
    answer = helped(s.SAY)
    assert answer.output_text == s.SAID and answer.status == "completed", answer


def usage():
    plain, streamed = create(s.SAY).usage, helped(s.SAY).usage
    assert plain.input_tokens > 0 and plain.output_tokens > 0, plain
    assert plain.total_tokens == plain.input_tokens + plain.output_tokens, plain
    assert 0 < plain.input_tokens_details.cached_tokens <= plain.input_tokens, plain
    assert plain == streamed, (plain, streamed)


def tools():
    """A call, its result, a call, its result, and the text: three requests, one turn."""
    by_previous(create)


def tools_streamed():
    by_previous(helped)


def by_previous(answered):
    asked, previous, ids = s.LOOKUP_PROMPT, None, set()
    with s.one_turn("completed"):
        for number in (1, 2):
            answer = answered(asked, previous_response_id=previous, tools=[s.flat_function(s.lookup)])
            call = the_call(answer, number)
            ids.add(call.call_id)
            asked, previous = [output(call, s.lookup(number))], answer.id
        answer = answered(asked, previous_response_id=previous, tools=[s.flat_function(s.lookup)])
        assert answer.output_text == s.DONE and not calls_of(answer), answer
        assert answer.previous_response_id == previous, answer
    assert len(ids) == 2, ids


def tools_repeated():
    """The same, but every request repeats what was said."""
    items = [{"role": "user", "content": s.LOOKUP_PROMPT}]
    with s.one_turn("completed"):
        for number in (1, 2):
            answer = create(items, tools=[s.flat_function(s.lookup)])
            call = the_call(answer, number)
            items += [item.model_dump(exclude_none=True) for item in answer.output] + [output(call, s.lookup(number))]
        assert create(items, tools=[s.flat_function(s.lookup)]).output_text == s.DONE


def the_call(answer, number):
    [call] = calls_of(answer)
    assert answer.status == "completed" and call.status == "completed" and call.name == "lookup", answer
    assert call.arguments == f'{{"id":{number}}}', call
    return call


def parallel_tools():
    offered = [s.flat_function(s.ask)]
    with s.one_turn("completed"):
        first = helped(s.ASK_PROMPT, tools=offered)
        calls = calls_of(first)
        assert [call.arguments for call in calls] == [f'{{"question":"{q}"}}' for q in s.QUESTIONS], calls
        # The results need not come in the order of the calls.
        results = [output(call, s.ask(question)) for call, question in zip(calls, s.QUESTIONS)]
        answer = create(list(reversed(results)), previous_response_id=first.id, tools=offered)
        assert answer.output_text == s.DONE, answer


def structured():
    plain = responses.parse(model=s.MODEL, input=s.WEATHER_PROMPT, text_format=Weather)
    streamed = helped(s.WEATHER_PROMPT, text_format=Weather)
    assert plain.output_parsed == streamed.output_parsed == Weather(**s.WEATHER), (plain, streamed)


def image():
    content = [{"type": "input_text", "text": s.SEE}, {"type": "input_image", "image_url": s.picture(), "detail": "auto"}]
    assert create([{"role": "user", "content": content}]).output_text == s.SEEN


def reasoning():
    plain = create(s.REASON, reasoning={"effort": "high", "summary": "auto"})
    assert plain.output_text == s.REASONED and plain.usage.output_tokens_details.reasoning_tokens > 0, plain
    assert s.REASONING in thought(plain), plain
    events = list(create(s.REASON, stream=True))
    deltas = [event.delta for event in events if event.type == "response.reasoning_summary_text.delta"]
    assert "".join(deltas) == thought(plain), deltas
    answer = helped(s.REASON)
    assert thought(answer) == thought(plain) and answer.output_text == s.REASONED, answer
    # What it thought may be said back to it.
    items = [{"role": "user", "content": s.REASON}, *answer.output, {"role": "user", "content": s.SAY}]
    assert create(items).output_text == s.SAID


def thought(answer):
    return "".join(part.text for item in answer.output if item.type == "reasoning" for part in item.summary)


def multi_turn():
    """The next response is on the thread of the first, and a second next one on a copy of it."""
    first = create(s.SAY)
    second = create(s.SAY, previous_response_id=first.id, instructions="Be brief.")
    again = create(s.SAY, previous_response_id=first.id)
    items = [{"role": "user", "content": s.SAY}, *again.output, {"role": "user", "content": s.SAY}]
    assert [answer.output_text for answer in (second, again, create(items))] == [s.SAID] * 3
    assert len({first.id, second.id, again.id}) == 3
    lost = s.raises(openai.BadRequestError, lambda: create(s.SAY, previous_response_id="resp_none"))
    assert lost.code == "previous_response_not_found", lost


def retrieve():
    answer = create(s.SAY)
    assert responses.retrieve(answer.id).model_dump() == answer.model_dump()
    plain = s.raises(openai.BadRequestError, lambda: list(responses.retrieve(answer.id, stream=True)))
    assert plain.param == "stream", plain
    s.raises(openai.NotFoundError, lambda: responses.retrieve("resp_none"))
    unkept = create(s.SAY, store=False)
    assert unkept.output_text == s.SAID and unkept.store is False, unkept
    s.raises(openai.NotFoundError, lambda: responses.retrieve(unkept.id))


def input_items():
    said = [{"role": "user", "content": f"{number} {s.SAY}"} for number in range(3)]
    answer = create(said)
    # A page holds two, so that there are two of them.
    items = list(responses.input_items.list(answer.id, order="asc", limit=2))
    assert [item.content[0].text for item in items] == [message["content"] for message in said], items
    assert len({item.id for item in items}) == 3 and {item.type for item in items} == {"message"}, items


def delete():
    answer = create(s.SAY)
    responses.delete(answer.id)
    s.raises(openai.NotFoundError, lambda: responses.retrieve(answer.id))
    s.raises(openai.NotFoundError, lambda: responses.delete(answer.id))


def background():
    begun = create(s.BRIEF, background=True)
    assert begun.status in ("queued", "in_progress") and begun.background, begun
    ended = s.awaited(lambda: responses.retrieve(begun.id), lambda now: now.status not in ("queued", "in_progress"))
    assert ended.status == "completed" and ended.output_text == s.BRIEFLY, ended
    broken = create(s.BROKEN, background=True)
    ended = s.awaited(lambda: responses.retrieve(broken.id), lambda now: now.status not in ("queued", "in_progress"))
    assert ended.status == "failed" and ended.error.message, ended


def resumed():
    """A stream that is left goes on, and is read from where it was left."""
    begun, seen = None, []
    events = create(s.BRIEF, background=True, stream=True)
    for event in events:
        seen.append(event)
        begun = begun or event.response.id
        if event.type == "response.output_text.delta":
            break
    events.close()
    seen += responses.retrieve(begun, stream=True, starting_after=seen[-1].sequence_number)
    assert [event.sequence_number for event in seen] == list(range(len(seen))), seen
    assert "".join(event.delta for event in seen if event.type == "response.output_text.delta") == s.BRIEFLY
    assert seen[-1].type == "response.completed" and seen[-1].response.output_text == s.BRIEFLY, seen[-1]
    with responses.stream(response_id=begun) as again:
        assert again.get_final_response().output_text == s.BRIEFLY


def cancelled():
    with s.one_turn("interrupted"):
        begun = create(s.LONG, background=True)
        s.until("its turn runs", lambda: s.running() == 1)
        assert responses.cancel(begun.id).status == "cancelled"
    assert responses.cancel(begun.id).status == "cancelled"
    assert responses.retrieve(begun.id).status == "cancelled"
    foreground = create(s.SAY)
    s.raises(openai.BadRequestError, lambda: responses.cancel(foreground.id))


def owned():
    """To another key there is no such response."""
    answer = create(s.SAY)
    for act in (narrow.responses.retrieve, narrow.responses.cancel, narrow.responses.delete,
                lambda id: list(narrow.responses.input_items.list(id))):
        s.raises(openai.NotFoundError, lambda: act(answer.id))
    lost = s.raises(openai.BadRequestError, lambda: narrow.responses.create(
        model=s.MODEL, input=s.SAY, previous_response_id=answer.id))
    assert lost.code == "previous_response_not_found", lost
    assert responses.retrieve(answer.id).output_text == s.SAID


def refused():
    unknown = s.raises(openai.NotFoundError, lambda: responses.create(model="no-such", input="hi"))
    assert unknown.code == "model_not_found", unknown
    wrong = s.raises(openai.BadRequestError, lambda: create("hi", metadata={"ticket": 7}))
    assert wrong.param == "metadata.ticket" and wrong.type == "invalid_request_error", wrong
    nested = s.raises(openai.BadRequestError, lambda: create([{"role": "nobody", "content": "hi"}]))
    assert nested.param == "input[0].role", nested
    hosted = s.raises(openai.BadRequestError, lambda: create("hi", tools=[{"type": "code_interpreter", "container": "c"}]))
    assert hosted.param == "tools[0].type", hosted


def provider_error():
    limited = s.raises(openai.RateLimitError, lambda: create(s.LIMITED))
    assert limited.code == "rate_limit_exceeded", limited
    for streamed in (lambda: list(create(s.LIMITED, stream=True)), lambda: helped(s.LIMITED)):
        error = s.raises(openai.APIError, streamed)
        assert error.code == "rate_limit_exceeded", error.body
    full = s.raises(openai.BadRequestError, lambda: create(s.TOO_LONG))
    assert full.code == "context_length_exceeded", full
    s.raises(openai.InternalServerError, lambda: create(s.BROKEN))


def failed_once():
    """The library sends again what failed, but not what has begun to run."""
    for prompt in (s.LIMITED, s.BROKEN):
        for more in ({}, {"stream": True}):
            with s.one_turn("failed"):
                s.raises(openai.APIError, lambda: list(create(prompt, **more)))


def retry():
    """While the one turn of the narrow key runs, the next request is refused before it has begun; so it is sent again."""
    def asked(client, content, **more):
        return client.responses.create(model=s.MODEL, input=content, **more)

    held = asked(narrow, s.BRIEF, stream=True)
    next(held)
    reader = threading.Thread(target=lambda: list(held))
    reader.start()
    busy = s.raises(openai.RateLimitError, lambda: asked(narrow.with_options(max_retries=0), s.SAY))
    assert int(busy.response.headers["retry-after"]) >= 1, busy.response.headers
    assert asked(narrow, s.SAY).output_text == s.SAID
    reader.join()


def cancel():
    with s.one_turn("interrupted"):
        events = create(s.LONG, stream=True)
        while next(events).type != "response.output_text.delta":
            pass
        assert s.running() == 1
        events.close()


s.play(
    [text, stream, usage, tools, tools_repeated, tools_streamed, parallel_tools, structured, image, reasoning,
     multi_turn, retrieve, input_items, delete, background, resumed, cancelled, owned, refused, provider_error,
     failed_once, retry, cancel],
    cannot={},
)
