"""The official SDK for Python, version 1, which knows the older era alone."""

from contextlib import AsyncExitStack
from datetime import timedelta

import anyio
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from mcp.types import ElicitResult, PaginatedRequestParams
from scenarios import KEY, PLAN, TIMEOUT_SECONDS, URL, plain, play, scenario


async def answer(context, params):
    return ElicitResult(action="accept", content=PLAN["elicitation"]["content"])


class Connected:
    def __init__(self, session):
        self.session = session

    async def list_tools(self, cursor):
        return plain(await self.session.list_tools(params=PaginatedRequestParams(cursor=cursor)))

    async def call_tool(self, name, arguments, progress):
        timeout = timedelta(seconds=TIMEOUT_SECONDS)
        return plain(await self.session.call_tool(name, arguments, timeout, progress))

    async def list_resources(self, cursor):
        return plain(await self.session.list_resources(params=PaginatedRequestParams(cursor=cursor)))

    async def read_resource(self, uri):
        return plain(await self.session.read_resource(uri))

    async def list_prompts(self, cursor):
        return plain(await self.session.list_prompts(params=PaginatedRequestParams(cursor=cursor)))

    async def get_prompt(self, name, arguments):
        return plain(await self.session.get_prompt(name, arguments))


async def main():
    async with AsyncExitStack() as stack:
        connected = None

        async def connect():
            nonlocal connected
            headers = {"authorization": f"Bearer {KEY}"}
            read, write, _ = await stack.enter_async_context(streamablehttp_client(URL, headers))
            timeout = timedelta(seconds=TIMEOUT_SECONDS)
            session = ClientSession(read, write, timeout, elicitation_callback=answer)
            connected = await stack.enter_async_context(session)
            begun = await connected.initialize()
            return f"{begun.serverInfo.name} {begun.protocolVersion}"

        if await scenario("connect", connect):
            await play(Connected(connected))
            await scenario("close", stack.aclose)


anyio.run(main)
