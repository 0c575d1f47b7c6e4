"""A process in which an application is traced by MLflow and by us: `python mlflow_beside.py FOLDER`.

The folder has the export afterwards (`export`), and what we captured (`captured`, one trace a line).
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))


def main(folder: Path) -> None:
    """Record."""
    # Before it is imported: MLflow reports home otherwise.
    os.environ |= {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    import mlflow

    from langchain_ragstone import RagstoneCallbackHandler
    from ragstone.capture import Capture
    from ragstone.spool import SpoolReader, SpoolWriter
    from replay_apps import langchain_app

    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    # Otherwise its artifacts land in `mlruns`, wherever the process was started.
    mlflow.create_experiment("lighthouse", artifact_location=(folder.absolute() / "artifacts").as_uri())
    mlflow.set_experiment("lighthouse")
    mlflow.langchain.autolog()
    with Capture(partial(SpoolWriter, folder / "spool")) as capture:
        langchain_app.run_all([RagstoneCallbackHandler(capture)])
    mlflow.flush_trace_async_logging()
    traces = mlflow.search_traces(return_type="list")
    (folder / "export").write_text("".join(f"{trace.to_json()}\n" for trace in traces), encoding="utf-8")
    reader = SpoolReader(folder / "spool")
    entries = [entry for segment in reader.segments() for entry in reader.read(segment.name, max_entries=1000).entries]
    lines = [entry.trace.model_dump_json() for entry in entries]
    (folder / "captured").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
