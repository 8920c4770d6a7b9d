// Vercel's AI SDK with `@ai-sdk/openai`, whose models are those of the Responses API unless it is told otherwise.
//
// | scenario | by |
// |---|---|
// | text, stream, usage, reasoning, image | `generateText` and `streamText` |
// | tools, tools_streamed, parallel_tools | the same with `tools` and `stopWhen`: the SDK runs the tools itself, and refers to items by their ids |
// | tools_repeated | the same with `store: false`, so that it repeats them |
// | structured | `Output.object` |
// | multi_turn, owned | `previousResponseId`, and the messages of the answer |
// | refused, provider_error | `APICallError` with its status; of a stream, the part `error` |
// | retry | `maxRetries`, by the SDK itself |
// | cancel | `abortSignal` |
// | retrieve, input_items, delete, background, resumed, cancelled | cannot: it only creates responses |
// | failed_once | cannot: its retries know nothing of `x-should-retry`, so that a turn which failed is run again |

import assert from "node:assert/strict";
import { createOpenAI } from "@ai-sdk/openai";
import { APICallError, generateText, jsonSchema, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import * as s from "./scenarios.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;

const connected = (apiKey) => createOpenAI({ baseURL: s.BASE_URL, apiKey });
const model = connected(s.KEY)(s.MODEL);
const narrow = connected(s.NARROW_KEY)(s.MODEL);
const settings = (more) => ({ model, maxRetries: 0, timeout: s.TIMEOUT_MS, ...more });
const generate = (prompt, more) => generateText(settings({ prompt, ...more }));
const stream = (prompt, more) => streamText(settings({ prompt, onError: () => {}, ...more }));
const options = (openai) => ({ providerOptions: { openai } });
const Weather = z.object({ city: z.string(), degrees: z.number().int() });

const runnable = ({ name, description, parameters }, execute) => ({
  [name]: tool({ description, inputSchema: jsonSchema(parameters), execute }),
});

/** A call, its result, a call, its result, and the text: three requests, one turn. */
async function roundTrip(answered, more) {
  await s.oneTurn("completed", async () => {
    const tools = runnable(s.LOOKUP, s.lookup);
    const { steps, text } = await settled(answered(s.LOOKUP_PROMPT, { tools, stopWhen: stepCountIs(5), ...more }));
    const calls = steps.flatMap((step) => step.toolCalls);
    assert.deepEqual(calls.map((call) => [call.toolName, call.input]), [["lookup", { id: 1 }], ["lookup", { id: 2 }]]);
    assert.equal(new Set(calls.map((call) => call.toolCallId)).size, 2);
    assert.deepEqual(steps.map((step) => step.finishReason), ["tool-calls", "tool-calls", "stop"]);
    assert.equal(text, s.DONE);
  });
}

/** The same of an answer that is streamed and of one that is not. */
async function settled(result) {
  const { steps, text } = await result;
  return { steps: await steps, text: await text };
}

/** The error part of a stream. */
async function streamedError(prompt) {
  const parts = await s.gather(stream(prompt).fullStream);
  const [{ error }, ...more] = parts.filter((part) => part.type === "error");
  assert.deepEqual(more, []);
  return error;
}

await s.play(
  {
    async text() {
      const { text, finishReason, response } = await generate(s.SAY);
      assert.deepEqual([text, finishReason], [s.SAID, "stop"]);
      assert.ok(response.id.startsWith("resp_"));
    },

    async stream() {
      const result = stream(s.SAY);
      assert.equal((await s.gather(result.textStream)).join(""), s.SAID);
      assert.equal(await result.finishReason, "stop");
    },

    async usage() {
      const { usage: plain } = await generate(s.SAY);
      const streamed = await stream(s.SAY).usage;
      assert.ok(plain.inputTokens > 0 && plain.outputTokens > 0);
      assert.equal(plain.totalTokens, plain.inputTokens + plain.outputTokens);
      assert.ok(plain.inputTokenDetails.cacheReadTokens > 0);
      assert.deepEqual({ ...streamed, raw: undefined }, { ...plain, raw: undefined });
    },

    tools: () => roundTrip(generate),
    tools_streamed: () => roundTrip(stream),
    tools_repeated: () => roundTrip(generate, options({ store: false })),

    async parallel_tools() {
      await s.oneTurn("completed", async () => {
        const { steps, text } = await settled(
          stream(s.ASK_PROMPT, { tools: runnable(s.ASK, s.ask), stopWhen: stepCountIs(5) }),
        );
        assert.deepEqual(steps[0].toolCalls.map((call) => call.input.question), s.QUESTIONS);
        assert.deepEqual([steps.length, text], [2, s.DONE]);
      });
    },

    async structured() {
      const more = { output: Output.object({ schema: Weather }) };
      assert.deepEqual((await generate(s.WEATHER_PROMPT, more)).output, s.WEATHER);
      assert.deepEqual(await stream(s.WEATHER_PROMPT, more).output, s.WEATHER);
    },

    async image() {
      const content = [{ type: "text", text: s.SEE }, { type: "image", image: s.PICTURE }];
      const { text } = await generateText(settings({ messages: [{ role: "user", content }] }));
      assert.equal(text, s.SEEN);
    },

    async reasoning() {
      const plain = await generate(s.REASON, options({ reasoningSummary: "auto" }));
      const streamed = stream(s.REASON);
      assert.deepEqual([plain.text, await streamed.text], [s.REASONED, s.REASONED]);
      assert.ok(plain.reasoningText.includes(s.REASONING), plain.reasoningText);
      assert.equal(await streamed.reasoningText, plain.reasoningText);
      assert.ok(plain.usage.outputTokenDetails.reasoningTokens > 0);
    },

    async multi_turn() {
      const first = await generate(s.REASON);
      const next = await generate(s.SAY, options({ previousResponseId: first.response.id }));
      // What was thought and said is referred to by its ids, or repeated.
      const messages = [{ role: "user", content: s.REASON }, ...first.response.messages, { role: "user", content: s.SAY }];
      const referred = await generateText(settings({ messages }));
      const repeated = await generateText(settings({ messages, ...options({ store: false }) }));
      for (const answer of [next, referred, repeated]) assert.equal(answer.text, s.SAID);
    },

    async owned() {
      const { response } = await generate(s.SAY);
      const more = { model: narrow, ...options({ previousResponseId: response.id }) };
      const lost = await s.raises(() => generate(s.SAY, more));
      assert.deepEqual([lost.statusCode, lost.data.error.code], [400, "previous_response_not_found"]);
    },

    async refused() {
      const unknown = await s.raises(() => generate("hi", { model: connected(s.KEY)("no-such") }));
      assert.ok(APICallError.isInstance(unknown), unknown);
      assert.deepEqual([unknown.statusCode, unknown.data.error.code], [404, "model_not_found"]);
      const wrong = await s.raises(() => generate("hi", options({ metadata: { ticket: 7 } })));
      assert.deepEqual([wrong.statusCode, wrong.data.error.param], [400, "metadata.ticket"]);
    },

    async provider_error() {
      for (const [prompt, status] of [[s.LIMITED, 429], [s.TOO_LONG, 400]]) {
        const plain = await s.raises(() => generate(prompt));
        assert.ok(APICallError.isInstance(plain), plain);
        assert.equal(plain.statusCode, status);
        const streamed = await streamedError(prompt);
        assert.ok(String(streamed.message ?? streamed).includes(plain.message), streamed);
      }
      assert.ok((await s.raises(() => generate(s.BROKEN))).statusCode >= 500);
    },

    // While the one turn of the narrow key runs, the next request is refused before it has begun; so it is sent again.
    async retry() {
      const held = stream(s.BRIEF, { model: narrow }).textStream[Symbol.asyncIterator]();
      await held.next();
      assert.equal((await s.raises(() => generate(s.SAY, { model: narrow }))).statusCode, 429);
      const [answer] = await Promise.all([
        generate(s.SAY, { model: narrow, maxRetries: 5 }),
        (async () => {
          while (!(await held.next()).done);
        })(),
      ]);
      assert.equal(answer.text, s.SAID);
    },

    async cancel() {
      await s.oneTurn("interrupted", async () => {
        const stop = new AbortController();
        for await (const _ of stream(s.LONG, { abortSignal: stop.signal }).textStream) {
          if (!stop.signal.aborted) assert.equal(await s.running(), 1);
          stop.abort();
        }
      });
    },
  },
  {
    ...s.cannotAll(["retrieve", "input_items", "delete", "background", "resumed", "cancelled"], "it only creates responses"),
    failed_once: "retries by itself, whatever x-should-retry says",
  },
);
