"""Records come one by one out of whatever file holds them, and what cannot be read is told and skipped."""

from __future__ import annotations

import json
import sys
import tracemalloc
from datetime import UTC, datetime
from itertools import islice

import pytest

from ragstone.errors import ConfigurationError, DataError, MissingExtraError
from ragstone.reading import InputFile, RejectedRecord
from ragstone.reading._json import MAX_DEPTH, clean, parse_json
from ragstone.reading._records import records
from ragstone.reading._source import open_inputs


@pytest.fixture
def read_records(tmp_path):
    """Read bytes: places with values, or with reasons."""

    def run(content, **options):
        path = tmp_path / "export"
        path.write_bytes(content)
        return [
            (item.place, item.reason if isinstance(item, RejectedRecord) else item.value)
            for item in records(InputFile(path, "export"), **options)
        ]

    return run


@pytest.mark.parametrize(
    "content",
    [
        b'{"a": 1}\n{"a": 2}\n',
        b'\xef\xbb\xbf{"a": 1}\r\n\r\n{"a": 2}',
        b'[{"a": 1}, {"a": 2}]',
        b'[\n  {"a": 1},\n  {"a": 2}\n]\n',
        b'[{"a": 1},\n{"a": 2}]',
        b'[{"a": 1}\n,{"a": 2}]',
        b'{"data": [{"a": 1}, {"a": 2}], "meta": {"page": 1}}',
        b'{"data": [{"a": 1}]}\n{"data": [{"a": 2}]}\n',
        b'{\n "meta": {"page": 1},\n "data": [\n  {"a": 1},\n  {"a": 2}\n ]\n}',
    ],
)
def test_the_shape_of_a_file_does_not_matter(read_records, content):
    """Lines, a list, pages of an API, pretty-printed or not: the same records."""
    assert [{"a": 1}, {"a": 2}] == [value for _, value in read_records(content)]


@pytest.mark.parametrize(
    ("content", "places"),
    [
        (
            b'{"data": [{"a": 1}, {"a": 2}]}\n{"data": [{"a": 3}]}\n',
            ["line 1 item 1", "line 1 item 2", "line 2 item 1"],
        ),
        (b'[\n{"a": 1},\n{"a": 2}\n]', ["item 1", "item 2"]),
        (b'{\n"a": 1\n}', ["the document"]),
        (b'{"a": 1}\n\n{"a": 2}', ["line 1", "line 3"]),
    ],
)
def test_each_record_has_its_place(read_records, content, places):
    """So that it is found in the file."""
    assert places == [place for place, _ in read_records(content)]


def test_a_bad_line_is_told_and_the_rest_goes_on(read_records):
    """A line that is no JSON is one rejection with its number, also when it is the first."""
    found = read_records(b'{"a": 1\n{"a": 2}\nnonsense\n{"a": 3}\n')

    assert ["line 1", "line 2", "line 3", "line 4"] == [place for place, _ in found]
    assert [{"a": 2}, {"a": 3}] == [value for _, value in found if isinstance(value, dict)]
    assert "not valid JSON: Expecting" in found[0][1]


def test_a_torn_last_line_says_so(read_records):
    """Its writer may have been killed: what came before counts."""
    found = read_records(b'{"a": 1}\n{"a": ')

    assert ("line 1", {"a": 1}) == found[0]
    assert "line 2" == found[1][0]
    assert found[1][1].startswith("the file ends inside it")


def test_damage_in_a_document_is_a_data_error(read_records):
    """A pretty-printed document has no next record to continue with."""
    with pytest.raises(DataError, match="'export' is not valid JSON"):
        read_records(b'{\n "data": [\n  {"a": 1},\n')


@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b'{"a":' * 5000, b'{"a":' * (MAX_DEPTH + 5) + b"1" + b"}" * (MAX_DEPTH + 5)]
)
def test_what_nests_too_deep_is_rejected(read_records, content):
    """Neither a crash nor a trace that no one can write again."""
    ((_, reason),) = read_records(content + b"\n")

    assert f"nested more than {MAX_DEPTH} levels deep" in reason
    assert [reason, {"a": 1}] == [value for _, value in read_records(content + b'\n{"a": 1}\n')]


def test_what_json_cannot_hold_is_made_plain():
    """Lone surrogates, NaN, and numbers of any size come out as what can be written in UTF-8 JSON."""
    value = parse_json(b'{"a": "\\ud800x", "b": NaN, "c": 1e999, "d": %s, "\\udfff": "\\ud83d\\ude00"}' % (b"9" * 30))

    assert {"a": "�x", "b": None, "c": None, "d": "9" * 30, "�": "😀"} == value
    assert json.dumps(value, ensure_ascii=False).encode()
    assert "<object>" == clean(object())
    assert "2026-03-01T12:00:00+00:00" == clean(datetime(2026, 3, 1, 12, tzinfo=UTC))
    assert ["1" + "0" * 30, "<int>", "<int>"] == clean([10**30, 10**5000, -(10**5000)])


def test_a_huge_number_is_no_bomb(read_records):
    """Python refuses to turn thousands of digits into a number, and so the line is rejected."""
    ((place, reason),) = read_records(b'{"a": ' + b"9" * 5000 + b"}\n")

    assert "line 1" == place
    assert "not valid JSON" in reason


def test_a_line_beyond_the_limit_is_passed_over(read_records, monkeypatch):
    """It is told and costs no memory; the next one is read."""
    for name in ("reading._source.MAX_RECORD_BYTES", "reading._json.MAX_ROW_BYTES", "_util.row_limits.MAX_ROW_BYTES"):
        monkeypatch.setattr(f"ragstone.{name}", 100)
    found = read_records(b'{"a": 1}\n{"a": "' + b"x" * 5000 + b'"}\n{"a": 2}\n')

    assert [("line 1", {"a": 1}), ("line 2", "longer than 100 bytes"), ("line 3", {"a": 2})] == found
    # The only line is one of a file of lines, unless it begins like a document.
    assert [("line 1", "longer than 100 bytes")] == read_records(b'"' + b"x" * 5000 + b'"\n')


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("name", [None, "data"])
def test_a_large_document_is_read_piece_by_piece(tmp_path, monkeypatch, indent, name):
    """The first records are there before the file is in memory, and each is the same as in a small document."""
    pytest.importorskip("ijson")
    items = [{"n": n, "text": "x" * 10_000, "half": 0.5, "nan": None} for n in range(1000)]
    path = tmp_path / "large.json"
    path.write_text(json.dumps({"meta": 1, name: items} if name else items, indent=indent), encoding="utf-8")
    for limit in (
        "_util.row_limits.MAX_ROW_BYTES",
        "reading._json.MAX_ROW_BYTES",
        "reading._source.MAX_RECORD_BYTES",
    ):
        monkeypatch.setattr(f"ragstone.{limit}", 2**20)

    tracemalloc.start()
    found = list(islice(records(InputFile(path, "large")), 3))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert items[:3] == [record.value for record in found]
    assert 1000 == sum(1 for _ in records(InputFile(path, "large")))
    assert peak < 8 * 2**20 < path.stat().st_size


def test_a_record_without_end_in_a_large_document_is_a_data_error(tmp_path, monkeypatch):
    """One value of a large document cannot fill the memory."""
    pytest.importorskip("ijson")
    monkeypatch.setattr("ragstone._util.row_limits.MAX_ROW_BYTES", 2**16)
    monkeypatch.setattr("ragstone.reading._source.MAX_RECORD_BYTES", 2**16)
    path = tmp_path / "large.json"
    path.write_text(json.dumps([{"n": 1}, {"text": "x" * 4 * 2**20}]), encoding="utf-8")

    with pytest.raises(DataError, match="has an item of more than 65536 bytes"):
        list(records(InputFile(path, "large")))


def test_a_large_document_without_the_package_says_what_to_install(tmp_path, monkeypatch):
    """The way out is in the message; a small document needs nothing."""
    for name in ("reading._source.MAX_RECORD_BYTES", "reading._json.MAX_ROW_BYTES", "_util.row_limits.MAX_ROW_BYTES"):
        monkeypatch.setattr(f"ragstone.{name}", 1000)
    monkeypatch.setitem(sys.modules, "ijson", None)
    path = tmp_path / "large.json"
    path.write_text(json.dumps([{"n": 1, "text": "x" * 2000}]), encoding="utf-8")

    with pytest.raises(MissingExtraError, match=r"ragstone\[replay\]"):
        list(records(InputFile(path, "large")))
    path.write_text(json.dumps([{"n": 1, "text": "x" * 200}]), encoding="utf-8")
    assert 1 == len(list(records(InputFile(path, "small"))))


def test_parquet_damage_is_a_data_error(read_records):
    """A file that begins as Parquet and is none names the row that could not be read."""
    with pytest.raises(DataError, match="'export' cannot be read as Parquet from row 1"):
        read_records(b"PAR1" + b"\x00" * 100)


def test_a_folder_is_read_file_by_file(tmp_path):
    """A record's place names its file; damage in one says which."""
    (tmp_path / "b.jsonl").write_bytes(b'{"a": 2}\nx\n')
    (tmp_path / "a.jsonl").write_bytes(b'{"a": 1}\n')

    assert ["line 1 of a.jsonl", "line 1 of b.jsonl", "line 2 of b.jsonl"] == [
        item.place for item in records(InputFile(tmp_path, "folder"))
    ]


def test_links_out_of_a_folder_are_not_followed(tmp_path):
    """A folder from a stranger cannot have other folders read."""
    (tmp_path / "inside").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.jsonl").write_bytes(b'{"a": 1}\n')
    (tmp_path / "inside" / "link").symlink_to(tmp_path / "outside")
    (tmp_path / "inside" / "a.jsonl").write_bytes(b'{"a": 2}\n')

    assert [{"a": 2}] == [item.value for item in records(InputFile(tmp_path / "inside", "folder"))]


def test_a_folder_without_a_file_is_an_error(tmp_path):
    """Hidden files and notes of exporting tools are no files of it."""
    (tmp_path / "_SUCCESS").write_bytes(b"")
    (tmp_path / ".hidden.jsonl").write_bytes(b'{"a": 1}\n')

    with pytest.raises(DataError, match="'folder' is a folder with no file in it"):
        list(records(InputFile(tmp_path, "folder")))


def test_standard_input_has_a_name_of_its_own(monkeypatch):
    """A later run knows the same bytes again, and they can be read once in a run."""
    monkeypatch.setattr("ragstone.reading._source.copy_stdin", lambda target: target.write_bytes(b"x"))
    with open_inputs("-") as (source,):
        assert ("standard input", "standard input", b"x") == (source.name, source.identity, source.path.read_bytes())
    with pytest.raises(ConfigurationError, match="can be read only once"), open_inputs(["-", "-"]):
        pass
