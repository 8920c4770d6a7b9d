// LangChain for JavaScript on the Responses API: `ChatOpenAI`, which asks for it by itself if a model's name holds "codex".
//
// | scenario | by |
// |---|---|
// | text, stream, usage, reasoning | `invoke`, `stream` |
// | tools, tools_streamed, parallel_tools | `bindTools` and `previous_response_id` |
// | tools_repeated | the same without it, so that all items are sent again |
// | structured | `withStructuredOutput`, method `jsonSchema` |
// | image | a block `image_url` |
// | multi_turn, owned | `previous_response_id` |
// | refused, provider_error, retry | the errors of `openai`; LangChain retries by itself, by its `maxRetries` |
// | cancel | `signal` |
// | retrieve, input_items, delete, background, resumed, cancelled | cannot: it only creates responses |
// | failed_once | cannot: its retries know nothing of `x-should-retry`, so that a turn which failed is run again |

import assert from "node:assert/strict";
import { ContextOverflowError } from "@langchain/core/errors";
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { ChatOpenAI } from "@langchain/openai";
import { z } from "zod";
import * as s from "./scenarios.mjs";

const chat = ({ apiKey = s.KEY, ...more } = {}) =>
  new ChatOpenAI({
    model: s.MODEL,
    apiKey,
    configuration: { baseURL: s.BASE_URL },
    timeout: s.TIMEOUT_MS,
    maxRetries: 0,
    useResponsesApi: true,
    ...more,
  });
const Weather = z.object({ city: z.string(), degrees: z.number().int() });

const tool = (definition) => ({ type: "function", function: definition });
const streamed = async (model, input, more) =>
  (await s.gather(await model.stream(input, more))).reduce((all, next) => all.concat(next));
const resultOf = (call, content) => new ToolMessage({ content, tool_call_id: call.id });
const thought = (message) => message.additional_kwargs.reasoning.summary.map((part) => part.text).join("");

/** A call, its result, a call, its result, and the text: three requests, one turn. */
async function byPrevious(answered) {
  const model = chat().bindTools([tool(s.LOOKUP)]);
  await s.oneTurn("completed", async () => {
    let [messages, more] = [[new HumanMessage(s.LOOKUP_PROMPT)], {}];
    for (const id of [1, 2]) {
      const message = await answered(model, messages, more);
      messages = [resultOf(callOf(message, id), s.lookup({ id }))];
      more = { previous_response_id: message.response_metadata.id };
    }
    assert.equal((await answered(model, messages, more)).text, s.DONE);
  });
}

/** The one call of an answer. */
function callOf(message, id) {
  const [call, ...more] = message.tool_calls;
  assert.deepEqual([call.name, call.args, more], ["lookup", { id }, []]);
  return call;
}

await s.play(
  {
    async text() {
      const answer = await chat().invoke(s.SAY);
      assert.deepEqual([answer.text, answer.response_metadata.status], [s.SAID, "completed"]);
    },

    async stream() {
      const answer = await streamed(chat(), s.SAY);
      assert.equal(answer.text, s.SAID);
    },

    async usage() {
      const { usage_metadata: plain } = await chat().invoke(s.SAY);
      const { usage_metadata: counted } = await streamed(chat(), s.SAY);
      assert.ok(plain.input_tokens > 0 && plain.output_tokens > 0);
      assert.equal(plain.total_tokens, plain.input_tokens + plain.output_tokens);
      assert.ok(plain.input_token_details.cache_read > 0);
      assert.deepEqual(JSON.parse(JSON.stringify(counted)), JSON.parse(JSON.stringify(plain)));
    },

    tools: () => byPrevious((model, messages, more) => model.invoke(messages, more)),
    tools_streamed: () => byPrevious(streamed),

    async tools_repeated() {
      const model = chat().bindTools([tool(s.LOOKUP)]);
      const messages = [new HumanMessage(s.LOOKUP_PROMPT)];
      await s.oneTurn("completed", async () => {
        for (const id of [1, 2]) {
          const message = await model.invoke(messages);
          messages.push(message, resultOf(callOf(message, id), s.lookup({ id })));
        }
        assert.equal((await model.invoke(messages)).text, s.DONE);
      });
    },

    async parallel_tools() {
      const model = chat().bindTools([tool(s.ASK)]);
      const messages = [new HumanMessage(s.ASK_PROMPT)];
      await s.oneTurn("completed", async () => {
        const message = await streamed(model, messages);
        assert.deepEqual(message.tool_calls.map((call) => call.args.question), s.QUESTIONS);
        messages.push(message, ...message.tool_calls.map((call) => resultOf(call, s.ask(call.args))));
        assert.equal((await model.invoke(messages)).text, s.DONE);
      });
    },

    async structured() {
      const model = chat().withStructuredOutput(Weather, { method: "jsonSchema" });
      assert.deepEqual(await model.invoke(s.WEATHER_PROMPT), s.WEATHER);
    },

    async image() {
      const picture = { type: "image_url", image_url: { url: s.PICTURE } };
      const message = new HumanMessage({ content: [{ type: "text", text: s.SEE }, picture] });
      assert.equal((await chat().invoke([message])).text, s.SEEN);
    },

    async reasoning() {
      const plain = await chat({ reasoning: { effort: "high", summary: "auto" } }).invoke(s.REASON);
      const whole = await streamed(chat(), s.REASON);
      assert.deepEqual([plain.text, whole.text], [s.REASONED, s.REASONED]);
      assert.ok(thought(plain).includes(s.REASONING), thought(plain));
      assert.equal(thought(whole), thought(plain));
      // What it thought may be said back to it.
      const messages = [new HumanMessage(s.REASON), plain, new HumanMessage(s.SAY)];
      assert.equal((await chat().invoke(messages)).text, s.SAID);
    },

    async multi_turn() {
      const first = await chat().invoke(s.SAY);
      const next = await chat().invoke(s.SAY, { previous_response_id: first.response_metadata.id });
      const told = await chat().invoke([new HumanMessage(s.SAY), first, new HumanMessage(s.SAY)]);
      assert.deepEqual([next.text, told.text], [s.SAID, s.SAID]);
    },

    async owned() {
      const { response_metadata } = await chat().invoke(s.SAY);
      const others = chat({ apiKey: s.NARROW_KEY });
      const lost = await s.raises(() => others.invoke(s.SAY, { previous_response_id: response_metadata.id }));
      assert.deepEqual([lost.status, lost.code], [400, "previous_response_not_found"]);
    },

    async refused() {
      const unknown = await s.raises(() => chat({ model: "no-such" }).invoke("hi"));
      assert.deepEqual([unknown.status, unknown.code], [404, "model_not_found"]);
      const hosted = chat().bindTools([{ type: "code_interpreter", container: "c" }]);
      const wrong = await s.raises(() => hosted.invoke("hi"));
      assert.deepEqual([wrong.status, wrong.param], [400, "tools[0].type"]);
    },

    async provider_error() {
      const limited = await s.raises(() => chat().invoke(s.LIMITED));
      assert.deepEqual([limited.status, limited.code], [429, "rate_limit_exceeded"]);
      assert.equal((await s.raises(() => streamed(chat(), s.LIMITED))).code, "rate_limit_exceeded");
      assert.ok(ContextOverflowError.isInstance(await s.raises(() => chat().invoke(s.TOO_LONG))));
      assert.ok((await s.raises(() => chat().invoke(s.BROKEN))).status >= 500);
    },

    // While the one turn of the narrow key runs, the next request is refused before it has begun; so it is sent again.
    async retry() {
      const narrow = (maxRetries) => chat({ apiKey: s.NARROW_KEY, maxRetries });
      const held = (await narrow(0).stream(s.BRIEF))[Symbol.asyncIterator]();
      await held.next();
      assert.equal((await s.raises(() => narrow(0).invoke(s.SAY))).status, 429);
      const [answer] = await Promise.all([
        narrow(5).invoke(s.SAY),
        (async () => {
          while (!(await held.next()).done);
        })(),
      ]);
      assert.equal(answer.text, s.SAID);
    },

    async cancel() {
      await s.oneTurn("interrupted", async () => {
        const stop = new AbortController();
        const stopped = await s.raises(async () => {
          for await (const chunk of await chat().stream(s.LONG, { signal: stop.signal })) {
            if (chunk.text && !stop.signal.aborted) {
              assert.equal(await s.running(), 1);
              stop.abort();
            }
          }
        });
        assert.ok(stop.signal.aborted, stopped);
      });
    },
  },
  {
    ...s.cannotAll(["retrieve", "input_items", "delete", "background", "resumed", "cancelled"], "it only creates responses"),
    failed_once: "retries by itself, whatever x-should-retry says",
  },
);
