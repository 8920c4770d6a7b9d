"""What every client tries with an MCP endpoint, and how it tells what came of it: a line of JSON for each scenario.

The plan says what is there: see ../README.md. As in scenarios.mjs.
"""

import json
import os
import sys
import traceback

URL = os.environ["SWITCHBOARD_MCP_URL"]
KEY = os.environ["SWITCHBOARD_KEY"]
TIMEOUT_SECONDS = 60

with open(os.environ["SWITCHBOARD_PLAN"], encoding="utf-8") as file:
    PLAN = json.load(file)


def era():
    """Which era the client is to speak."""
    assert sys.argv[1:] in (["legacy"], ["modern"]), "the argument is legacy or modern"
    return sys.argv[1]


async def scenario(name, run):
    try:
        line = {"name": name, "ok": True, "detail": await run() or ""}
    except Exception:
        line = {"name": name, "ok": False, "detail": traceback.format_exc()[-2000:]}
    print(json.dumps(line), flush=True)
    return line["ok"]


async def play(client):
    """Everything that the plan wants of a client that is connected."""

    async def list_tools():
        tools = await every(client.list_tools, "tools")
        names = [tool["name"] for tool in tools]
        assert len(set(names)) == len(names), "a name stands for two tools"
        assert all(tool["inputSchema"]["type"] == "object" for tool in tools), "a tool has no schema"
        for call in PLAN["calls"]:
            assert call["tool"] in names, f"{call['tool']} is not among {names}"
        return f"{len(names)} tools"

    async def list_resources():
        uris = [resource["uri"] for resource in await every(client.list_resources, "resources")]
        assert PLAN["resource"]["uri"] in uris, f"{PLAN['resource']['uri']} is not among {uris}"
        return f"{len(uris)} resources"

    async def list_prompts():
        names = [prompt["name"] for prompt in await every(client.list_prompts, "prompts")]
        assert PLAN["prompt"]["name"] in names, f"{PLAN['prompt']['name']} is not among {names}"
        return f"{len(names)} prompts"

    async def progress():
        reports = []

        async def report(progress, total, message):
            reports.append(progress)

        wanted = PLAN["progress"]
        said(await client.call_tool(wanted["tool"], wanted.get("arguments"), report), wanted["text"])
        assert len(reports) >= wanted["least"], f"only {len(reports)} reports: {reports}"
        return f"{len(reports)} reports"

    def calling(call):
        async def run():
            return said(await client.call_tool(call["tool"], call.get("arguments"), None), call["text"])

        return run

    async def read_resource():
        return said(await client.read_resource(PLAN["resource"]["uri"]), PLAN["resource"]["text"])

    async def get_prompt():
        wanted = PLAN["prompt"]
        return said(await client.get_prompt(wanted["name"], wanted.get("arguments")), wanted["text"])

    await scenario("list_tools", list_tools)
    for call in PLAN["calls"]:
        await scenario(f"call {call['tool']}", calling(call))
    if PLAN.get("resource"):
        await scenario("list_resources", list_resources)
        await scenario("read_resource", read_resource)
    if PLAN.get("prompt"):
        await scenario("list_prompts", list_prompts)
        await scenario("get_prompt", get_prompt)
    if PLAN.get("elicitation"):
        await scenario("elicitation", calling(PLAN["elicitation"]))
    if PLAN.get("progress"):
        await scenario("progress", progress)


async def every(page, field):
    """All pages of a list."""
    found, cursor = [], None
    while True:
        result = await page(cursor)
        found += result[field]
        cursor = result.get("nextCursor")
        if cursor is None:
            return found


def said(result, text):
    everything = json.dumps(result, ensure_ascii=False)
    assert not result.get("isError"), everything
    assert json.dumps(text, ensure_ascii=False)[1:-1] in everything, f"no {text!r} in {everything}"
    return everything[:200]


def plain(result):
    """A result as it stands on the wire."""
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)
