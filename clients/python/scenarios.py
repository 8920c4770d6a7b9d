"""What the scripts of all clients share: where Switchboard is, what they ask of it, and how they tell what came of it.

What the model says stands in the prompt: the demo worker and the tests' stand-in model understand the same markers
(docs/demo-worker.md). A result of a tool may hold one too, so that one call follows another.
"""

import base64
import json
import os
import sys
import time
import traceback
import urllib.request

URL = os.environ["SWITCHBOARD_URL"]
BASE_URL = URL + "/v1"
KEY = os.environ["SWITCHBOARD_KEY"]
NARROW_KEY = os.environ["SWITCHBOARD_NARROW_KEY"]  # lets one turn run at a time; of another owner
MODEL = os.environ["SWITCHBOARD_MODEL"]
TIMEOUT_SECONDS = 30

SAY = "[[say One, two; three.]]"
SAID = "One, two; three."

LOOKUP_PROMPT = 'Look it up: [[tool lookup {"id":1}]]'
ASK_PROMPT = "Ask both: [[tools ask 2]]"
QUESTIONS = ["q1", "q2"]
DONE = "Done after tool."

WEATHER = {"city": "Ulm", "degrees": 7}
WEATHER_PROMPT = f"[[json {json.dumps(WEATHER)}]]"

SEE = "What is this? [[see]]"
SEEN = "Images seen: 1."

REASON = "[[reason]]"
REASONING = "**Thinking hard** about it."
REASONED = "Reasoned answer."

LIMITED, BROKEN, TOO_LONG = "[[http 429]]", "[[http 500]]", "[[ctx]]"
LONG = "[[slow 200 50]]"  # ten seconds, if nobody stops it
BRIEF = "[[slow 8 200]]"
BRIEFLY = "s0 s1 s2 s3 s4 s5 s6 s7 "


def lookup(id: int) -> str:
    """Look up an entry by its number."""
    return {1: 'one, so now [[tool lookup {"id":2}]]', 2: "two"}[id]


def ask(question: str) -> str:
    """Ask a person a question."""
    return f"the answer to {question}"


def function(called):
    """The declaration of a tool, as the API wants it."""
    (name, kind), *_ = [pair for pair in called.__annotations__.items() if pair[0] != "return"]
    kinds = {int: "integer", str: "string"}
    parameters = {
        "type": "object",
        "properties": {name: {"type": kinds[kind]}},
        "required": [name],
        "additionalProperties": False,
    }
    return {
        "type": "function",
        "function": {"name": called.__name__, "description": called.__doc__, "parameters": parameters},
    }


def flat_function(called):
    """The same for the Responses API."""
    declared = function(called)
    return {"type": "function", "strict": True, **declared["function"]}


def picture() -> str:
    """A dot of a picture, as a data URL."""
    png = (
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
    base64.b64decode(png, validate=True)
    return f"data:image/png;base64,{png}"


def turns(status: str) -> int:
    """How many turns have ended so."""
    lines = metrics().splitlines()
    wanted = [line for line in lines if line.startswith("switchboard_turns_total") and f'status="{status}"' in line]
    return sum(int(line.rsplit(" ", 1)[1]) for line in wanted)


def running() -> int:
    """How many turns run."""
    return sum(turn["status"] == "running" for turn in json.loads(get("/api/turns"))["turns"])


def metrics() -> str:
    return get("/metrics")


def get(path: str) -> str:
    request = urllib.request.Request(URL + path, headers={"Authorization": f"Bearer {KEY}"})
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
        return answer.read().decode()


def until(what: str, fact) -> None:
    """Waits until it is so."""
    awaited(fact, lambda is_so: is_so, what)


def awaited(look, is_it, what="what was looked for"):
    """Looks until it is what is wanted."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not is_it(found := look()):
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.05)
    return found


class one_turn:
    """Exactly one more turn has ended so, however often the client has tried."""

    def __init__(self, status: str):
        self.status = status

    def __enter__(self):
        self.before = self.count()

    def __exit__(self, kind, *_):
        if kind is None:
            until(f"a turn that is {self.status}", lambda: self.count()[0] > self.before[0] and running() == 0)
            ended, others = self.count()
            assert (ended, others) == (self.before[0] + 1, self.before[1]), f"{self.before} became {(ended, others)}"

    def count(self):
        others = {"completed", "failed", "interrupted", "lost"} - {self.status}
        return turns(self.status), sum(turns(other) for other in others)


def raises(expected, act):
    """The error of that class (or one of those) that the act ends with."""
    try:
        outcome = act()
    except expected as error:
        return error
    raise AssertionError(f"no error, but {outcome!r}")


def play(scenarios, cannot) -> None:
    """Plays all scenarios, or those that the command line names, and says what came of each."""
    wanted = sys.argv[1:]
    failed = False
    for name, reason in cannot.items():
        if not wanted:
            print(f"cannot {name}: {reason}", flush=True)
    for scenario in scenarios:
        name = scenario.__name__
        if wanted and name not in wanted:
            continue
        try:
            scenario()
        except Exception as error:
            failed = True
            traceback.print_exc()
            print(f"FAILED {name}: {type(error).__name__}: {' '.join(str(error).split())[:500]}", flush=True)
        else:
            print(f"ok {name}", flush=True)
    sys.exit(1 if failed else 0)
