// What the scripts of all clients share: where Switchboard is, what they ask of it, and how they tell what came of it.
// What the model says stands in the prompt, as in ../python/scenarios.py.

import assert from "node:assert/strict";

const { SWITCHBOARD_URL: URL, SWITCHBOARD_KEY, SWITCHBOARD_NARROW_KEY, SWITCHBOARD_MODEL } = process.env;

export const BASE_URL = `${URL}/v1`;
export const KEY = SWITCHBOARD_KEY;
export const NARROW_KEY = SWITCHBOARD_NARROW_KEY; // lets one turn run at a time; of another owner
export const MODEL = SWITCHBOARD_MODEL;
export const TIMEOUT_MS = 30_000;

export const SAY = "[[say One, two; three.]]";
export const SAID = "One, two; three.";

export const LOOKUP_PROMPT = 'Look it up: [[tool lookup {"id":1}]]';
export const ASK_PROMPT = "Ask both: [[tools ask 2]]";
export const QUESTIONS = ["q1", "q2"];
export const DONE = "Done after tool.";

export const WEATHER = { city: "Ulm", degrees: 7 };
export const WEATHER_PROMPT = `[[json ${JSON.stringify(WEATHER)}]]`;

export const SEE = "What is this? [[see]]";
export const SEEN = "Images seen: 1.";
export const PICTURE =
  "data:image/png;base64," +
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

export const REASON = "[[reason]]";
export const REASONING = "**Thinking hard** about it.";
export const REASONED = "Reasoned answer.";

export const [LIMITED, BROKEN, TOO_LONG] = ["[[http 429]]", "[[http 500]]", "[[ctx]]"];
export const LONG = "[[slow 200 50]]"; // ten seconds, if nobody stops it
export const BRIEF = "[[slow 8 200]]";
export const BRIEFLY = "s0 s1 s2 s3 s4 s5 s6 s7 ";

export const lookup = ({ id }) => ({ 1: 'one, so now [[tool lookup {"id":2}]]', 2: "two" })[id];
export const ask = ({ question }) => `the answer to ${question}`;

const parameters = (name, type) => ({
  type: "object",
  properties: { [name]: { type } },
  required: [name],
  additionalProperties: false,
});
export const LOOKUP = {
  name: "lookup",
  description: "Look up an entry by its number.",
  parameters: parameters("id", "integer"),
};
export const ASK = {
  name: "ask",
  description: "Ask a person a question.",
  parameters: parameters("question", "string"),
};

/** How many turns run. */
export async function running() {
  const { turns } = JSON.parse(await get("/api/turns"));
  return turns.filter((turn) => turn.status === "running").length;
}

/** Exactly one more turn has ended so when the act is over, however often the client has tried. */
export async function oneTurn(status, act) {
  const before = await ended();
  await act();
  const isOver = async () => ((await ended())[status] ?? 0) > (before[status] ?? 0) && (await running()) === 0;
  await awaited(isOver, Boolean, `a turn that is ${status}`);
  assert.deepEqual(await ended(), { ...before, [status]: (before[status] ?? 0) + 1 });
}

/** How many turns have ended, by how. */
async function ended() {
  const lines = (await get("/metrics")).matchAll(/^switchboard_turns_total\{.*status="(\w+)".*\} (\d+)$/gm);
  const counts = {};
  for (const [, status, count] of lines) counts[status] = (counts[status] ?? 0) + Number(count);
  return counts;
}

async function get(path) {
  const answer = await fetch(URL + path, { headers: { authorization: `Bearer ${KEY}` } });
  assert.equal(answer.status, 200, path);
  return answer.text();
}

/** Looks until it is what is wanted. */
export async function awaited(look, isIt, what = "what was looked for") {
  const deadline = Date.now() + TIMEOUT_MS;
  for (;;) {
    const found = await look();
    if (isIt(found)) return found;
    assert.ok(Date.now() < deadline, `not in time: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** The error that the act ends with. */
export async function raises(act) {
  let outcome;
  try {
    outcome = await act();
  } catch (error) {
    return error;
  }
  assert.fail(`no error, but ${JSON.stringify(outcome)}`);
}

export async function gather(items) {
  const all = [];
  for await (const item of items) all.push(item);
  return all;
}

/** What a client cannot do for one reason. */
export const cannotAll = (names, reason) => Object.fromEntries(names.map((name) => [name, reason]));

/** Plays all scenarios, or those that the command line names, and says what came of each. */
export async function play(scenarios, cannot) {
  const wanted = process.argv.slice(2);
  const isWanted = (name) => wanted.length === 0 || wanted.includes(name);
  for (const [name, reason] of Object.entries(cannot)) {
    if (isWanted(name)) console.log(`cannot ${name}: ${reason}`);
  }
  for (const [name, scenario] of Object.entries(scenarios)) {
    if (!isWanted(name)) continue;
    try {
      await scenario();
      console.log(`ok ${name}`);
    } catch (error) {
      process.exitCode = 1;
      console.error(error);
      console.log(`FAILED ${name}: ${String(error).replaceAll(/\s+/g, " ").slice(0, 500)}`);
    }
  }
}
