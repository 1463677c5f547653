"""Each client's visit to a gateway: how it is started, and what it must have seen there."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from ops.foreign.environment import Environment
from ops.hostile.outcome import Outcome
from ops.hostile.place import MODEL

_HERE = Path(__file__).parent
_VISIT_SECONDS = 300
_NUM_PROMPTS = 40

OPENAI = ("openai==3.57.0",)
LOCUST = ("locust==2.47.0",)
GUIDELLM = (
    *("click~=8.4.0", "culsans~=0.10.0", "datasets>=5.0.1", "eval_type_backport", "faker"),
    *("ftfy>=6", "httpx[http2]<1", "loguru", "msgpack", "numpy>=2", "protobuf", "pydantic>=2.11.7"),
    *("pydantic-settings>=2", "pyyaml>=6", "rich", "sanic", "tabulate", "transformers"),
    *("uvloop>=0.18", "more-itertools>=10.8", "typing-extensions>=4.15", "websockets>=13"),
    *("sympy", "networkx", "jinja2"),
)
"""All that guidellm wants but torch."""


def visit_openai(address: str, environments: Path, folder: Path, outcome: Outcome) -> None:
    """The session of `openai_session.py`."""
    environment = Environment(folder=environments / "openai", requirements=OPENAI)
    environment.make()
    script = str(_HERE / "openai_session.py")
    said = _run([str(environment.bin / "python"), script, address], folder / "openai.log")
    seen = json.loads(said.splitlines()[-1])
    outcome.figures |= {f"openai {name}": value for name, value in seen.items()}
    for name, expected in _EXPECTED.items():
        outcome.expect(seen[name] == expected, f"openai {name} is {expected}, not {seen[name]}")
    outcome.expect(
        seen["limited_answered"] == 3 and seen["limited_seconds"] > 1,
        f"a limited tenant's calls are answered once it has waited: {seen['limited_failed']}",
    )


_EXPECTED: dict[str, Any] = {
    "models": [MODEL],
    "usage_tokens": 8,
    "finish_reason": "length",
    "event_kinds": ["chunk", "content.delta", "content.done"],
    "answered": 60,
    "choices": 90,
    "left": 12,
    "timed_out": True,
    "refused": {
        "no model": ["NotFoundError", "model_not_found", True],
        "no messages": ["BadRequestError", "invalid_value", True],
        "too long": ["BadRequestError", "context_length_exceeded", True],
        "tools": ["BadRequestError", "unsupported_parameter", True],
    },
}


def visit_locust(address: str, environments: Path, folder: Path, outcome: Outcome) -> None:
    """Twenty users for fifteen seconds."""
    environment = Environment(folder=environments / "locust", requirements=LOCUST)
    environment.make()
    command = [str(environment.bin / "locust"), "-f", str(_HERE / "locust_file.py"), "--headless"]
    command += ["-u", "20", "-r", "10", "-t", "15s", "--host", address, "--json"]
    command += ["--exit-code-on-error", "0"]
    said = _run(command, folder / "locust.log")
    names = set()
    for row in json.loads(said[said.index("[") :]):
        name = row["name"]
        names.add(name)
        outcome.figures[f"locust {name}"] = row["num_requests"]
        outcome.expect(
            row["num_failures"] == 0 < row["num_requests"],
            f"of {row['num_requests']} calls of locust none fails, {row['num_failures']}: {name}",
        )
    outcome.expect(names == {"stream", "whole", "models"}, f"locust made every call: {names}")


def visit_guidellm(address: str, environments: Path, folder: Path, outcome: Outcome) -> None:
    """A benchmark of forty chats, six at once, after it has looked at the server's health."""
    environment = Environment(
        folder=environments / "guidellm",
        requirements=GUIDELLM,
        without_dependencies=("guidellm==0.8.1",),
        borrows_torch=True,
    )
    environment.make()
    prompts, report = folder / "prompts.jsonl", folder / "guidellm.json"
    lines = [{"prompt": f"Tell me of harbour number {n}."} for n in range(_NUM_PROMPTS)]
    prompts.write_text("\n".join(json.dumps(line) for line in lines))
    command = [str(environment.bin / "guidellm"), "run", "--disable-console-interactive"]
    command += ["--backend", f"kind=openai_http,target={address},model={MODEL},max_tokens=24"]
    command += ["--profile", "kind=concurrent,streams=6"]
    command += ["--constraint", f"kind=max_requests,count={_NUM_PROMPTS}"]
    command += ["--data", f"kind=json_file,path={prompts}"]
    command += ["--output", f"kind=json,path={report}"]
    _run(command, folder / "guidellm.log", GUIDELLM__MAX_WORKER_PROCESSES="1", HF_HUB_OFFLINE="1")
    [benchmark] = json.loads(report.read_text())["benchmarks"]
    requests = benchmark["requests"]
    successful, errored = requests["successful"], requests["errored"]
    tokens = {each["output_metrics"]["text_tokens"] for each in successful}
    outcome.figures |= {"guidellm successful": len(successful), "guidellm tokens": sorted(tokens)}
    why = errored[0]["info"]["error"] if errored else None
    outcome.expect(
        len(successful) == _NUM_PROMPTS, f"guidellm had {len(successful)} answers; else {why}"
    )
    outcome.expect(tokens <= set(range(1, 25)), f"guidellm counts tokens of the usage: {tokens}")


def _run(command: list[str], log_path: Path, **environment: str) -> str:
    """What it printed; what it told beside that is in the log. Raises CalledProcessError."""
    with log_path.open("wb") as log:
        return subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=log,
            check=True,
            text=True,
            timeout=_VISIT_SECONDS,
            env={name: v for name, v in os.environ.items() if name != "PYTHONPATH"} | environment,
        ).stdout
