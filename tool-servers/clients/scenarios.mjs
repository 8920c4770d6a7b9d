// What every client tries with an MCP endpoint, and how it tells what came of it: a line of JSON for each scenario.
// The plan says what is there: see ../README.md. As in scenarios.py.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

export const { SWITCHBOARD_MCP_URL: URL, SWITCHBOARD_KEY: KEY } = process.env;
export const plan = JSON.parse(readFileSync(process.env.SWITCHBOARD_PLAN, "utf8"));
export const TIMEOUT_MS = 60_000;

/** Which era the client is to speak. */
export function era() {
  assert.match(process.argv[2] ?? "", /^(legacy|modern)$/, "the argument is legacy or modern");
  return process.argv[2];
}

/** Answers whoever asks the user. */
export const answer = () => ({ action: "accept", content: plan.elicitation?.content ?? {} });

export async function scenario(name, run) {
  let line;
  try {
    line = { name, ok: true, detail: (await run()) ?? "" };
  } catch (error) {
    line = { name, ok: false, detail: String(error?.stack ?? error).slice(0, 2000) };
  }
  process.stdout.write(`${JSON.stringify(line)}\n`);
  return line.ok;
}

/** Everything that the plan wants of a client that is connected. */
export async function play(client) {
  await scenario("list_tools", async () => {
    const tools = await every((cursor) => client.listTools(cursor), "tools");
    const names = tools.map((tool) => tool.name);
    assert.equal(new Set(names).size, names.length, "a name stands for two tools");
    assert.ok(tools.every((tool) => tool.inputSchema?.type === "object"), "a tool has no schema");
    for (const { tool } of plan.calls) assert.ok(names.includes(tool), `${tool} is not among ${names}`);
    return `${names.length} tools`;
  });
  for (const call of plan.calls) {
    await scenario(`call ${call.tool}`, async () => said(await client.callTool(call), call.text));
  }
  if (plan.resource) {
    await scenario("list_resources", async () => {
      const uris = (await every((cursor) => client.listResources(cursor), "resources")).map(({ uri }) => uri);
      assert.ok(uris.includes(plan.resource.uri), `${plan.resource.uri} is not among ${uris}`);
      return `${uris.length} resources`;
    });
    await scenario("read_resource", async () => said(await client.readResource(plan.resource), plan.resource.text));
  }
  if (plan.prompt) {
    await scenario("list_prompts", async () => {
      const names = (await every((cursor) => client.listPrompts(cursor), "prompts")).map(({ name }) => name);
      assert.ok(names.includes(plan.prompt.name), `${plan.prompt.name} is not among ${names}`);
      return `${names.length} prompts`;
    });
    await scenario("get_prompt", async () => said(await client.getPrompt(plan.prompt), plan.prompt.text));
  }
  if (plan.elicitation && client.elicits) {
    const { elicitation } = plan;
    await scenario("elicitation", async () => said(await client.callTool(elicitation), elicitation.text));
  }
  if (plan.progress && client.reportsProgress) {
    await scenario("progress", async () => {
      const reports = [];
      const result = await client.callTool(plan.progress, (report) => reports.push(report.progress));
      said(result, plan.progress.text);
      assert.ok(reports.length >= plan.progress.least, `only ${reports.length} reports: ${reports}`);
      return `${reports.length} reports`;
    });
  }
}

/** All pages of a list. */
async function every(page, field) {
  const all = [];
  let cursor;
  do {
    const result = await page(cursor);
    all.push(...result[field]);
    cursor = result.nextCursor;
  } while (cursor !== undefined);
  return all;
}

function said(result, text) {
  const all = JSON.stringify(result);
  assert.notEqual(result.isError, true, all);
  assert.ok(all.includes(JSON.stringify(text ?? "").slice(1, -1)), `no ${JSON.stringify(text)} in ${all}`);
  return all.slice(0, 200);
}
