// OpenAI's own library for Node, on the Responses API.
//
// | scenario | by |
// |---|---|
// | text, usage, image, multi_turn | `responses.create` |
// | stream, reasoning | `create` with `stream`, event by event, and the helper `responses.stream` |
// | tools, tools_repeated | `create` with `previous_response_id`, or with all items again |
// | tools_streamed, parallel_tools | the same by the helper, which puts the pieces of a call together |
// | structured | `responses.parse` with `zodTextFormat` |
// | retrieve, input_items, delete | the calls of that name |
// | background, resumed, cancelled | `background` with `retrieve`, `retrieve` with `stream` and `starting_after`, `cancel` |
// | owned | another key |
// | refused, provider_error, failed_once, retry, cancel | the library's own classes and retries |

import assert from "node:assert/strict";
import OpenAI from "openai";
import { zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
import * as s from "./scenarios.mjs";

const connected = (more) => new OpenAI({ baseURL: s.BASE_URL, apiKey: s.KEY, timeout: s.TIMEOUT_MS, ...more });
const { responses } = connected();
const narrow = (maxRetries) => connected({ apiKey: s.NARROW_KEY, maxRetries }).responses;
const Weather = z.object({ city: z.string(), degrees: z.number().int() });

const asked = (input, more) => ({ model: s.MODEL, input, ...more });
const create = (input, more) => responses.create(asked(input, more));
const createWhole = async (input, more) => s.gather(await create(input, { ...more, stream: true }));
const helped = (input, more) => responses.stream(asked(input, more)).finalResponse();
const whole = (events, type) => events.filter((event) => event.type === type).map((event) => event.delta).join("");
const tool = (definition) => ({ type: "function", strict: true, ...definition });
const user = (content) => ({ role: "user", content });
const output = (call, output) => ({ type: "function_call_output", call_id: call.call_id, output });
const callsOf = (answer) => answer.output.filter((item) => item.type === "function_call");
const isOver = ({ status }) => !["queued", "in_progress"].includes(status);

/** What the model thought. */
const thought = ({ output }) =>
  output.flatMap((item) => (item.type === "reasoning" ? item.summary.map((part) => part.text) : [])).join("");

/** The one call of an answer. */
function callOf(answer, id) {
  const [call, ...more] = callsOf(answer);
  assert.deepEqual([answer.status, call.status, more], ["completed", "completed", []]);
  assert.deepEqual([call.name, call.arguments], ["lookup", JSON.stringify({ id })]);
  return call;
}

/** A call, its result, a call, its result, and the text: three requests, one turn. */
async function byPrevious(answered) {
  await s.oneTurn("completed", async () => {
    const [ids, tools] = [new Set(), [tool(s.LOOKUP)]];
    let [input, previous_response_id] = [s.LOOKUP_PROMPT, undefined];
    for (const id of [1, 2]) {
      const answer = await answered(input, { previous_response_id, tools });
      const call = callOf(answer, id);
      ids.add(call.call_id);
      [input, previous_response_id] = [[output(call, s.lookup({ id }))], answer.id];
    }
    const answer = await answered(input, { previous_response_id, tools });
    assert.deepEqual([answer.output_text, answer.previous_response_id], [s.DONE, previous_response_id]);
    assert.equal(ids.size, 2);
  });
}

await s.play(
  {
    async text() {
      const answer = await create(s.SAY, { metadata: { ticket: "7" } });
      assert.deepEqual([answer.output_text, answer.status, answer.error], [s.SAID, "completed", null]);
      assert.deepEqual([answer.model, answer.metadata], [s.MODEL, { ticket: "7" }]);
      assert.ok(answer._request_id);
    },

    async stream() {
      const events = await createWhole(s.SAY);
      const names = events.map((event) => event.type);
      assert.deepEqual(events.map((event) => event.sequence_number), [...events.keys()]);
      assert.deepEqual([...names.slice(0, 2), names.at(-1)], ["response.created", "response.in_progress", "response.completed"]);
      assert.equal(whole(events, "response.output_text.delta"), s.SAID);
      const answer = await helped(s.SAY);
      assert.deepEqual([answer.output_text, answer.status], [s.SAID, "completed"]);
    },

    async usage() {
      const [{ usage: plain }, { usage: streamed }] = [await create(s.SAY), await helped(s.SAY)];
      assert.ok(plain.input_tokens > 0 && plain.output_tokens > 0);
      assert.equal(plain.total_tokens, plain.input_tokens + plain.output_tokens);
      assert.ok(plain.input_tokens_details.cached_tokens > 0);
      assert.deepEqual(streamed, plain);
    },

    tools: () => byPrevious(create),
    tools_streamed: () => byPrevious(helped),

    // The same, but every request repeats what was said.
    async tools_repeated() {
      const [items, tools] = [[user(s.LOOKUP_PROMPT)], [tool(s.LOOKUP)]];
      await s.oneTurn("completed", async () => {
        for (const id of [1, 2]) {
          const answer = await create(items, { tools });
          items.push(...answer.output, output(callOf(answer, id), s.lookup({ id })));
        }
        assert.equal((await create(items, { tools })).output_text, s.DONE);
      });
    },

    async parallel_tools() {
      const tools = [tool(s.ASK)];
      await s.oneTurn("completed", async () => {
        const first = await helped(s.ASK_PROMPT, { tools });
        const questions = callsOf(first).map((call) => JSON.parse(call.arguments).question);
        assert.deepEqual(questions, s.QUESTIONS);
        const results = callsOf(first).map((call, index) => output(call, s.ask({ question: questions[index] })));
        const answer = await create(results.reverse(), { previous_response_id: first.id, tools });
        assert.equal(answer.output_text, s.DONE);
      });
    },

    async structured() {
      const request = asked(s.WEATHER_PROMPT, { text: { format: zodTextFormat(Weather, "weather") } });
      assert.deepEqual((await responses.parse(request)).output_parsed, s.WEATHER);
      assert.deepEqual((await responses.stream(request).finalResponse()).output_parsed, s.WEATHER);
    },

    async image() {
      const picture = { type: "input_image", image_url: s.PICTURE, detail: "auto" };
      const answer = await create([user([{ type: "input_text", text: s.SEE }, picture])]);
      assert.equal(answer.output_text, s.SEEN);
    },

    async reasoning() {
      const plain = await create(s.REASON, { reasoning: { effort: "high", summary: "auto" } });
      assert.equal(plain.output_text, s.REASONED);
      assert.ok(thought(plain).includes(s.REASONING), thought(plain));
      assert.ok(plain.usage.output_tokens_details.reasoning_tokens > 0);
      assert.equal(whole(await createWhole(s.REASON), "response.reasoning_summary_text.delta"), thought(plain));
      const answer = await helped(s.REASON);
      assert.deepEqual([thought(answer), answer.output_text], [thought(plain), s.REASONED]);
      // What it thought may be said back to it.
      const items = [user(s.REASON), ...answer.output, user(s.SAY)];
      assert.equal((await create(items)).output_text, s.SAID);
    },

    // The next response is on the thread of the first, and a second next one on a copy of it.
    async multi_turn() {
      const first = await create(s.SAY);
      const second = await create(s.SAY, { previous_response_id: first.id, instructions: "Be brief." });
      const again = await create(s.SAY, { previous_response_id: first.id });
      const repeated = await create([user(s.SAY), ...again.output, user(s.SAY)]);
      for (const answer of [second, again, repeated]) assert.equal(answer.output_text, s.SAID);
      assert.equal(new Set([first.id, second.id, again.id]).size, 3);
      const lost = await s.raises(() => create(s.SAY, { previous_response_id: "resp_none" }));
      assert.ok(lost instanceof OpenAI.BadRequestError, lost);
      assert.equal(lost.code, "previous_response_not_found");
    },

    async retrieve() {
      const answer = await create(s.SAY);
      assert.deepEqual(await responses.retrieve(answer.id), answer);
      const plain = await s.raises(() => responses.retrieve(answer.id, { stream: true }));
      assert.deepEqual([plain.status, plain.param], [400, "stream"]);
      const unkept = await create(s.SAY, { store: false });
      assert.equal(unkept.output_text, s.SAID);
      for (const id of ["resp_none", unkept.id]) {
        assert.ok((await s.raises(() => responses.retrieve(id))) instanceof OpenAI.NotFoundError);
      }
    },

    async input_items() {
      const said = [0, 1, 2].map((number) => user(`${number} ${s.SAY}`));
      const { id } = await create(said);
      // A page holds two, so that there are two of them.
      const items = await s.gather(responses.inputItems.list(id, { order: "asc", limit: 2 }));
      assert.deepEqual(items.map((item) => item.content[0].text), said.map((message) => message.content));
      assert.equal(new Set(items.map((item) => item.id)).size, 3);
    },

    async delete() {
      const { id } = await create(s.SAY);
      await responses.delete(id);
      for (const act of [() => responses.retrieve(id), () => responses.delete(id)]) {
        assert.ok((await s.raises(act)) instanceof OpenAI.NotFoundError);
      }
    },

    async background() {
      const begun = await create(s.BRIEF, { background: true });
      assert.ok(!isOver(begun), begun.status);
      const ended = await s.awaited(() => responses.retrieve(begun.id), isOver);
      assert.deepEqual([ended.status, ended.output_text], ["completed", s.BRIEFLY]);
      const broken = await create(s.BROKEN, { background: true });
      const failed = await s.awaited(() => responses.retrieve(broken.id), isOver);
      assert.equal(failed.status, "failed");
      assert.ok(failed.error.message);
    },

    // A stream that is left goes on, and is read from where it was left.
    async resumed() {
      const seen = [];
      for await (const event of await create(s.BRIEF, { background: true, stream: true })) {
        seen.push(event);
        if (event.type === "response.output_text.delta") break;
      }
      const { id } = seen[0].response;
      const rest = await responses.retrieve(id, { stream: true, starting_after: seen.at(-1).sequence_number });
      seen.push(...(await s.gather(rest)));
      assert.deepEqual(seen.map((event) => event.sequence_number), [...seen.keys()]);
      assert.equal(whole(seen, "response.output_text.delta"), s.BRIEFLY);
      assert.deepEqual([seen.at(-1).type, seen.at(-1).response.status], ["response.completed", "completed"]);
      const again = await responses.stream({ response_id: id }).finalResponse();
      assert.equal(again.output_text, s.BRIEFLY);
    },

    async cancelled() {
      let begun;
      await s.oneTurn("interrupted", async () => {
        begun = await create(s.LONG, { background: true });
        await s.awaited(s.running, (count) => count === 1);
        assert.equal((await responses.cancel(begun.id)).status, "cancelled");
      });
      assert.equal((await responses.cancel(begun.id)).status, "cancelled");
      assert.equal((await responses.retrieve(begun.id)).status, "cancelled");
      const foreground = await create(s.SAY);
      assert.ok((await s.raises(() => responses.cancel(foreground.id))) instanceof OpenAI.BadRequestError);
    },

    // To another key there is no such response.
    async owned() {
      const { id } = await create(s.SAY);
      const others = narrow(0);
      for (const act of [
        () => others.retrieve(id),
        () => others.cancel(id),
        () => others.delete(id),
        () => s.gather(others.inputItems.list(id)),
      ]) {
        assert.ok((await s.raises(act)) instanceof OpenAI.NotFoundError);
      }
      const lost = await s.raises(() => others.create(asked(s.SAY, { previous_response_id: id })));
      assert.equal(lost.code, "previous_response_not_found");
      assert.equal((await responses.retrieve(id)).output_text, s.SAID);
    },

    async refused() {
      const unknown = await s.raises(() => create("hi", { model: "no-such" }));
      assert.ok(unknown instanceof OpenAI.NotFoundError, unknown);
      assert.equal(unknown.code, "model_not_found");
      for (const [input, more, param] of [
        ["hi", { metadata: { ticket: 7 } }, "metadata.ticket"],
        [[{ role: "nobody", content: "hi" }], {}, "input[0].role"],
        ["hi", { tools: [{ type: "code_interpreter", container: "c" }] }, "tools[0].type"],
      ]) {
        const wrong = await s.raises(() => create(input, more));
        assert.ok(wrong instanceof OpenAI.BadRequestError, wrong);
        assert.equal(wrong.param, param);
      }
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
        const helpless = await s.raises(() => helped(prompt));
        assert.ok(helpless instanceof OpenAI.OpenAIError, helpless);
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
      assert.equal(answer.output_text, s.SAID);
    },

    async cancel() {
      await s.oneTurn("interrupted", async () => {
        for await (const event of await create(s.LONG, { stream: true })) {
          if (event.type === "response.output_text.delta") break;
        }
      });
      await s.oneTurn("interrupted", async () => {
        const helper = responses.stream(asked(s.LONG));
        await new Promise((resolve) => helper.once("response.output_text.delta", resolve));
        assert.equal(await s.running(), 1);
        helper.abort();
        await s.raises(() => helper.done());
      });
    },
  },
  {},
);
