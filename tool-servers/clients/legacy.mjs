// The official SDK for TypeScript, version 1, which knows the older era alone.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { answer, KEY, play, scenario, TIMEOUT_MS, URL as url } from "./scenarios.mjs";

const client = new Client({ name: "switchboard-legacy", version: "1.0.0" }, { capabilities: { elicitation: {} } });
client.setRequestHandler(ElicitRequestSchema, answer);
const transport = new StreamableHTTPClientTransport(new URL(url), {
  requestInit: { headers: { authorization: `Bearer ${KEY}` } },
});

const isConnected = await scenario("connect", async () => {
  await client.connect(transport);
  return `${client.getServerVersion()?.name} ${transport.protocolVersion}`;
});
if (isConnected) {
  const options = { timeout: TIMEOUT_MS };
  await play({
    elicits: true,
    reportsProgress: true,
    listTools: (cursor) => client.listTools({ cursor }, options),
    callTool: ({ tool, arguments: given }, onprogress) =>
      client.callTool({ name: tool, arguments: given }, undefined, { ...options, onprogress }),
    listResources: (cursor) => client.listResources({ cursor }, options),
    readResource: ({ uri }) => client.readResource({ uri }, options),
    listPrompts: (cursor) => client.listPrompts({ cursor }, options),
    getPrompt: ({ name, arguments: given }) => client.getPrompt({ name, arguments: given }, options),
  });
  await scenario("close", async () => {
    await transport.terminateSession();
    await client.close();
  });
}
