"""`codex exec` with Switchboard as its model provider, over a WebSocket.

| scenario | by |
|---|---|
| text | one connection: a response without an answer that says what comes first, and the one that goes on from it |
| tools | `previous_response_id`: on a WebSocket codex says only what is new |
| tools_repeated | cannot, for the same reason |
| the others | as in `responses_codex.py` |
"""

import responses_codex as c
import scenarios as s

c.PROVIDER["supports_websockets"] = True


def text():
    before = c.requests('method="GET"')
    c.text()
    assert c.requests('method="GET"') == before + 1, "not over a WebSocket"


def tools():
    c.one_after_the_other()


PLAYED = {"text": text, "tools_repeated": tools}
CANNOT = {name: why for name, why in c.CANNOT.items() if name != "tools"}
s.play(
    [PLAYED.get(scenario.__name__, scenario) for scenario in c.SCENARIOS],
    cannot={**CANNOT, "tools_repeated": "it says only what is new"},
)
