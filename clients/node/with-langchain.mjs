// LangChain for JavaScript: `ChatOpenAICompletions`, since its `ChatOpenAI` asks for `/responses` if a model's name holds
// "codex".
//
// | scenario | by |
// |---|---|
// | text, stream, usage | `invoke`, `stream` |
// | tools, tools_streamed, parallel_tools | `bindTools` |
// | structured | `withStructuredOutput`, method `jsonSchema` |
// | image | a block `image_url` |
// | refused, provider_error, retry | the errors of `openai`; LangChain retries by itself, by its `maxRetries` |
// | cancel | `signal` |
// | reasoning | cannot: it drops `reasoning_content` |
// | failed_once | cannot: its retries know nothing of `x-should-retry`, so that a turn which failed is run again |

import assert from "node:assert/strict";
import { ContextOverflowError } from "@langchain/core/errors";
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { ChatOpenAICompletions } from "@langchain/openai";
import { z } from "zod";
import * as s from "./scenarios.mjs";

const chat = ({ apiKey = s.KEY, ...more } = {}) =>
  new ChatOpenAICompletions({
    model: s.MODEL,
    apiKey,
    configuration: { baseURL: s.BASE_URL },
    timeout: s.TIMEOUT_MS,
    maxRetries: 0,
    ...more,
  });
const Weather = z.object({ city: z.string(), degrees: z.number().int() });

const tool = (definition) => ({ type: "function", function: definition });
const streamed = async (model, input) => (await s.gather(await model.stream(input))).reduce((all, next) => all.concat(next));
const resultOf = (call, content) => new ToolMessage({ content, tool_call_id: call.id });

/** A call, its result, a call, its result, and the text: three requests, one turn. */
async function roundTrip(answered) {
  const model = chat().bindTools([tool(s.LOOKUP)]);
  const messages = [new HumanMessage(s.LOOKUP_PROMPT)];
  await s.oneTurn("completed", async () => {
    const ids = new Set();
    for (const id of [1, 2]) {
      const message = await answered(model, messages);
      const [call, ...more] = message.tool_calls;
      assert.deepEqual([call.name, call.args, more], ["lookup", { id }, []]);
      assert.equal(message.response_metadata.finish_reason, "tool_calls");
      ids.add(call.id);
      messages.push(message, resultOf(call, s.lookup({ id })));
    }
    assert.equal((await answered(model, messages)).content, s.DONE);
    assert.equal(ids.size, 2);
  });
}

await s.play(
  {
    async text() {
      const answer = await chat().invoke(s.SAY);
      assert.deepEqual([answer.content, answer.response_metadata.finish_reason], [s.SAID, "stop"]);
    },

    async stream() {
      const answer = await streamed(chat(), s.SAY);
      assert.deepEqual([answer.content, answer.response_metadata.finish_reason], [s.SAID, "stop"]);
    },

    async usage() {
      const { usage_metadata: plain } = await chat().invoke(s.SAY);
      const { usage_metadata: counted } = await streamed(chat({ streamUsage: true }), s.SAY);
      assert.ok(plain.input_tokens > 0 && plain.output_tokens > 0);
      assert.equal(plain.total_tokens, plain.input_tokens + plain.output_tokens);
      assert.ok(plain.input_token_details.cache_read > 0);
      assert.deepEqual(JSON.parse(JSON.stringify(counted)), JSON.parse(JSON.stringify(plain)));
    },

    tools: () => roundTrip((model, messages) => model.invoke(messages)),
    tools_streamed: () => roundTrip(streamed),

    async parallel_tools() {
      const model = chat().bindTools([tool(s.ASK)]);
      const messages = [new HumanMessage(s.ASK_PROMPT)];
      await s.oneTurn("completed", async () => {
        const message = await streamed(model, messages);
        assert.deepEqual(message.tool_calls.map((call) => call.args.question), s.QUESTIONS);
        messages.push(message, ...message.tool_calls.map((call) => resultOf(call, s.ask(call.args))));
        assert.equal((await model.invoke(messages)).content, s.DONE);
      });
    },

    async structured() {
      const model = chat().withStructuredOutput(Weather, { method: "jsonSchema" });
      assert.deepEqual(await model.invoke(s.WEATHER_PROMPT), s.WEATHER);
    },

    async image() {
      const picture = { type: "image_url", image_url: { url: s.PICTURE } };
      const message = new HumanMessage({ content: [{ type: "text", text: s.SEE }, picture] });
      assert.equal((await chat().invoke([message])).content, s.SEEN);
    },

    async refused() {
      const unknown = await s.raises(() => chat({ model: "no-such" }).invoke("hi"));
      assert.deepEqual([unknown.status, unknown.code], [404, "model_not_found"]);
      const wrong = await s.raises(() => chat({ n: 99 }).invoke("hi"));
      assert.deepEqual([wrong.status, wrong.param], [400, "n"]);
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
      assert.equal(answer.content, s.SAID);
    },

    async cancel() {
      await s.oneTurn("interrupted", async () => {
        const stop = new AbortController();
        const stopped = await s.raises(async () => {
          for await (const chunk of await chat().stream(s.LONG, { signal: stop.signal })) {
            if (chunk.content && !stop.signal.aborted) {
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
    reasoning: "drops reasoning_content",
    failed_once: "retries by itself, whatever x-should-retry says",
  },
);
