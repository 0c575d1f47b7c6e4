"""Writes further workbooks of this folder. Run once: python make_more.py."""

import datetime as dt
from pathlib import Path

import openpyxl

HERE = Path(__file__).parent
HEADER = ["Question", "Answer", "Context", "Reference"]


def save(name: str, sheets: dict[str, list[list[object]]]) -> openpyxl.Workbook:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.save(HERE / name)
    return book


values: list[list[object]] = [
    HEADER,
    ["Which share of members sings alto?", 0.15, "Altos are 15% of the members.", 0.15],
    ["When is the concert?", dt.date(2024, 6, 7), "The concert is on 7 June 2024.", dt.date(2024, 6, 7)],
    ["Is it free?", True, "Entry is free.", True],
    ["How many singers are there?", 42, "There are 42 singers.", 42],
]
book = save("typed_cells.xlsx", {"Test": values})
for cell in ("B2", "D2"):
    book["Test"][cell].number_format = "0%"
book.save(HERE / "typed_cells.xlsx")
save(
    "formulas.xlsx",
    {
        "Test": [
            HEADER,
            ["Who leads it?", '="Ada "&"Blum"', "Ada Blum leads it.", "Ada Blum"],
            ["Where?", "Here.", "It is here.", "Here"],
        ]
    },
)
save(
    "two_sheets.xlsx",
    {
        month: [
            HEADER,
            [f"Question of {month}?", "Yes.", "Yes, it is.", "Yes"],
            [f"Why {month}?", "So.", "So it is.", "So"],
        ]
        for month in ("October", "November")
    },
)
save(
    "blocks.xlsx",
    {
        "Test": [
            HEADER,
            ["Who?", "Ada.", "Ada leads.", "Ada"],
            ["When?", "May.", "In May.", "May"],
            [None] * 4,
            ["Mean", None, None, 0.5],
            [None] * 4,
            ["Round 2"],
            HEADER,
            ["What?", "A song.", "A song is sung.", "A song"],
        ]
    },
)
