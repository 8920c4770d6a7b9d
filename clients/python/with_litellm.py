"""litellm, the library (not its proxy).

| scenario | by |
|---|---|
| text, stream, usage, reasoning | `completion` |
| tools, tools_streamed, parallel_tools | `completion`; pieces put together by `stream_chunk_builder` |
| structured | `completion` with a model of pydantic as `response_format` |
| image | a part `image_url` |
| refused, provider_error, failed_once, retry | litellm's own classes; `max_retries` is given to OpenAI's library below |
| cancel | `close` of the stream of OpenAI's library below: litellm's own has only `aclose`, for asynchronous use |
"""

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the network for prices

import threading

import litellm
from pydantic import BaseModel

import scenarios as s

litellm.suppress_debug_info = True


class Weather(BaseModel):
    city: str
    degrees: int


def complete(messages, **more):
    if isinstance(messages, (str, list)) and not (isinstance(messages, list) and "role" in messages[0]):
        messages = [{"role": "user", "content": messages}]
    settings = {"model": f"openai/{s.MODEL}", "api_key": s.KEY, "timeout": s.TIMEOUT_SECONDS, **more}
    return litellm.completion(messages=messages, api_base=s.BASE_URL, **settings)


def streamed(messages, **more):
    return litellm.stream_chunk_builder(list(complete(messages, stream=True, **more)), messages=[])


def text():
    [choice] = complete(s.SAY).choices
    assert (choice.message.content, choice.finish_reason) == (s.SAID, "stop"), choice


def stream():
    chunks = list(complete(s.SAY, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == s.SAID
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices[0].finish_reason] == ["stop"]


def usage():
    plain = complete(s.SAY).usage
    *_, last = complete(s.SAY, stream=True, stream_options={"include_usage": True})
    for counted in (plain, last.usage):
        assert counted.prompt_tokens > 0 and counted.completion_tokens > 0, counted
        assert counted.total_tokens == counted.prompt_tokens + counted.completion_tokens, counted
        assert counted.prompt_tokens_details.cached_tokens > 0, counted
    assert last.usage.total_tokens == plain.total_tokens, (last.usage, plain)


def tools():
    round_trip(complete)


def tools_streamed():
    round_trip(streamed)


def round_trip(answered):
    """A call, its result, a call, its result, and the text: three requests, one turn."""
    messages = [{"role": "user", "content": s.LOOKUP_PROMPT}]
    with s.one_turn("completed"):
        ids = []
        for number in (1, 2):
            [choice] = answered(messages, tools=[s.function(s.lookup)]).choices
            [call] = choice.message.tool_calls
            assert choice.finish_reason == "tool_calls" and call.function.name == "lookup", choice
            assert call.function.arguments == f'{{"id":{number}}}', call
            ids.append(call.id)
            result = {"role": "tool", "tool_call_id": call.id, "content": s.lookup(number)}
            messages += [choice.message.model_dump(exclude_none=True), result]
        [choice] = answered(messages, tools=[s.function(s.lookup)]).choices
        assert (choice.message.content, choice.finish_reason) == (s.DONE, "stop"), choice
    assert len(set(ids)) == 2, ids


def parallel_tools():
    messages = [{"role": "user", "content": s.ASK_PROMPT}]
    with s.one_turn("completed"):
        message = streamed(messages, tools=[s.function(s.ask)]).choices[0].message
        asked = [call.function.arguments for call in message.tool_calls]
        assert asked == [f'{{"question":"{question}"}}' for question in s.QUESTIONS], message.tool_calls
        messages.append(message.model_dump(exclude_none=True))
        for call, question in zip(message.tool_calls, s.QUESTIONS):
            messages.append({"role": "tool", "tool_call_id": call.id, "content": s.ask(question)})
        assert complete(messages, tools=[s.function(s.ask)]).choices[0].message.content == s.DONE


def structured():
    answer = complete(s.WEATHER_PROMPT, response_format=Weather).choices[0].message.content
    assert Weather.model_validate_json(answer) == Weather(**s.WEATHER)


def image():
    content = [{"type": "text", "text": s.SEE}, {"type": "image_url", "image_url": {"url": s.picture()}}]
    assert complete(content).choices[0].message.content == s.SEEN


def reasoning():
    for message in (complete(s.REASON).choices[0].message, streamed(s.REASON).choices[0].message):
        assert message.content == s.REASONED and s.REASONING in message.reasoning_content, message


def refused():
    s.raises(litellm.NotFoundError, lambda: complete("hi", model="openai/no-such"))
    wrong = s.raises(litellm.BadRequestError, lambda: complete("hi", n=99))
    assert wrong.body["param"] == "n", wrong.body
    s.raises(litellm.AuthenticationError, lambda: complete("hi", api_key="wrong"))


def provider_error():
    s.raises(litellm.RateLimitError, lambda: complete(s.LIMITED))
    s.raises(litellm.exceptions.MidStreamFallbackError, lambda: list(complete(s.LIMITED, stream=True)))
    s.raises(litellm.ContextWindowExceededError, lambda: complete(s.TOO_LONG))
    s.raises((litellm.InternalServerError, litellm.BadGatewayError), lambda: complete(s.BROKEN))


def failed_once():
    for prompt in (s.LIMITED, s.BROKEN):
        for more in ({}, {"stream": True}):
            with s.one_turn("failed"):
                s.raises(Exception, lambda: list(complete(prompt, **more)))


def retry():
    """While the one turn of the narrow key runs, the next request is refused before it has begun; so it is sent again."""
    held = complete(s.BRIEF, stream=True, api_key=s.NARROW_KEY)
    next(held)
    reader = threading.Thread(target=lambda: list(held))
    reader.start()
    s.raises(litellm.RateLimitError, lambda: complete(s.SAY, api_key=s.NARROW_KEY, max_retries=0))
    assert complete(s.SAY, api_key=s.NARROW_KEY, max_retries=5).choices[0].message.content == s.SAID
    reader.join()


def cancel():
    with s.one_turn("interrupted"):
        chunks = complete(s.LONG, stream=True)
        while not next(chunks).choices[0].delta.content:
            pass
        assert s.running() == 1
        chunks.completion_stream.close()


s.play(
    [text, stream, usage, tools, tools_streamed, parallel_tools, structured, image, reasoning, refused, provider_error,
     failed_once, retry, cancel],
    cannot={},
)
