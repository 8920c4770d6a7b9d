"""OpenAI's own library for Python, in two major versions.

| scenario | by |
|---|---|
| text, stream, usage | `chat.completions.create` |
| tools, tools_streamed | `create`; `stream`, which puts the pieces of a call together |
| parallel_tools, image, reasoning | `create`, plain and streamed |
| structured | `parse` with a model of pydantic |
| refused, provider_error, failed_once, retry, cancel | the library's own classes and retries |
"""

import threading

import openai
from pydantic import BaseModel

import scenarios as s

client = openai.OpenAI(base_url=s.BASE_URL, api_key=s.KEY, timeout=s.TIMEOUT_SECONDS)


class Weather(BaseModel):
    city: str
    degrees: int


def user(content):
    return {"role": "user", "content": content}


def create(content, **more):
    return client.chat.completions.create(model=s.MODEL, messages=[user(content)], **more)


def text():
    answer = create(s.SAY)
    [choice] = answer.choices
    assert choice.message.content == s.SAID, choice
    assert choice.message.role == "assistant" and choice.finish_reason == "stop", choice
    assert answer.object == "chat.completion" and answer.model == s.MODEL and answer.id, answer
    assert answer._request_id, "no x-request-id"


def stream():
    chunks = list(create(s.SAY, stream=True))
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    assert len({(chunk.id, chunk.created, chunk.model) for chunk in chunks}) == 1, "the head of a chunk changes"
    choices = [chunk.choices[0] for chunk in chunks]
    assert choices[0].delta.role == "assistant"
    assert "".join(choice.delta.content or "" for choice in choices) == s.SAID
    assert [choice.finish_reason for choice in choices if choice.finish_reason] == ["stop"]
    assert choices[-1].finish_reason == "stop" and all(chunk.usage is None for chunk in chunks)


def usage():
    plain = create(s.SAY).usage
    *chunks, last = create(s.SAY, stream=True, stream_options={"include_usage": True})
    assert last.choices == [] and all(chunk.usage is None for chunk in chunks)
    for counted in (plain, last.usage):
        assert counted.prompt_tokens > 0 and counted.completion_tokens > 0, counted
        assert counted.total_tokens == counted.prompt_tokens + counted.completion_tokens, counted
        assert 0 < counted.prompt_tokens_details.cached_tokens <= counted.prompt_tokens, counted
    assert last.usage == plain, (last.usage, plain)


def tools():
    def answered(messages):
        [choice] = client.chat.completions.create(model=s.MODEL, messages=messages, tools=[s.function(s.lookup)]).choices
        return choice.message, choice.finish_reason

    round_trip(answered)


def tools_streamed():
    def answered(messages):
        offered = [s.function(s.lookup)]
        with client.chat.completions.stream(model=s.MODEL, messages=messages, tools=offered) as events:
            [choice] = events.get_final_completion().choices
        return choice.message, choice.finish_reason

    round_trip(answered)


def round_trip(answered):
    """A call, its result, a call, its result, and the text: three requests, one turn."""
    messages = [user(s.LOOKUP_PROMPT)]
    with s.one_turn("completed"):
        ids = []
        for number in (1, 2):
            message, reason = answered(messages)
            [call] = message.tool_calls
            assert reason == "tool_calls" and call.type == "function" and call.function.name == "lookup", call
            assert call.function.arguments == f'{{"id":{number}}}', call.function.arguments
            ids.append(call.id)
            messages += [
                {"role": "assistant", "content": message.content, "tool_calls": [sent_back(call)]},
                {"role": "tool", "tool_call_id": call.id, "content": s.lookup(number)},
            ]
        message, reason = answered(messages)
        assert (message.content, reason, message.tool_calls or []) == (s.DONE, "stop", []), message
    assert len(set(ids)) == 2, ids


def sent_back(call):
    function = {"name": call.function.name, "arguments": call.function.arguments}
    return {"id": call.id, "type": "function", "function": function}


def parallel_tools():
    messages, offered = [user(s.ASK_PROMPT)], [s.function(s.ask)]
    with s.one_turn("completed"):
        pieces = {}
        for chunk in client.chat.completions.create(model=s.MODEL, messages=messages, tools=offered, stream=True):
            for piece in chunk.choices[0].delta.tool_calls or []:
                pieces.setdefault(piece.index, []).append(piece)
        assert sorted(pieces) == [0, 1], pieces
        calls = []
        for first, *rest in (pieces[index] for index in (0, 1)):
            assert first.id and first.type == "function" and first.function.name == "ask", first
            assert not any(piece.id or piece.function.name for piece in rest), rest
            arguments = "".join(piece.function.arguments or "" for piece in (first, *rest))
            calls.append({"id": first.id, "type": "function", "function": {"name": "ask", "arguments": arguments}})
        assert [call["function"]["arguments"] for call in calls] == [f'{{"question":"{q}"}}' for q in s.QUESTIONS], calls
        # The results need not come in the order of the calls.
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": s.ask(question)}
            for call, question in zip(calls, s.QUESTIONS)
        ]
        messages += [{"role": "assistant", "content": None, "tool_calls": calls}, *reversed(results)]
        answer = client.chat.completions.create(model=s.MODEL, messages=messages, tools=offered)
        assert answer.choices[0].message.content == s.DONE, answer


def structured():
    asked = {"model": s.MODEL, "messages": [user(s.WEATHER_PROMPT)], "response_format": Weather}
    plain = client.chat.completions.parse(**asked).choices[0].message
    with client.chat.completions.stream(**asked) as events:
        streamed = events.get_final_completion().choices[0].message
    assert plain.parsed == streamed.parsed == Weather(**s.WEATHER), (plain, streamed)


def image():
    content = [{"type": "text", "text": s.SEE}, {"type": "image_url", "image_url": {"url": s.picture()}}]
    assert create(content).choices[0].message.content == s.SEEN


def reasoning():
    plain = create(s.REASON, reasoning_effort="high")
    message = plain.choices[0].message
    assert message.content == s.REASONED and s.REASONING in message.reasoning_content, message
    assert plain.usage.completion_tokens_details.reasoning_tokens > 0, plain.usage
    deltas = [chunk.choices[0].delta for chunk in create(s.REASON, stream=True)]
    thought = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)
    assert thought == message.reasoning_content, thought
    assert "".join(delta.content or "" for delta in deltas) == s.REASONED


def refused():
    unknown = s.raises(openai.NotFoundError, lambda: client.chat.completions.create(model="no-such", messages=[user("hi")]))
    assert unknown.code == "model_not_found", unknown
    wrong = s.raises(openai.BadRequestError, lambda: create("hi", n=99))
    assert wrong.param == "n" and wrong.type == "invalid_request_error", wrong
    nested = s.raises(openai.BadRequestError, lambda: client.chat.completions.create(
        model=s.MODEL, messages=[user("hi"), {"role": "nobody", "content": "hi"}]))
    assert nested.param == "messages[1].role", nested
    stranger = openai.OpenAI(base_url=s.BASE_URL, api_key="wrong")
    s.raises(openai.AuthenticationError, stranger.models.list)
    assert s.MODEL in [model.id for model in client.models.list()]


def provider_error():
    limited = s.raises(openai.RateLimitError, lambda: create(s.LIMITED))
    assert limited.code == "rate_limit_exceeded", limited
    streamed = s.raises(openai.APIError, lambda: list(create(s.LIMITED, stream=True)))
    assert streamed.code == "rate_limit_exceeded", streamed.body
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
    narrow = openai.OpenAI(base_url=s.BASE_URL, api_key=s.NARROW_KEY, timeout=s.TIMEOUT_SECONDS, max_retries=5)

    def asked(client, content, **more):
        return client.chat.completions.create(model=s.MODEL, messages=[user(content)], **more)

    held = asked(narrow, s.BRIEF, stream=True)
    next(held)
    reader = threading.Thread(target=lambda: list(held))
    reader.start()
    busy = s.raises(openai.RateLimitError, lambda: asked(narrow.with_options(max_retries=0), s.SAY))
    assert int(busy.response.headers["retry-after"]) >= 1, busy.response.headers
    assert asked(narrow, s.SAY).choices[0].message.content == s.SAID
    reader.join()


def cancel():
    with s.one_turn("interrupted"):
        chunks = create(s.LONG, stream=True)
        while not next(chunks).choices[0].delta.content:
            pass
        assert s.running() == 1
        chunks.close()


s.play(
    [text, stream, usage, tools, tools_streamed, parallel_tools, structured, image, reasoning, refused, provider_error,
     failed_once, retry, cancel],
    cannot={},
)
