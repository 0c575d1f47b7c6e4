"""Record the applications in `producers/` with their real instrumentations, into `data/`.

    python tests/replay/record_producers.py pydantic_ai --python ENV/bin/python
    python tests/replay/record_producers.py vercel_ai --python node

Each application runs in an environment of its own, which has the framework, its instrumentation,
`opentelemetry-sdk` and `opentelemetry-exporter-otlp-proto-http` (for `vercel_ai`: a directory with `ai`, which NODE_PATH
or the working directory names). The model is `producers/model_server.py` on the loopback interface. Continuous
integration reads the recordings and does not make them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from producers import model_server

HERE = Path(__file__).parent
DATA = HERE / "data"
_STACK = "exception.stacktrace"
_SILENT = {
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "VERCEL_TELEMETRY_DISABLED": "1",
}


def record(name: str, interpreter: str, variant: str) -> Path:
    """Run an application and write the spans that it exported.

    Args:
        name: Name of the application, without "_app".
        interpreter: Python or Node with its packages.
        variant: Passed on in the environment variable VARIANT; part of the file's name unless it is empty.
    """
    application = next((HERE / "producers").glob(f"{name}_app.*"))
    with tempfile.TemporaryDirectory() as directory, model_server.serving() as url:
        recording = Path(directory) / "spans.jsonl"
        variables = {"OPENAI_BASE_URL": url, "OPENAI_API_BASE": url, "OPENAI_API_KEY": "none", "VARIANT": variant}
        variables |= {"RECORDING": str(recording), "HOME": directory, **_SILENT}
        subprocess.run([interpreter, str(application)], check=True, env=os.environ | variables)
        lines = recording.read_text(encoding="utf-8").splitlines()
    target = DATA / f"{name}{f'_{variant}' if variant else ''}.otlp.jsonl"
    port = re.compile(re.escape(url.removesuffix("/v1").removeprefix("http://")))
    cleaned = (port.sub("127.0.0.1:8000", json.dumps(_without_machine(json.loads(line)))) for line in lines)
    target.write_text("".join(f"{line}\n" for line in cleaned), encoding="utf-8")
    return target


def _without_machine(value: Any) -> Any:
    """Return a message without stack traces, process and host attributes, and ports of the machine that recorded it."""
    if isinstance(value, list):
        return [_without_machine(item) for item in value if not _names_machine(item)]
    if isinstance(value, dict):
        return {key: _without_machine(item) for key, item in value.items()}
    return value


def _names_machine(item: Any) -> bool:
    key = item.get("key") if isinstance(item, dict) else None
    return isinstance(key, str) and (
        key in (_STACK, "server.port", "net.peer.port", "code.filepath", "code.file.path")
        or key.startswith(("host.", "process.", "thread.", "os.", "service.instance"))
    )


def main() -> None:
    """Record one application."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("--python", default=sys.executable, dest="interpreter")
    parser.add_argument("--variant", default="")
    arguments = parser.parse_args()
    target = record(arguments.name, arguments.interpreter, arguments.variant)
    sys.stdout.write(f"{target.name}: {target.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
