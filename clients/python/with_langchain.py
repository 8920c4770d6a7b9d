"""LangChain's `ChatOpenAI` for Python, told not to ask for `/responses`, as it does if a model's name holds "codex".

| scenario | by |
|---|---|
| text, stream, usage | `invoke`, `stream`, `stream_usage=True` |
| tools, tools_streamed, parallel_tools | `bind_tools` |
| structured | `with_structured_output`, method `json_schema` |
| image | a block `image_url` |
| refused, provider_error, failed_once, retry, cancel | the library's classes, which are also those of `openai` |
| reasoning | cannot: it drops `reasoning_content`, and refers to packages of other providers for it |
"""

import threading

import openai
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

import scenarios as s


def chat(**more):
    settings = {"model": s.MODEL, "api_key": s.KEY, **more}
    return ChatOpenAI(base_url=s.BASE_URL, timeout=s.TIMEOUT_SECONDS, use_responses_api=False, stream_usage=True, **settings)


class Weather(BaseModel):
    """The weather of a place."""

    city: str
    degrees: int


def text():
    answer = chat().invoke(s.SAY)
    assert answer.content == s.SAID and answer.response_metadata["finish_reason"] == "stop", answer


def gathered(chunks):
    whole, *rest = chunks
    for chunk in rest:
        whole += chunk
    return whole


def stream():
    answer = gathered(chat().stream(s.SAY))
    assert answer.content == s.SAID and answer.response_metadata["finish_reason"] == "stop", answer


def usage():
    plain, streamed = chat().invoke(s.SAY).usage_metadata, gathered(chat().stream(s.SAY)).usage_metadata
    assert plain["input_tokens"] > 0 and plain["output_tokens"] > 0, plain
    assert plain["total_tokens"] == plain["input_tokens"] + plain["output_tokens"], plain
    assert plain["input_token_details"]["cache_read"] > 0 and streamed == plain, (streamed, plain)


def tools():
    round_trip(lambda model, messages: model.invoke(messages))


def tools_streamed():
    round_trip(lambda model, messages: gathered(model.stream(messages)))


def round_trip(answered):
    """A call, its result, a call, its result, and the text: three requests, one turn."""
    model = chat().bind_tools([tool(s.lookup)])
    messages = [HumanMessage(s.LOOKUP_PROMPT)]
    with s.one_turn("completed"):
        for number in (1, 2):
            message = answered(model, messages)
            [call] = message.tool_calls
            assert message.response_metadata["finish_reason"] == "tool_calls", message
            assert call["name"] == "lookup" and call["args"] == {"id": number} and call["id"], call
            messages += [message, tool(s.lookup).invoke(call)]
        message = answered(model, messages)
        assert message.content == s.DONE and not message.tool_calls, message
    assert len({message.tool_call_id for message in messages if isinstance(message, ToolMessage)}) == 2


def parallel_tools():
    model = chat().bind_tools([tool(s.ask)])
    messages = [HumanMessage(s.ASK_PROMPT)]
    with s.one_turn("completed"):
        message = gathered(model.stream(messages))
        assert [call["args"]["question"] for call in message.tool_calls] == s.QUESTIONS, message.tool_calls
        messages += [message, *(tool(s.ask).invoke(call) for call in message.tool_calls)]
        assert model.invoke(messages).content == s.DONE


def structured():
    model = chat().with_structured_output(Weather, method="json_schema")
    assert model.invoke(s.WEATHER_PROMPT) == Weather(**s.WEATHER)


def image():
    content = [{"type": "text", "text": s.SEE}, {"type": "image_url", "image_url": {"url": s.picture()}}]
    assert chat().invoke([HumanMessage(content)]).content == s.SEEN


def refused():
    unknown = s.raises(openai.NotFoundError, lambda: chat(model="no-such").invoke("hi"))
    assert unknown.code == "model_not_found", unknown
    wrong = s.raises(openai.BadRequestError, lambda: chat(n=99).invoke("hi"))
    assert wrong.param == "n", wrong


def provider_error():
    limited = s.raises(openai.RateLimitError, lambda: chat().invoke(s.LIMITED))
    assert limited.code == "rate_limit_exceeded", limited
    s.raises(openai.APIError, lambda: list(chat().stream(s.LIMITED)))
    full = s.raises(openai.BadRequestError, lambda: chat().invoke(s.TOO_LONG))
    assert full.code == "context_length_exceeded", full
    s.raises(openai.InternalServerError, lambda: chat().invoke(s.BROKEN))


def failed_once():
    for prompt in (s.LIMITED, s.BROKEN):
        with s.one_turn("failed"):
            s.raises(openai.APIError, lambda: chat().invoke(prompt))
        with s.one_turn("failed"):
            s.raises(openai.APIError, lambda: list(chat().stream(prompt)))


def retry():
    """While the one turn of the narrow key runs, the next request is refused before it has begun; so it is sent again."""
    narrow = chat(api_key=s.NARROW_KEY, max_retries=5)
    held = narrow.stream(s.BRIEF)
    next(held)
    reader = threading.Thread(target=lambda: list(held))
    reader.start()
    s.raises(openai.RateLimitError, lambda: chat(api_key=s.NARROW_KEY, max_retries=0).invoke(s.SAY))
    assert narrow.invoke(s.SAY).content == s.SAID
    reader.join()


def cancel():
    with s.one_turn("interrupted"):
        chunks = chat().stream(s.LONG)
        while not next(chunks).content:
            pass
        assert s.running() == 1
        chunks.close()


s.play(
    [text, stream, usage, tools, tools_streamed, parallel_tools, structured, image, refused, provider_error,
     failed_once, retry, cancel],
    cannot={"reasoning": "drops reasoning_content"},
)
