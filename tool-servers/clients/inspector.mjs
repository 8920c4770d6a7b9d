// The MCP inspector's command line, in the era that the argument names: a process for each request. It asks no user, shows no
// progress, and fetches all pages by itself.

import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { era, KEY, play, TIMEOUT_MS, URL as url } from "./scenarios.mjs";

const INSPECTOR = createRequire(import.meta.url).resolve("@modelcontextprotocol/inspector/package.json");
const { bin } = createRequire(import.meta.url)(INSPECTOR);

function inspect(method, ...more) {
  const script = new URL(bin["mcp-inspector"], `file://${INSPECTOR}`).pathname;
  const target = [url, "--transport", "http", "--header", `Authorization: Bearer ${KEY}`, "--protocol-era", era()];
  const given = [script, "--cli", ...target, "--quiet", "--method", method, ...more];
  const inspector = spawn(process.execPath, given, { stdio: ["ignore", "pipe", "pipe"], timeout: TIMEOUT_MS });
  const [said, complained] = [inspector.stdout, inspector.stderr].map((stream) => stream.setEncoding("utf8").toArray());
  return new Promise((resolve, reject) => {
    inspector.on("error", reject);
    inspector.on("close", async (code) => {
      const [stdout, stderr] = [(await said).join(""), (await complained).join("")];
      if (code === 0) resolve(JSON.parse(stdout));
      else reject(new Error(`the inspector ended with ${code}: ${stderr}${stdout}`));
    });
  });
}

const pairs = (given) => Object.entries(given ?? {}).map(([name, value]) => `${name}=${value}`);

await play({
  elicits: false,
  reportsProgress: false,
  listTools: () => inspect("tools/list"),
  callTool: ({ tool, arguments: given }) =>
    inspect("tools/call", "--tool-name", tool, "--tool-args-json", JSON.stringify(given ?? {})),
  listResources: () => inspect("resources/list"),
  readResource: ({ uri }) => inspect("resources/read", "--uri", uri),
  listPrompts: () => inspect("prompts/list"),
  getPrompt: ({ name, arguments: given }) =>
    inspect("prompts/get", "--prompt-name", name, ...(given ? ["--prompt-args", ...pairs(given)] : [])),
});
