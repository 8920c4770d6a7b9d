"""The official SDK for Python, version 2, in the era that the argument names."""

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult
from scenarios import KEY, PLAN, TIMEOUT_SECONDS, URL, era, plain, play, scenario

MODES = {"legacy": ("legacy", "2025-11-25"), "modern": ("auto", "2026-07-28")}


async def answer(context, params):
    return ElicitResult(action="accept", content=PLAN["elicitation"]["content"])


class Connected:
    def __init__(self, client):
        self.client = client

    async def list_tools(self, cursor):
        return plain(await self.client.list_tools(cursor=cursor))

    async def call_tool(self, name, arguments, progress):
        return plain(await self.client.call_tool(name, arguments, TIMEOUT_SECONDS, progress))

    async def list_resources(self, cursor):
        return plain(await self.client.list_resources(cursor=cursor))

    async def read_resource(self, uri):
        return plain(await self.client.read_resource(uri))

    async def list_prompts(self, cursor):
        return plain(await self.client.list_prompts(cursor=cursor))

    async def get_prompt(self, name, arguments):
        return plain(await self.client.get_prompt(name, arguments))


async def main():
    mode, version = MODES[era()]
    headers = {"authorization": f"Bearer {KEY}"}
    async with httpx2.AsyncClient(headers=headers, timeout=TIMEOUT_SECONDS) as http:
        client = Client(
            streamable_http_client(URL, http_client=http),
            mode=mode,
            read_timeout_seconds=TIMEOUT_SECONDS,
            elicitation_callback=answer,
        )

        async def connect():
            await client.__aenter__()
            assert client.protocol_version == version, client.protocol_version
            return f"{client.server_info and client.server_info.name} {client.protocol_version}"

        async def close():
            await client.__aexit__(None, None, None)

        if await scenario("connect", connect):
            await play(Connected(client))
            await scenario("close", close)


anyio.run(main)
