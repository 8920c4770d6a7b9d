"""LlamaIndex's `OpenAILike`.

| scenario | by |
|---|---|
| text, stream, usage, reasoning | `chat` and `stream_chat` |
| tools, tools_streamed, parallel_tools | `chat_with_tools`, `stream_chat_with_tools` |
| structured | `structured_predict` with `should_use_structured_outputs` |
| image | an `ImageBlock` |
| refused, provider_error, retry | the classes of `openai`; LlamaIndex retries by itself, by its `max_retries` |
| cancel | `close` of the connection, which is its `http_client`: to close a stream leaves its request running |
| failed_once | cannot: its own retries know nothing of `x-should-retry`, so that a turn which failed is run again |
"""

import base64
import threading

import httpx
import openai
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, MessageRole, TextBlock, ThinkingBlock
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from pydantic import BaseModel

import scenarios as s


def chat(**more):
    settings = {"model": s.MODEL, "api_key": s.KEY, "max_retries": 0, **more}
    return OpenAILike(
        api_base=s.BASE_URL,
        timeout=s.TIMEOUT_SECONDS,
        is_chat_model=True,
        is_function_calling_model=True,
        should_use_structured_outputs=True,
        **settings,
    )


class Weather(BaseModel):
    city: str
    degrees: int


def user(content):
    return ChatMessage(role=MessageRole.USER, content=content)


def last(stream):
    """The last of a stream holds all that came before."""
    *_, whole = stream
    return whole


def text():
    answer = chat().chat([user(s.SAY)])
    assert answer.message.content == s.SAID and answer.raw.choices[0].finish_reason == "stop", answer


def stream():
    pieces = list(chat().stream_chat([user(s.SAY)]))
    assert "".join(piece.delta for piece in pieces) == pieces[-1].message.content == s.SAID, pieces
    assert pieces[-1].raw.choices[0].finish_reason == "stop"


def usage():
    plain = chat().chat([user(s.SAY)]).raw.usage
    asked = {"stream_options": {"include_usage": True}}
    streamed = last(chat(additional_kwargs=asked).stream_chat([user(s.SAY)])).raw.usage
    assert plain.prompt_tokens > 0 and plain.completion_tokens > 0, plain
    assert plain.total_tokens == plain.prompt_tokens + plain.completion_tokens and streamed == plain, (streamed, plain)


def tools():
    round_trip(lambda model, tool, history: model.chat_with_tools([tool], chat_history=history))


def tools_streamed():
    round_trip(lambda model, tool, history: last(model.stream_chat_with_tools([tool], chat_history=history)))


def round_trip(answered):
    """A call, its result, a call, its result, and the text: three requests, one turn."""
    model, tool = chat(), FunctionTool.from_defaults(s.lookup)
    history = [user(s.LOOKUP_PROMPT)]
    with s.one_turn("completed"):
        ids = []
        for number in (1, 2):
            answer = answered(model, tool, history)
            [call] = model.get_tool_calls_from_response(answer)
            assert call.tool_name == "lookup" and call.tool_kwargs == {"id": number}, call
            ids.append(call.tool_id)
            history += [answer.message, result(call, s.lookup(number))]
        answer = answered(model, tool, history)
        assert answer.message.content == s.DONE, answer
    assert len(set(ids)) == 2, ids


def result(call, content):
    return ChatMessage(role=MessageRole.TOOL, content=content, additional_kwargs={"tool_call_id": call.tool_id})


def parallel_tools():
    model, tool = chat(), FunctionTool.from_defaults(s.ask)
    history = [user(s.ASK_PROMPT)]
    with s.one_turn("completed"):
        offered = {"chat_history": history, "allow_parallel_tool_calls": True}
        answer = last(model.stream_chat_with_tools([tool], **offered))
        calls = model.get_tool_calls_from_response(answer)
        assert [call.tool_kwargs["question"] for call in calls] == s.QUESTIONS, calls
        history += [answer.message, *(result(call, s.ask(**call.tool_kwargs)) for call in calls)]
        assert model.chat_with_tools([tool], **offered).message.content == s.DONE


def structured():
    prompt = PromptTemplate("{asked}")
    assert chat().structured_predict(Weather, prompt, asked=s.WEATHER_PROMPT) == Weather(**s.WEATHER)


def image():
    kind, data = s.picture().removeprefix("data:").split(";base64,")
    picture = ImageBlock(image=base64.b64decode(data), image_mimetype=kind)
    message = ChatMessage(role=MessageRole.USER, blocks=[TextBlock(text=s.SEE), picture])
    assert chat().chat([message]).message.content == s.SEEN


def reasoning():
    for message in (chat().chat([user(s.REASON)]).message, last(chat().stream_chat([user(s.REASON)])).message):
        [thought] = [block.content for block in message.blocks if isinstance(block, ThinkingBlock)]
        assert message.content == s.REASONED and s.REASONING in thought, message


def refused():
    unknown = s.raises(openai.NotFoundError, lambda: chat(model="no-such").chat([user("hi")]))
    assert unknown.code == "model_not_found", unknown
    wrong = s.raises(openai.BadRequestError, lambda: chat(additional_kwargs={"n": 99}).chat([user("hi")]))
    assert wrong.param == "n", wrong


def provider_error():
    limited = s.raises(openai.RateLimitError, lambda: chat().chat([user(s.LIMITED)]))
    assert limited.code == "rate_limit_exceeded", limited
    s.raises(openai.APIError, lambda: list(chat().stream_chat([user(s.LIMITED)])))
    full = s.raises(openai.BadRequestError, lambda: chat().chat([user(s.TOO_LONG)]))
    assert full.code == "context_length_exceeded", full
    s.raises(openai.InternalServerError, lambda: chat().chat([user(s.BROKEN)]))


def retry():
    """While the one turn of the narrow key runs, the next request is refused before it has begun; so it is sent again."""
    held = chat(api_key=s.NARROW_KEY).stream_chat([user(s.BRIEF)])
    next(held)
    reader = threading.Thread(target=lambda: list(held))
    reader.start()
    s.raises(openai.RateLimitError, lambda: chat(api_key=s.NARROW_KEY).chat([user(s.SAY)]))
    answer = chat(api_key=s.NARROW_KEY, max_retries=5).chat([user(s.SAY)])
    assert answer.message.content == s.SAID, answer
    reader.join()


def cancel():
    with s.one_turn("interrupted"), httpx.Client() as connection:
        pieces = chat(http_client=connection).stream_chat([user(s.LONG)])
        while not next(pieces).delta:
            pass
        assert s.running() == 1
        connection.close()


s.play(
    [text, stream, usage, tools, tools_streamed, parallel_tools, structured, image, reasoning, refused, provider_error,
     retry, cancel],
    cannot={"failed_once": "retries by itself, whatever x-should-retry says"},
)
