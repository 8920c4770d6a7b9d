// The official SDK for TypeScript, version 2, in the era that the argument names.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import assert from "node:assert/strict";
import { answer, era, KEY, play, scenario, TIMEOUT_MS, URL as url } from "./scenarios.mjs";

const mode = era() === "modern" ? { pin: "2026-07-28" } : "legacy";
const client = new Client(
  { name: "switchboard-sdk", version: "1.0.0" },
  { capabilities: { elicitation: {} }, versionNegotiation: { mode } },
);
client.setRequestHandler("elicitation/create", answer);
const transport = new StreamableHTTPClientTransport(new URL(url), {
  requestInit: { headers: { authorization: `Bearer ${KEY}` } },
});

const isConnected = await scenario("connect", async () => {
  await client.connect(transport);
  const version = client.getNegotiatedProtocolVersion();
  assert.equal(version, era() === "modern" ? "2026-07-28" : "2025-11-25");
  return `${client.getServerVersion()?.name} ${version}`;
});
if (isConnected) {
  const options = { timeout: TIMEOUT_MS };
  await play({
    elicits: true,
    reportsProgress: true,
    listTools: (cursor) => client.listTools({ cursor }, options),
    callTool: ({ tool, arguments: given }, onprogress) =>
      client.callTool({ name: tool, arguments: given }, { ...options, onprogress }),
    listResources: (cursor) => client.listResources({ cursor }, options),
    readResource: ({ uri }) => client.readResource({ uri }, options),
    listPrompts: (cursor) => client.listPrompts({ cursor }, options),
    getPrompt: ({ name, arguments: given }) => client.getPrompt({ name, arguments: given }, options),
  });
  await scenario("close", () => client.close());
}
