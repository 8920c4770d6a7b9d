// OpenAI's own library for Node: its iterator over chunks, its stream helper, and its helper that parses.
//
// | scenario | by |
// |---|---|
// | text, stream, usage | `create`, and the iterator that it returns |
// | tools | `create` |
// | tools_streamed, parallel_tools | `stream`, which puts the pieces of a call together |
// | structured | `parse` with a schema of zod; `stream` with the same |
// | image, reasoning | `create`, plain and streamed |
// | refused, provider_error, failed_once, retry, cancel | the library's own classes and retries |

import assert from "node:assert/strict";
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";
import * as s from "./scenarios.mjs";

const connected = (more) => new OpenAI({ baseURL: s.BASE_URL, apiKey: s.KEY, timeout: s.TIMEOUT_MS, ...more });
const { completions } = connected().chat;
const Weather = z.object({ city: z.string(), degrees: z.number().int() });

const user = (content) => ({ role: "user", content });
const asked = (content, more) => ({ model: s.MODEL, messages: [user(content)], ...more });
const create = (content, more) => completions.create(asked(content, more));
const createWhole = async (content, more) => s.gather(await create(content, { ...more, stream: true }));
const whole = (chunks, field) => chunks.map((chunk) => chunk.choices[0]?.delta[field] ?? "").join("");
const tool = (definition) => ({ type: "function", function: definition });

/** A call, its result, a call, its result, and the text: three requests, one turn. */
async function roundTrip(answered) {
  const messages = [user(s.LOOKUP_PROMPT)];
  const request = { model: s.MODEL, messages, tools: [tool(s.LOOKUP)] };
  await s.oneTurn("completed", async () => {
    const ids = new Set();
    for (const id of [1, 2]) {
      const [{ message, finish_reason }] = (await answered(request)).choices;
      const [call, ...more] = message.tool_calls;
      assert.equal(finish_reason, "tool_calls");
      assert.deepEqual(call.function, { name: "lookup", arguments: JSON.stringify({ id }) });
      assert.deepEqual([call.type, more], ["function", []]);
      ids.add(call.id);
      messages.push(message, { role: "tool", tool_call_id: call.id, content: s.lookup({ id }) });
    }
    const [{ message, finish_reason }] = (await answered(request)).choices;
    assert.deepEqual([message.content, finish_reason], [s.DONE, "stop"]);
    assert.equal(ids.size, 2);
  });
}

await s.play(
  {
    async text() {
      const answer = await create(s.SAY);
      assert.equal(answer.choices[0].message.content, s.SAID);
      assert.equal(answer.choices[0].finish_reason, "stop");
      assert.ok(answer._request_id);
    },

    async stream() {
      const chunks = await createWhole(s.SAY);
      assert.equal(whole(chunks, "content"), s.SAID);
      assert.deepEqual(chunks.map((chunk) => chunk.choices[0].finish_reason).filter(Boolean), ["stop"]);
      const helper = completions.stream(asked(s.SAY));
      assert.equal(await helper.finalContent(), s.SAID);
      assert.equal((await helper.finalChatCompletion()).choices[0].finish_reason, "stop");
    },

    async usage() {
      const { usage: plain } = await create(s.SAY);
      const chunks = await createWhole(s.SAY, { stream_options: { include_usage: true } });
      const { choices, usage: streamed } = chunks.at(-1);
      assert.ok(plain.prompt_tokens > 0 && plain.completion_tokens > 0);
      assert.equal(plain.total_tokens, plain.prompt_tokens + plain.completion_tokens);
      assert.ok(plain.prompt_tokens_details.cached_tokens > 0);
      assert.deepEqual([choices, streamed], [[], plain]);
    },

    tools: () => roundTrip((request) => completions.create(request)),
    tools_streamed: () => roundTrip((request) => completions.stream(request).finalChatCompletion()),

    async parallel_tools() {
      const messages = [user(s.ASK_PROMPT)];
      const request = { model: s.MODEL, messages, tools: [tool(s.ASK)] };
      await s.oneTurn("completed", async () => {
        const message = await completions.stream(request).finalMessage();
        const questions = message.tool_calls.map((call) => JSON.parse(call.function.arguments).question);
        assert.deepEqual(questions, s.QUESTIONS);
        messages.push(message);
        for (const [index, call] of message.tool_calls.entries()) {
          const content = s.ask({ question: questions[index] });
          messages.push({ role: "tool", tool_call_id: call.id, content });
        }
        assert.equal((await completions.create(request)).choices[0].message.content, s.DONE);
      });
    },

    async structured() {
      const request = asked(s.WEATHER_PROMPT, { response_format: zodResponseFormat(Weather, "weather") });
      assert.deepEqual((await completions.parse(request)).choices[0].message.parsed, s.WEATHER);
      assert.deepEqual((await completions.stream(request).finalMessage()).parsed, s.WEATHER);
    },

    async image() {
      const picture = { type: "image_url", image_url: { url: s.PICTURE } };
      const answer = await create([{ type: "text", text: s.SEE }, picture]);
      assert.equal(answer.choices[0].message.content, s.SEEN);
    },

    async reasoning() {
      const { message } = (await create(s.REASON, { reasoning_effort: "high" })).choices[0];
      assert.equal(message.content, s.REASONED);
      assert.ok(message.reasoning_content.includes(s.REASONING), message.reasoning_content);
      const chunks = await createWhole(s.REASON);
      assert.equal(whole(chunks, "reasoning_content"), message.reasoning_content);
      assert.equal(whole(chunks, "content"), s.REASONED);
    },

    async refused() {
      const unknown = await s.raises(() => create("hi", { model: "no-such" }));
      assert.ok(unknown instanceof OpenAI.NotFoundError, unknown);
      assert.equal(unknown.code, "model_not_found");
      const wrong = await s.raises(() => create("hi", { n: 99 }));
      assert.ok(wrong instanceof OpenAI.BadRequestError, wrong);
      assert.equal(wrong.param, "n");
      const stranger = await s.raises(() => connected({ apiKey: "wrong" }).models.list());
      assert.ok(stranger instanceof OpenAI.AuthenticationError, stranger);
      const models = await s.gather(await connected().models.list());
      assert.ok(models.some((model) => model.id === s.MODEL));
    },

    async provider_error() {
      for (const [prompt, kind, code] of [
        [s.LIMITED, OpenAI.RateLimitError, "rate_limit_exceeded"],
        [s.TOO_LONG, OpenAI.BadRequestError, "context_length_exceeded"],
      ]) {
        const plain = await s.raises(() => create(prompt));
        assert.ok(plain instanceof kind, plain);
        const streamed = await s.raises(() => createWhole(prompt));
        assert.ok(streamed instanceof OpenAI.APIError, streamed);
        const helped = await s.raises(() => completions.stream(asked(prompt)).finalContent());
        assert.ok(helped instanceof OpenAI.OpenAIError, helped);
        assert.deepEqual([plain.code, streamed.code], [code, code]);
      }
      const broken = await s.raises(() => create(s.BROKEN));
      assert.ok(broken instanceof OpenAI.InternalServerError, broken);
    },

    async failed_once() {
      for (const prompt of [s.LIMITED, s.BROKEN]) {
        await s.oneTurn("failed", () => s.raises(() => create(prompt)));
        await s.oneTurn("failed", () => s.raises(() => createWhole(prompt)));
      }
    },

    // While the one turn of the narrow key runs, the next request is refused before it has begun; so it is sent again.
    async retry() {
      const narrow = (maxRetries) => connected({ apiKey: s.NARROW_KEY, maxRetries }).chat.completions;
      const held = (await narrow(0).create(asked(s.BRIEF, { stream: true })))[Symbol.asyncIterator]();
      await held.next();
      const busy = await s.raises(() => narrow(0).create(asked(s.SAY)));
      assert.ok(busy instanceof OpenAI.RateLimitError, busy);
      const [answer] = await Promise.all([
        narrow(5).create(asked(s.SAY)),
        (async () => {
          while (!(await held.next()).done);
        })(),
      ]);
      assert.equal(answer.choices[0].message.content, s.SAID);
    },

    async cancel() {
      await s.oneTurn("interrupted", async () => {
        for await (const chunk of await create(s.LONG, { stream: true })) {
          if (chunk.choices[0].delta.content) break;
        }
      });
      await s.oneTurn("interrupted", async () => {
        const helper = completions.stream(asked(s.LONG));
        await new Promise((resolve) => helper.once("content", resolve));
        assert.equal(await s.running(), 1);
        helper.abort();
        await s.raises(() => helper.done());
      });
    },
  },
  {},
);
