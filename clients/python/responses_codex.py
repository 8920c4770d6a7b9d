"""`codex exec` with Switchboard as its model provider: a codex whose model is another codex.

| scenario | by |
|---|---|
| text, image, structured, multi_turn | `codex exec` with `--output-last-message`, `--image`, `--output-schema`; `resume` |
| stream, usage, reasoning | its events, with `--json` |
| tools_streamed, tools_repeated | one shell command, and one whose output asks for another: it repeats all items |
| parallel_tools | two calls of a tool of its own |
| refused, provider_error | the event `turn.failed` |
| retry | `stream_max_retries` |
| cancel | SIGINT |
| the rest | cannot: it keeps nothing at the server, and retries by itself |
"""

import atexit
import base64
import json
import os
import pathlib
import signal
import subprocess

import scenarios as s

CODEX = os.environ["SWITCHBOARD_CODEX"]
HOME = pathlib.Path("codex-home").absolute()
PROJECT = pathlib.Path("codex-project").absolute()
PROVIDER = {
    "name": "Switchboard",
    "base_url": s.BASE_URL,
    "env_key": "SWITCHBOARD_KEY",
    "wire_api": "responses",
    "request_max_retries": 0,
    "stream_max_retries": 0,
}
SETTINGS = [
    'sandbox_mode="danger-full-access"',
    'web_search="disabled"',
    "features.multi_agent=false",
    "features.shell_snapshot=false",
    "analytics.enabled=false",
]


def begun(prompt, *options, model="codex-plain", resumed=(), **provider):
    """A codex that runs, and tells its events."""
    provider = ",".join(f"{name}={json.dumps(value)}" for name, value in (PROVIDER | provider).items())
    settings = ['model_provider="switchboard"', f"model_providers.switchboard={{{provider}}}", *SETTINGS]
    command = [CODEX, "exec", *resumed, "--json", "--skip-git-repo-check", "--model", model]
    command += [word for setting in settings for word in ("--config", setting)]
    environment = {**os.environ, "CODEX_HOME": str(HOME)}
    codex = subprocess.Popen([*command, *options, "--", prompt], cwd=PROJECT, env=environment, text=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    atexit.register(codex.kill)
    return codex


def run(prompt, *options, **more):
    """The events of a run to its end."""
    return ended(begun(prompt, *options, **more))


def ended(codex):
    told, errors = codex.communicate(timeout=s.TIMEOUT_SECONDS)
    events = [json.loads(line) for line in told.splitlines()]
    assert codex.returncode == (1 if failure(events) else 0), (codex.returncode, events, errors)
    return events


def failure(events):
    """Why the turn failed, if it did."""
    return "".join(event["error"]["message"] for event in events if event["type"] == "turn.failed")


def items(events, kind):
    ended = [event["item"] for event in events if event["type"] == "item.completed"]
    return [item for item in ended if item["type"] == kind]


def said(events):
    return [item["text"] for item in items(events, "agent_message")]


def text():
    last = PROJECT / "last.txt"
    run(s.SAY, "--output-last-message", str(last))
    assert last.read_text() == s.SAID, last.read_text()


def stream():
    events = run(s.SAY)
    assert said(events) == [s.SAID], events
    assert [events[0]["type"], events[-1]["type"]] == ["thread.started", "turn.completed"], events


def usage():
    counted = run(s.SAY)[-1]["usage"]
    assert counted["input_tokens"] > 0 and counted["output_tokens"] > 0, counted
    assert 0 < counted["cached_input_tokens"] <= counted["input_tokens"], counted


def command(line):
    """What lets the inner model ask for a command of the outer codex; its tool must not be taken for the inner one's own."""
    return f"[[tool caller_exec_command {json.dumps({'cmd': line})}]]"


def tools_streamed():
    """The inner model asks for a command, the outer codex runs it, and its output goes back: one turn."""
    with s.one_turn("completed"):
        events = run(command("echo made > made.txt; cat made.txt"))
    [executed] = items(events, "command_execution")
    assert executed["exit_code"] == 0 and executed["aggregated_output"] == "made\n", executed
    assert (PROJECT / "made.txt").read_text() == "made\n"
    assert said(events) == [s.DONE], events


def tools_repeated():
    one_after_the_other()


def one_after_the_other():
    (PROJECT / "next.txt").write_text(command("echo two"))
    with s.one_turn("completed"):
        events = run(command("cat next.txt"))
    executed = items(events, "command_execution")
    assert [command["exit_code"] for command in executed] == [0, 0], executed
    assert executed[1]["aggregated_output"] == "two\n" and said(events) == [s.DONE], events


def parallel_tools():
    with s.one_turn("completed"):
        assert said(run("[[tools get_goal 2]]")) == [s.DONE]


def structured():
    schema, last = PROJECT / "schema.json", PROJECT / "weather.json"
    properties = {"city": {"type": "string"}, "degrees": {"type": "integer"}}
    schema.write_text(json.dumps(
        {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}))
    run(s.WEATHER_PROMPT, "--output-schema", str(schema), "--output-last-message", str(last))
    assert json.loads(last.read_text()) == s.WEATHER, last.read_text()


def image():
    picture = PROJECT / "picture.png"
    picture.write_bytes(base64.b64decode(s.picture().partition(",")[2]))
    events = run(s.SEE, "--image", str(picture))
    assert said(events) == [s.SEEN], events


def reasoning():
    events = run(s.REASON)
    thoughts = "".join(item["text"] for item in items(events, "reasoning"))
    assert s.REASONING in thoughts and said(events) == [s.REASONED], events


def multi_turn():
    first = run(s.REASON)
    events = run(s.SAY, resumed=["resume", first[0]["thread_id"]])
    assert events[0]["thread_id"] == first[0]["thread_id"] and said(events) == [s.SAID], events


def refused():
    events = run("hi", model="no-such")
    assert 'there is no model "no-such"' in failure(events), events


def provider_error():
    limited, full = run(s.LIMITED), run(s.TOO_LONG)
    assert failure(limited).startswith("rate limit exceeded"), limited
    assert "context window" in failure(full), full
    assert failure(run(s.BROKEN))


def retry():
    """While the one turn of the narrow key runs, the next request is refused before it has begun; so it is sent again."""
    narrow = {"env_key": "SWITCHBOARD_NARROW_KEY"}
    held = begun(s.LONG, **narrow)
    s.until("its turn runs", lambda: s.running() == 1)
    busy = run(s.SAY, **narrow)
    assert "429" in failure(busy), busy
    before = refusals()
    waits = begun(s.SAY, **narrow, stream_max_retries=5)
    s.until("it is refused", lambda: refusals() > before)
    held.send_signal(signal.SIGINT)
    held.communicate(timeout=s.TIMEOUT_SECONDS)
    assert said(ended(waits)) == [s.SAID]


def refusals() -> int:
    """How many responses were refused."""
    return requests('status="4xx"')


def requests(kind: str) -> int:
    """How many requests of that kind there were."""
    lines = [line for line in s.metrics().splitlines() if line.startswith("switchboard_http_requests_total{")]
    wanted = [line for line in lines if 'route="/v1/responses"' in line and kind in line]
    return sum(int(line.rsplit(" ", 1)[1]) for line in wanted)


def cancel():
    with s.one_turn("interrupted"):
        codex = begun(s.LONG)
        s.until("its turn runs", lambda: s.running() == 1)
        codex.send_signal(signal.SIGINT)
        codex.communicate(timeout=s.TIMEOUT_SECONDS)


HOME.mkdir()
PROJECT.mkdir()
SCENARIOS = [text, stream, usage, tools_streamed, tools_repeated, parallel_tools, structured, image, reasoning, multi_turn,
             refused, provider_error, retry, cancel]
CANNOT = {
    **dict.fromkeys(["tools", "retrieve", "input_items", "delete", "background", "resumed", "cancelled", "owned"],
                    "it keeps nothing at the server"),
    "failed_once": "retries by itself, unless `stream_max_retries` is 0",
}
if __name__ == "__main__":
    s.play(SCENARIOS, CANNOT)
