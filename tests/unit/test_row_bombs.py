"""Small files that describe gigabytes: each reader refuses the row, with its place, in bounded memory."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ragstone._util.parquet_rows import parquet_rows
from ragstone.errors import DataError
from ragstone.reading import read_samples

MIB = 2**20
GOOD = {"id": "g", "query": "q", "response": "a", "contexts": ["p"]}
READ = """
import sys
from pathlib import Path
from ragstone.reading import iter_samples
from ragstone.reading import InputFile
from ragstone.reading._formats import all_formats
from ragstone.errors import DataError, ConfigurationError
for name in sys.argv[1:]:
    path, rejected, n = Path(name), [], 0
    try:
        if path.suffix == ".gz":
            rejected += all_formats()["rows"].read(InputFile(path=path, name=name))
        else:
            for sample in iter_samples(path, rejected, on_bad_row="skip"):
                n += 1
        said = rejected[0].reason if rejected else ""
    except DataError as error:
        said = str(error)
    print(n, " ".join(said.split())[:500], sep="|")
# Not `ru_maxrss`, which contains the memory of the process that started this one.
(peak,) = [line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
print(int(peak) // 1024)
"""


def repeated(text: str, n: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array([0] * n, pa.int32()), pa.array([text]))


def write_parquet(path: Path) -> Callable[..., None]:
    return lambda **columns: pq.write_table(pa.table(columns), path, compression="zstd")


def write_bombs(folder: Path) -> dict[str, tuple[int, str]]:
    """Write files, and return how many rows each has that can be read, and what is said about the others."""
    lines = folder / "array.jsonl", folder / "objects.jsonl", folder / "long.jsonl", folder / "deep.jsonl"
    values = (
        b"[" + b'"x",' * 3 * MIB + b'"x"]',
        b"[" + b"{}," * 3 * MIB + b"{}]",
        b'"%s"' % (b"y" * 100 * MIB),
        b"[" * MIB,
    )
    for path, value in zip(lines, values, strict=True):
        good = json.dumps(GOOD).encode()
        path.write_bytes(
            good + b'\n{"query":"q","response":"a","metadata":%s}\n' % value + good.replace(b'"g"', b'"h"')
        )
    (folder / "list.json").write_bytes(b"[" + b"7," * 20 * MIB + b"7]")
    (folder / "item.json").write_bytes(b'[{"query": [' + b"[]," * 12 * MIB + b"[]]}]")
    (folder / "cell.csv").write_bytes(b'query,response\nq,a\n"' + b"z\n" * 20 * MIB + b'",a\n')
    write_parquet(folder / "text.parquet")(query=repeated("x" * 20 * MIB, 300), response=repeated("a", 300))
    write_parquet(folder / "array.parquet")(query=["q"], response=["a"], contexts=[["x"] * 3 * MIB])
    with gzip.open(folder / "zeros.jsonl.gz", "wb", 9) as file:
        for _ in range(300):
            file.write(b"0" * MIB)
    return {
        "array.jsonl": (2, "line 2: it has more than 500000 lists and objects, or 1000000 values"),
        "objects.jsonl": (2, "line 2: it has more than 500000 lists"),
        "long.jsonl": (2, "line 2: longer than 16777216 bytes"),
        "deep.jsonl": (2, "line 2: it has more than 500000 lists"),
        "list.json": (0, "100000 of 100,000 rows cannot be read"),
        "item.json": (0, "item.json' has an item"),
        "cell.csv": (0, "a row of more than 16777216 characters"),
        "text.parquet": (0, "row 1 has more than 16777216 bytes"),
        "array.parquet": (0, "row 1 has more than 16777216 bytes"),
        "zeros.jsonl.gz": (0, "line 1: longer than 16777216 bytes"),
    }


def test_bombs_are_refused_in_bounded_memory(tmp_path):
    """None is unpacked, the rows around it are read, and the peak of all together is below 512 MB."""
    expected = write_bombs(tmp_path)
    paths = [str(tmp_path / name) for name in expected]
    done = subprocess.run([sys.executable, "-c", READ, *paths], capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr[-2000:]
    *said, peak = done.stdout.splitlines()
    for (name, (n, part)), line in zip(expected.items(), said, strict=True):
        found, _, text = line.partition("|")
        assert n == int(found), (name, line)
        assert part in text, (name, line)
    assert int(peak) < 512


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_ordinary_files_have_all_their_rows(tmp_path, compression, version):
    """Dictionaries, lists, structs, maps, missing values, several row groups, and both versions of pages."""
    rows = [
        {
            "id": str(i),
            "query": None if i % 7 == 3 else f"question {i % 5} \N{SNOWMAN}",
            "contexts": None if i % 11 == 4 else [{"text": f"passage {i % 3}", "tags": ["a"] * (i % 4)}] * (i % 3),
            "score": i / 3,
            "raw": b"\x00\x01",
        }
        for i in range(500)
    ]
    path = tmp_path / "rows.parquet"
    table = pa.Table.from_pylist(rows)
    pairs = pa.array([[("a", i)] if i % 2 else None for i in range(500)], pa.map_(pa.string(), pa.int64()))
    table = table.append_column("pairs", pairs)
    pq.write_table(
        table, path, compression=compression, data_page_version=version, row_group_size=170, data_page_size=512
    )
    assert table.to_pylist() == [row for _, row in parquet_rows(path, extra="x")]
    assert list(range(1, 501)) == [number for number, _ in parquet_rows(path, extra="x")]


def test_damaged_parquet_is_bad_data(tmp_path):
    """Whatever byte is another one: rows, or `DataError`."""
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pylist([GOOD | {"id": str(i)} for i in range(50)]), path)
    content = path.read_bytes()
    n_errors = 0
    for at in range(0, len(content), max(1, len(content) // 300)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :])
        try:
            read_samples(path, on_bad_row="skip")
        except DataError:
            n_errors += 1
    assert n_errors > 20


def test_a_list_of_a_large_document(tmp_path):
    """It is read in parts, also after other members and with a byte order mark, and only if the user names it."""
    rows = [GOOD | {"id": str(i), "response": "x" * 200_000} for i in range(100)]
    path = tmp_path / "results.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps({"about": {"n": 1}, "b": {"c": rows[:2]}, "results": rows}).encode())
    with pytest.raises(DataError, match=r"such as --rows results, or .* jq -c '\.results\[\]' "):
        read_samples(path)
    samples, _ = read_samples(path, rows="results")
    assert [str(i) for i in range(100)] == [sample.id for sample in samples]
    samples, _ = read_samples(path, rows="b.c", limit=1)
    assert ["0"] == [sample.id for sample in samples]
    with pytest.raises(DataError, match="has an item of more than 16777216 bytes, or as many before its list"):
        read_samples(path, rows="c")
    path.write_text(json.dumps({"about": [{"id": i} for i in range(600_000)], "results": rows[:1]}))
    with pytest.raises(DataError, match="does not have an item at 'c'"):
        read_samples(path, rows="c")


def test_a_large_list_is_read_in_parts(tmp_path):
    """Its rows are those of the document, without an option."""
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([GOOD | {"id": str(i), "response": "x" * 200_000} for i in range(100)]))
    samples, _ = read_samples(path)
    assert [str(i) for i in range(100)] == [sample.id for sample in samples]
