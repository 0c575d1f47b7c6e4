"""A process in which an application is recorded by another tool and by us: `python beside.py FRAMEWORK TOOL FOLDER`.

The folder has the export afterwards (`export`), and what we captured (`captured`, one trace a line).
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))


def instrumentor(framework: str, tool: str):
    """The other tool's."""
    if (framework, tool) == ("langchain", "openinference"):
        from openinference.instrumentation.langchain import LangChainInstrumentor as Instrumentor
    elif (framework, tool) == ("langchain", "traceloop"):
        from opentelemetry.instrumentation.langchain import LangchainInstrumentor as Instrumentor
    elif tool == "openinference":
        from openinference.instrumentation.llama_index import LlamaIndexInstrumentor as Instrumentor
    else:
        from opentelemetry.instrumentation.llamaindex import LlamaIndexInstrumentor as Instrumentor
    return Instrumentor()


def main(framework: str, tool: str, folder: Path) -> None:
    """Record."""
    from ragstone.capture import Capture
    from ragstone.spool import SpoolReader, SpoolWriter
    from replay_apps import exported

    spool = folder / "spool"
    with (
        Capture(partial(SpoolWriter, spool)) as capture,
        exported.recorded(instrumentor(framework, tool)) as (_, exporter),
    ):
        if framework == "langchain":
            from langchain_ragstone import RagstoneCallbackHandler
            from replay_apps import langchain_app

            langchain_app.run_all([RagstoneCallbackHandler(capture)])
        else:
            from llama_index.observability.ragstone import RagstoneInstrumentor
            from replay_apps import llama_index_app

            ours = RagstoneInstrumentor(capture)
            ours.start_registering()
            llama_index_app.run_all()
            ours.stop_registering()
        (folder / "export").write_text(exported.as_lines(exporter.get_finished_spans()), encoding="utf-8")
    reader = SpoolReader(spool)
    entries = [entry for segment in reader.segments() for entry in reader.read(segment.name, max_entries=1000).entries]
    lines = [entry.trace.model_dump_json() for entry in entries]
    (folder / "captured").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
