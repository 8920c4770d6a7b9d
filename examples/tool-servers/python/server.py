"""A tool server in Python: two tools, with schemas of their arguments and results made from the types.

Nothing but the protocol may stand on stdout; whatever else there is to say goes to stderr.
"""

from typing import Annotated, Literal

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel, Field

server = MCPServer("template-python", version="1.0.0")

Degrees = Annotated[float, Field(description="How many degrees")]
Unit = Annotated[Literal["Celsius", "Fahrenheit"], Field(description="The unit that they are in")]
Text = Annotated[str, Field(description="Words with spaces between them")]


class Temperature(BaseModel):
    degrees: Degrees
    unit: Unit


class Word(BaseModel):
    word: str


@server.tool(description="Converts a temperature to the other unit", annotations=ToolAnnotations(read_only_hint=True))
def convert_temperature(degrees: Degrees, unit: Unit) -> Temperature:
    if unit == "Celsius":
        return Temperature(degrees=degrees * 1.8 + 32, unit="Fahrenheit")
    return Temperature(degrees=(degrees - 32) / 1.8, unit="Celsius")


@server.tool(description="Finds the longest word of a text", annotations=ToolAnnotations(read_only_hint=True))
def longest_word(text: Text) -> Word:
    words = text.split()
    if not words:
        raise ToolError("the text has no word")
    return Word(word=max(words, key=len))


if __name__ == "__main__":
    server.run("stdio")
