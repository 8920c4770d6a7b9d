"""LangChain's `ChatOpenAI` for Python on the Responses API, which it asks for by itself if a model's name holds "codex".

| scenario | by |
|---|---|
| text, stream, usage, reasoning | `invoke`, `stream` |
| tools, tools_streamed, parallel_tools | `bind_tools` and `use_previous_response_id=True`: only what is new is sent |
| tools_repeated | the same without it, so that all items are sent again |
| structured | `with_structured_output`, method `json_schema` |
| image | a block `image_url` |
| multi_turn, owned | `previous_response_id` |
| refused, provider_error, failed_once, retry, cancel | the library's classes, which are also those of `openai` |
| retrieve, input_items, delete, background, resumed, cancelled | cannot: it only creates responses |
"""

import threading

import openai
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

import scenarios as s


def chat(**more):
    settings = {"model": s.MODEL, "api_key": s.KEY, "output_version": "responses/v1", **more}
    return ChatOpenAI(base_url=s.BASE_URL, timeout=s.TIMEOUT_SECONDS, use_responses_api=True, **settings)


class Weather(BaseModel):
    """The weather of a place."""

    city: str
    degrees: int


def text():
    answer = chat().invoke(s.SAY)
    assert answer.text == s.SAID and answer.response_metadata["status"] == "completed", answer
    assert answer.response_metadata["id"].startswith("resp_"), answer


def gathered(chunks):
    whole, *rest = chunks
    for chunk in rest:
        whole += chunk
    return whole


def stream():
    chunks = list(chat().stream(s.SAY))
    assert "".join(chunk.text for chunk in chunks) == s.SAID, chunks
    answer = gathered(chunks)
    assert answer.text == s.SAID and answer.response_metadata["status"] == "completed", answer


def usage():
    plain, streamed = chat().invoke(s.SAY).usage_metadata, gathered(chat().stream(s.SAY)).usage_metadata
    assert plain["input_tokens"] > 0 and plain["output_tokens"] > 0, plain
    assert plain["total_tokens"] == plain["input_tokens"] + plain["output_tokens"], plain
    assert plain["input_token_details"]["cache_read"] > 0 and streamed == plain, (streamed, plain)


def tools():
    round_trip(lambda model, messages: model.invoke(messages), use_previous_response_id=True)


def tools_repeated():
    round_trip(lambda model, messages: model.invoke(messages))


def tools_streamed():
    round_trip(lambda model, messages: gathered(model.stream(messages)), use_previous_response_id=True)


def round_trip(answered, **more):
    """A call, its result, a call, its result, and the text: three requests, one turn."""
    model = chat(**more).bind_tools([tool(s.lookup)])
    messages = [HumanMessage(s.LOOKUP_PROMPT)]
    with s.one_turn("completed"):
        for number in (1, 2):
            message = answered(model, messages)
            [call] = message.tool_calls
            assert call["name"] == "lookup" and call["args"] == {"id": number} and call["id"], call
            messages += [message, tool(s.lookup).invoke(call)]
        message = answered(model, messages)
        assert message.text == s.DONE and not message.tool_calls, message
    assert len({message.tool_call_id for message in messages if isinstance(message, ToolMessage)}) == 2


def parallel_tools():
    model = chat(use_previous_response_id=True).bind_tools([tool(s.ask)])
    messages = [HumanMessage(s.ASK_PROMPT)]
    with s.one_turn("completed"):
        message = gathered(model.stream(messages))
        assert [call["args"]["question"] for call in message.tool_calls] == s.QUESTIONS, message.tool_calls
        messages += [message, *(tool(s.ask).invoke(call) for call in message.tool_calls)]
        assert model.invoke(messages).text == s.DONE


def structured():
    model = chat().with_structured_output(Weather, method="json_schema")
    assert model.invoke(s.WEATHER_PROMPT) == Weather(**s.WEATHER)


def image():
    content = [{"type": "text", "text": s.SEE}, {"type": "image_url", "image_url": {"url": s.picture()}}]
    assert chat().invoke([HumanMessage(content)]).text == s.SEEN


def reasoning():
    plain = chat(reasoning={"effort": "high", "summary": "auto"}).invoke(s.REASON)
    assert plain.text == s.REASONED and s.REASONING in thought(plain), plain
    streamed = gathered(chat().stream(s.REASON))
    assert streamed.text == s.REASONED and thought(streamed) == thought(plain), streamed
    assert plain.usage_metadata["output_token_details"]["reasoning"] > 0, plain
    # What it thought may be said back to it.
    assert chat().invoke([HumanMessage(s.REASON), streamed, HumanMessage(s.SAY)]).text == s.SAID


def thought(message):
    blocks = [block for block in message.content if block["type"] == "reasoning"]
    return "".join(part["text"] for block in blocks for part in block["summary"])


def multi_turn():
    first = chat().invoke(s.SAY)
    id = first.response_metadata["id"]
    second = chat().invoke(s.SAY, previous_response_id=id)
    kept = chat(use_previous_response_id=True).invoke([HumanMessage(s.SAY), first, HumanMessage(s.SAY)])
    told = chat().invoke([HumanMessage(s.SAY), first, HumanMessage(s.SAY)])
    assert [answer.text for answer in (second, kept, told)] == [s.SAID] * 3


def owned():
    answer = chat().invoke(s.SAY)
    others = chat(api_key=s.NARROW_KEY)
    lost = s.raises(openai.BadRequestError, lambda: others.invoke(s.SAY, previous_response_id=answer.response_metadata["id"]))
    assert lost.code == "previous_response_not_found", lost


def refused():
    unknown = s.raises(openai.NotFoundError, lambda: chat(model="no-such").invoke("hi"))
    assert unknown.code == "model_not_found", unknown
    hosted = chat().bind_tools([{"type": "code_interpreter", "container": "c"}])
    wrong = s.raises(openai.BadRequestError, lambda: hosted.invoke("hi"))
    assert wrong.param == "tools[0].type", wrong


def provider_error():
    limited = s.raises(openai.RateLimitError, lambda: chat().invoke(s.LIMITED))
    assert limited.code == "rate_limit_exceeded", limited
    streamed = s.raises(openai.APIError, lambda: list(chat().stream(s.LIMITED)))
    assert streamed.code == "rate_limit_exceeded", streamed.body
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
    assert narrow.invoke(s.SAY).text == s.SAID
    reader.join()


def cancel():
    with s.one_turn("interrupted"):
        chunks = chat().stream(s.LONG)
        while not next(chunks).text:
            pass
        assert s.running() == 1
        chunks.close()


s.play(
    [text, stream, usage, tools, tools_repeated, tools_streamed, parallel_tools, structured, image, reasoning,
     multi_turn, owned, refused, provider_error, failed_once, retry, cancel],
    cannot=dict.fromkeys(
        ["retrieve", "input_items", "delete", "background", "resumed", "cancelled"], "it only creates responses"),
)
