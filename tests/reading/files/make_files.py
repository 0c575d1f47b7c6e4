"""Write the files of this directory that are not text, and those that Ragstone itself writes.

Run it in an environment with ragstone[parquet], pandas, polars and openpyxl: `python tests/reading/files/make_files.py`.
All other files of the directory are written by hand.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
from pyarrow import feather

from ragstone import Passage, Retrieval, Trace

HERE = Path(__file__).parent

ROWS = [
    {
        "question": "How many steps lead to the gallery?",
        "contexts": ["The gallery is reached by 212 steps.", "There is no lift in the tower."],
        "answer": "212 steps lead to the gallery.",
        "reference": "212",
    },
    {
        "question": "Wer läutet die Glocke?",
        "contexts": ["Die Glocke wird von Hand geläutet, sonntags um zehn Uhr."],
        "answer": "Sie wird von Hand geläutet.",
        "reference": "Freiwillige läuten sie von Hand.",
    },
    {
        "question": "When was the clock repaired?",
        "contexts": ["The clock stopped in 2019 and was repaired in 2021.", "Its dial has a diameter of 3 meters."],
        "answer": "In 2021.",
        "reference": "2021",
    },
]


def autorag() -> pd.DataFrame:
    """Return what AutoRAG keeps of an evaluated node: rows of the question set with what was retrieved and generated."""
    return pd.DataFrame(
        [
            {
                "qid": f"f63a{number}",
                "query": row["question"],
                "retrieval_gt": [[f"doc-{number}-0"], [f"doc-{number}-7"]],
                "generation_gt": [row["reference"], row["answer"]],
                "retrieved_contents": row["contexts"],
                "retrieved_ids": [f"doc-{number}-{place}" for place, _ in enumerate(row["contexts"])],
                "retrieve_scores": [0.875 - place / 4 for place, _ in enumerate(row["contexts"])],
                "generated_texts": row["answer"],
            }
            for number, row in enumerate(ROWS)
        ]
    )


def phoenix() -> pd.DataFrame:
    """Return the spans of two requests, as Phoenix has them in a data frame."""
    spans = []
    for number, row in enumerate(ROWS[:2]):
        times = {"start_time": pd.Timestamp("2026-03-02", tz="UTC"), "end_time": pd.Timestamp("2026-03-03", tz="UTC")}
        common = {**times, "status_code": "OK", "status_message": "", "context.trace_id": f"{number + 1:032x}"}
        root = f"{number + 1:016x}"
        documents = [
            {"document.id": f"p{place}", "document.content": text, "document.score": 0.9 - place / 10}
            for place, text in enumerate(row["contexts"])
        ]
        spans += [
            {
                "name": "ask",
                "span_kind": "CHAIN",
                "parent_id": None,
                **common,
                "context.span_id": root,
                "attributes.openinference.span.kind": "CHAIN",
                "attributes.input.value": row["question"],
                "attributes.output.value": row["answer"],
            },
            {
                "name": "retriever",
                "span_kind": "RETRIEVER",
                "parent_id": root,
                **common,
                "context.span_id": f"{number + 16:016x}",
                "attributes.openinference.span.kind": "RETRIEVER",
                "attributes.input.value": row["question"],
                "attributes.retrieval.documents": documents,
            },
        ]
    return pd.DataFrame(spans).set_index("context.span_id", drop=False)


def workbook() -> openpyxl.Workbook:
    """Return a workbook with a sheet of answers, passages in numbered columns, and a sheet of notes."""
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Answers"
    sheet.append(["ID", "Question", "Context 1", "Context 2", "Answer", "Reference", "Checked"])
    for number, row in enumerate(ROWS, 1):
        first, second = (*row["contexts"], None)[:2]
        sheet.append([number, row["question"], first, second, row["answer"], row["reference"], number % 2 == 1])
    notes = book.create_sheet("Notes")
    notes.append(["Answers of the March release. Ask the tower team."])
    return book


def traces() -> list[Trace]:
    """Return three requests as Ragstone captures them."""
    return [
        Trace(
            trace_id=f"t-own-{number}",
            name="tower",
            query=row["question"],
            retrievals=[
                Retrieval(
                    query=row["question"],
                    passages=[Passage(id=f"p{place}", text=text) for place, text in enumerate(row["contexts"])],
                )
            ],
            response=row["answer"],
            started_at=1772438400.0 + number,
            ended_at=1772438401.0 + number,
        )
        for number, row in enumerate(ROWS, 1)
    ]


def ragstone(*arguments: str | Path) -> None:
    """Run the command line."""
    command: list[Any] = [Path(sys.executable).with_name("ragstone"), *arguments]
    subprocess.run(command, check=True, capture_output=True)


def main() -> None:
    """Write all of these files."""
    autorag().to_parquet(HERE / "autorag.parquet")
    phoenix().to_parquet(HERE / "phoenix-spans.parquet")
    pl.DataFrame(ROWS).write_parquet(HERE / "polars.parquet")
    table = pa.Table.from_pylist(ROWS)
    feather.write_feather(table, str(HERE / "answers.feather"))
    with pa.OSFile(str(HERE / "hugging-face.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    workbook().save(HERE / "answers.xlsx")

    own = HERE / "ragstone-traces.jsonl"
    own.write_text("".join(trace.model_dump_json() + "\n" for trace in traces()), encoding="utf-8")
    with tempfile.TemporaryDirectory() as directory:
        store, lexical = Path(directory, "tower.db"), ("--judge", "lexical", "--metrics", "ccrs.cc,ccrs.qr")
        ragstone("replay", own, "--store", store, *lexical)
        ragstone("store", "export", store, HERE / "ragstone-export-texts.jsonl", "--texts")
        ragstone("store", "export", store, HERE / "ragstone-export.jsonl")
        ragstone("evaluate", HERE / "ragas-old-names.csv", "-o", Path(directory, "run.jsonl"), *lexical)
        (HERE / "ragstone-outcomes.jsonl").write_bytes(Path(directory, "run.jsonl").read_bytes())


if __name__ == "__main__":
    main()
