"""The command line `llm`, as a person types it; Switchboard is a model of its `extra-openai-models.yaml`.

| scenario | by |
|---|---|
| text, stream, usage | `llm --no-stream`, `llm`, `llm --usage` |
| tools, tools_streamed, parallel_tools | `llm --functions`, whose calls and results `--tools-debug` shows |
| structured | `llm --schema` |
| image | `llm --attachment` |
| refused, provider_error, failed_once, retry | what `llm` says before it ends with code 1 |
| cancel | Ctrl-C |
| reasoning | cannot: it drops `reasoning_content` |
"""

import base64
import inspect
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import scenarios as s

PROGRAM = Path(sys.executable).with_name("llm")
HOME = tempfile.TemporaryDirectory()
WIDE, NARROW, UNKNOWN = "switchboard", "narrow", "unknown"


def configure():
    models = [(WIDE, s.MODEL, s.KEY), (NARROW, s.MODEL, s.NARROW_KEY), (UNKNOWN, "no-such", s.KEY)]
    entries = [
        {
            "model_id": model_id,
            "model_name": model,
            "api_base": s.BASE_URL,
            "headers": {"Authorization": f"Bearer {key}"},
            "supports_tools": True,
            "supports_schema": True,
            "vision": True,
        }
        for model_id, model, key in models
    ]
    # JSON is YAML too.
    Path(HOME.name, "extra-openai-models.yaml").write_text(json.dumps(entries))


def started(*arguments, model=WIDE):
    """Without the user's own settings, but with a place for them."""
    environment = {**os.environ, "LLM_USER_PATH": HOME.name, "PYTHONUNBUFFERED": "1"}
    command = [PROGRAM, "-m", model, "--no-log", *arguments]
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def llm(*arguments, **more):
    """What it says on standard output and on standard error."""
    with started(*arguments, **more) as run:
        said, noted = run.communicate(timeout=s.TIMEOUT_SECONDS)
    assert run.returncode == 0, noted
    return said.strip(), noted


def refusal(*arguments, **more):
    """What it says before it ends in failure."""
    with started(*arguments, **more) as run:
        said, noted = run.communicate(timeout=s.TIMEOUT_SECONDS)
    assert run.returncode == 1, (said, noted)
    return noted


def text():
    assert llm("--no-stream", s.SAY)[0] == s.SAID


def stream():
    assert llm(s.SAY)[0] == s.SAID


def usage():
    counted = [llm("--usage", *more, s.SAY)[1] for more in ([], ["--no-stream"])]
    assert "Token usage: 100 input, 10 output" in counted[0], counted
    assert counted[0] == counted[1], counted


def tools():
    round_trip("--no-stream")


def tools_streamed():
    round_trip()


def round_trip(*more):
    """A call, its result, a call, its result, and the text: three requests, one turn."""
    with s.one_turn("completed"):
        said, noted = llm("--functions", inspect.getsource(s.lookup), "--tools-debug", *more, s.LOOKUP_PROMPT)
    assert said == s.DONE, said
    calls = [line for line in noted.splitlines() if line.startswith("Tool call:")]
    assert calls == ["Tool call: lookup({'id': 1})", "Tool call: lookup({'id': 2})"], noted


def parallel_tools():
    with s.one_turn("completed"):
        said, noted = llm("--functions", inspect.getsource(s.ask), "--tools-debug", s.ASK_PROMPT)
    assert said == s.DONE, said
    assert all(s.ask(question) in noted for question in s.QUESTIONS), noted


def structured():
    assert json.loads(llm("--schema", "city, degrees int", s.WEATHER_PROMPT)[0]) == s.WEATHER


def image():
    file = Path(HOME.name, "dot.png")
    file.write_bytes(base64.b64decode(s.picture().split(",")[1]))
    assert llm("--attachment", file, s.SEE)[0] == s.SEEN


def refused():
    for said, wanted in (
        (refusal("hi", model=UNKNOWN), ("404", "no-such")),
        (refusal("--at", "https://example.com/dot.png", "image/png", s.SEE), ("400", "data URL")),
    ):
        assert all(word in said for word in wanted), said


def provider_error():
    for prompt, status in ((s.LIMITED, "429"), (s.TOO_LONG, "400"), (s.BROKEN, "50")):
        said = refusal("--no-stream", prompt)
        assert said.startswith(f"Error: Error code: {status}"), said
    # Of an error in mid stream it shows the message alone.
    message = said.split(" - ", 1)[1].strip()
    streamed = refusal(s.BROKEN).strip()
    assert streamed == f"Error: {message}", (streamed, message)


def failed_once():
    for arguments in ([s.LIMITED], ["--no-stream", s.LIMITED], ["--no-stream", s.BROKEN]):
        with s.one_turn("failed"):
            refusal(*arguments)


def retry():
    """While the one turn of the narrow key runs, the next request is refused before it has begun; so it is sent again."""
    with started(s.BRIEF, model=NARROW) as held:
        held.stdout.read(1)
        assert llm(s.SAY, model=NARROW)[0] == s.SAID
        held.communicate()


def cancel():
    with s.one_turn("interrupted"), started(s.LONG) as run:
        run.stdout.read(1)
        assert s.running() == 1
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=s.TIMEOUT_SECONDS)


# Whoever runs this in the background has Ctrl-C ignored, and what is ignored is inherited.
signal.signal(signal.SIGINT, signal.default_int_handler)
configure()
s.play(
    [text, stream, usage, tools, tools_streamed, parallel_tools, structured, image, refused, provider_error,
     failed_once, retry, cancel],
    cannot={"reasoning": "drops reasoning_content"},
)
