"""Writes the binary files of this folder. Run once: python make.py."""

import io
import zipfile
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

HERE = Path(__file__).parent
ISLAND = [
    (
        "How do I get to the island?",
        "By the boat at 9:30.",
        ["The boat leaves at 9:30.", "It takes 40 minutes."],
        "By boat",
    ),
    ("Is there a doctor?", "Only in July and August.", ["A doctor is present in July and August."], "In summer only"),
    (
        "Are tents allowed?",
        "Tents are allowed on the north beach.",
        ["Camping: north beach.", "Fires are banned."],
        "North beach",
    ),
]


def workbook(name: str, sheets: dict[str, list[list[object]]]) -> None:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.save(HERE / name)


def flat(row: tuple[str, str, list[str], str]) -> list[object]:
    query, response, contexts, reference = row
    return [query, response, "\n".join(contexts), reference]


HEADER: list[object] = ["Question", "Answer", "Contexts", "Reference"]
workbook("island.xlsx", {"Sheet1": [HEADER, *map(flat, ISLAND)]})
notes = [["Evaluation of the island bot"], ["Owner", "Tourist office"], ["Status", "draft"]]
workbook("audit.xlsx", {"Read me": notes, "Results": [HEADER, *map(flat, ISLAND)]})
title = [["Island bot, test of November", None, None, None], [None] * 4, HEADER, *map(flat, ISLAND)]
workbook("titled.xlsx", {"Test": title})
numbered = [["ID", "Question", "Answer", "context_1", "context_2", "Expected answer", "Checked on"]]
for number, (query, response, contexts, reference) in enumerate(ISLAND):
    numbered.append([number, query, response, *[*contexts, None][:2], reference, "2024-11-05"])
workbook("numbered.xlsx", {"Tabelle1": numbered})

autorag = [
    {
        "qid": f"a{number}",
        "query": query,
        "retrieval_gt": [[f"p{number}"]],
        "generation_gt": [reference],
        "retrieved_contents": contexts,
        "retrieved_ids": [f"p{number}{index}" for index in range(len(contexts))],
        "retrieve_scores": [0.9 - index / 10 for index in range(len(contexts))],
        "generated_texts": response,
    }
    for number, (query, response, contexts, reference) in enumerate(ISLAND)
]
pa.parquet.write_table(pa.Table.from_pylist(autorag), HERE / "autorag.parquet", compression="snappy")
hits = [
    {
        "input": query,
        "output": response,
        "documents": [{"page_content": text, "metadata": {"n": 1}} for text in contexts],
    }
    for query, response, contexts, _ in ISLAND
]
pa.parquet.write_table(pa.Table.from_pylist(hits), HERE / "hits.parquet", compression="zstd")
table = pa.Table.from_pylist(
    [{"user_input": q, "response": r, "retrieved_contexts": c, "reference": g} for q, r, c, g in ISLAND]
)
pa.feather.write_feather(table, str(HERE / "island.feather"), compression="uncompressed")
with pa.ipc.new_stream(str(HERE / "data-00000-of-00001.arrow"), table.schema) as stream:
    stream.write_table(table)

csv = io.StringIO("".join(["question,answer,context\n", *(f"{q},{r},{c[0]}\n" for q, r, c, _ in ISLAND)]))
with zipfile.ZipFile(HERE / "archive.zip", "w") as archive:
    archive.writestr(zipfile.ZipInfo("island/eval.csv", (2024, 11, 5, 0, 0, 0)), csv.getvalue())
(HERE / "old.xls").write_bytes(bytes.fromhex("d0cf11e0a1b11ae1") + bytes(504))
