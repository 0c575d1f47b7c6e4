"""Damaged copies of the files that Ragstone keeps, and what becomes of their content.

Each trial damages a copy of one file, reads all of it as the commands do, and compares it with the original.
"""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from completions import complete
from ragstone.errors import RagstoneError
from ragstone.judges import ReplyCache
from ragstone.schema import Captured, Dropped, Failure, Feedback, Passage, Retrieval, Score, Trace, spool_entry_adapter
from ragstone.spool import SpoolReader, SpoolWriter
from ragstone.store import DrawnRequest, PlannedMetric, SqliteStore, StoredLabel

PAGE = 4096
METRICS = (PlannedMetric(name="one", version="1"), PlannedMetric(name="two", version="1"))
SINK = "jsonl:out"


def flip_bits(content: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice([1, 1, 1, 8, 64])):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)


def truncate(content: bytearray, rng: random.Random) -> None:
    # A quarter of the files lose nearly all, as a header that is cut is another case than rows that are missing.
    del content[rng.randrange(min(len(content), rng.choice((200, *3 * (len(content),))))) :]


def zero_page(content: bytearray, rng: random.Random) -> None:
    start = rng.randrange(0, len(content), PAGE)
    content[start : start + PAGE] = bytes(len(content[start : start + PAGE]))


def swap_blocks(content: bytearray, rng: random.Random) -> None:
    one, other = (rng.randrange(0, max(1, len(content) - PAGE), 512) for _ in range(2))
    content[one : one + 512], content[other : other + 512] = content[other : other + 512], content[one : one + 512]


def repeat_block(content: bytearray, rng: random.Random) -> None:
    one, other = (rng.randrange(0, max(1, len(content) - PAGE), 512) for _ in range(2))
    content[one : one + 512] = content[other : other + 512]


DAMAGES = (flip_bits, truncate, zero_page, swap_blocks, repeat_block)


@dataclass
class Counts:
    """What became of the content of damaged files."""

    tried: int = 0
    unchanged: int = 0
    """Everything is read as it was, because the damage hit free space, or was repaired from another file."""
    refused: int = 0
    """A read ended with an error of Ragstone."""
    counted: int = 0
    """A part is missing, and the ledger or `store verify` says so."""
    lost: int = 0
    """Files of which a part is missing unseen."""
    doubled: int = 0
    """Files of which a part is there twice."""
    wrong: int = 0
    """Files of which a value or text is another one."""
    crashed: int = 0
    """Files that ended in an error that is not Ragstone's."""
    seconds: float = 0.0
    examples: list[str] = field(default_factory=list)
    """What happened to the first files that were lost, doubled, wrong or crashed."""

    def add(self, end: str, example: str) -> None:
        """Count a file."""
        self.tried += 1
        setattr(self, end, getattr(self, end) + 1)
        if end in ("lost", "doubled", "wrong", "crashed") and len(self.examples) < 20:
            self.examples.append(f"{end}: {example}")


def trace(n: int) -> Trace:
    passages = [
        Passage(text=f"Ferry {n} leaves pier {k} at {n % 24}:10 on each working day.", id=f"p{n}-{k}") for k in range(3)
    ]
    return Trace(
        trace_id=f"trace-{n}", query=f"When does ferry {n} leave?", response=f"At {n % 24}:10.", started_at=1e9 + n,
        retrievals=[Retrieval(query="ferry", passages=passages)], session_id=f"session-{n // 3}",
    )  # fmt: skip


def outcomes(n: int) -> list[Score | Failure]:
    return [
        Score(sample_id=f"trace-{n}", metric="one", metric_version="1", value=n % 7 / 7, method="exact", explanation=f"Because {n}."),
        Failure(sample_id=f"trace-{n}", metric="two", metric_version="1", kind="unparseable", reason="Two numbers.")
        if n % 5 == 0
        else Score(sample_id=f"trace-{n}", metric="two", metric_version="1", value=n % 3 / 3, method="exact"),
    ]  # fmt: skip


def fill(store: SqliteStore, start: int, stop: int) -> None:
    """Store requests with outcomes, deliveries, labels and feedback."""
    numbers = range(start, stop)
    feedback = [
        Feedback(request_id=f"trace-{n}", value=float(n % 2), comment=f"Comment {n}", given_at=5.0)
        for n in numbers
        if n % 4 == 0
    ]
    store.traces.ingest(f"segment-{start}", stop, [*(Captured(trace=trace(n)) for n in numbers), *feedback])
    for n in numbers:
        complete(store, f"trace-{n}", outcomes(n))
    store.labels.save([StoredLabel(f"trace-{n}", "ann", n % 3 / 2, 7.0) for n in numbers if n % 6 == 0])
    store.labels.save([DrawnRequest(f"trace-{n}", 0.5, n) for n in numbers if n % 6 == 0])


class Content(dict[str, dict[object, object]]):
    """What a store returns, by kind and id."""


def read_store(store: SqliteStore) -> tuple[Content, bool]:
    """Read all that commands read. Return it, and whether something is there twice."""
    kinds: dict[str, list[tuple[object, object]]] = {
        "traces": [(each.trace_id, each) for each in store.traces.read()],
        "outcomes": [(each.id, each) for each in store.outcomes.read()],
        "exported": [(row.delivery.outcome.id, row) for row in store.outcomes.export()],
        "labels": [((each.trace_id, each.author), each) for each in store.labels.read()],
        "frame": [(each.trace_id, each) for each in store.labels.drawn()],
        "feedback": [
            (n, each)
            for n in range(0, 60, 4)
            if (report := store.traces.explain(f"trace-{n}")) is not None
            for each in report.feedback
        ],
        # As a report reads them: from an index, without the outcomes.
        "counts": [
            (each.metric, (each.n_failed, each.n_not_applicable, sorted(zip(each.values, each.repeats, strict=True))))
            for each in store.outcomes.count()
        ],
    }
    ledger = store.ledger()
    kinds["ledger"] = [("total", ledger.total), *ledger.metrics.items()]
    return Content({kind: dict(pairs) for kind, pairs in kinds.items()}), any(
        len(pairs) > len(dict(pairs)) for pairs in kinds.values()
    )


def compare(before: Content, after: Content) -> str:
    """Return "unchanged", "lost" if something is missing, or "wrong" if something differs."""
    end = "unchanged"
    for kind, rows in before.items():
        for id_, row in rows.items():
            if id_ not in after[kind]:
                end = "lost"
            elif after[kind][id_] != row:
                if kind != "ledger":
                    return "wrong"
                end = "lost"
        if after[kind].keys() - rows.keys():
            return "wrong"
    return end


def trial_of_store(path: Path, before: Content) -> tuple[str, str]:
    """Read a damaged store, and verify it. Return how it ended."""
    try:
        with SqliteStore.open(path, mode="read") as store:
            after, doubled = read_store(store)
            end = "doubled" if doubled else compare(before, after)
            if end != "lost":
                return end, ""
            problems = store.upkeep.verify().n_problems
            return ("counted", "") if problems else ("lost", str({kind: len(rows) for kind, rows in after.items()}))
    except RagstoneError:
        pass
    return trial_of_export(path, before)


def trial_of_export(path: Path, before: Content) -> tuple[str, str]:
    """Export a store that was refused. What is saved is as it was."""
    rows = []
    try:
        with SqliteStore.open(path, mode="read") as store:
            rows.extend(store.outcomes.export(include_text=True, damaged=[]))
    except RagstoneError:
        return "refused", ""
    outcomes, traces = ([row.delivery.outcome for row in rows], [row.trace for row in rows if row.trace])
    if len(outcomes) > len({each.id for each in outcomes}):
        return "doubled", "in the export"
    same = all(before["outcomes"].get(each.id) == each for each in outcomes)
    same = same and all(before["traces"].get(each.trace_id) == each for each in traces)
    return ("refused", "") if same else ("wrong", "in the export")


def damaged_stores(folder: Path, rng: random.Random, n: int) -> Iterator[tuple[str, Callable[[], tuple[str, str]]]]:
    """Damage a store without a write-ahead log."""
    original = folder / "original.db"
    with SqliteStore.open(original, mode="own") as store:
        store.plan.set(METRICS, [SINK])
        fill(store, 0, 60)
        store.checkpoint()
        before, _ = read_store(store)
    content = original.read_bytes()
    for _ in range(n):
        path = folder / "store.db"
        for old in folder.glob("store.db*"):
            old.unlink()
        changed = bytearray(content)
        damage = rng.choice(DAMAGES)
        damage(changed, rng)
        path.write_bytes(changed)
        yield damage.__name__, lambda path=path: trial_of_store(path, before)


def damaged_logs(folder: Path, rng: random.Random, n: int) -> Iterator[tuple[str, Callable[[], tuple[str, str]]]]:
    """Damage the write-ahead log of a killed worker. The spool keeps what is in the log only, and is read again."""
    original = folder / "original.db"
    spool = folder / "spool"
    writer = SpoolWriter(spool)
    with SqliteStore.open(original, mode="own") as store:
        store.plan.set(METRICS, [])
        fill(store, 0, 30)
        store.checkpoint()
        writer.append([spool_entry_adapter.dump_json(Captured(trace=trace(k))) for k in range(30, 60)])
        transfer(spool, store)
        for k in range(30, 60):
            complete(store, f"trace-{k}", outcomes(k))
        before, _ = read_store(store)
        # As a kill leaves them.
        files = {path.name.removeprefix("original"): path.read_bytes() for path in folder.glob("original.db*")}
    writer.close()
    kept = {path.name: path.read_bytes() for path in spool.glob("*.seg")}
    for _ in range(n):
        for old in (*folder.glob("store.db*"), *spool.glob("*.seg")):
            old.unlink()
        changed = bytearray(files[".db-wal"])
        damage = rng.choice(DAMAGES)
        damage(changed, rng)
        (folder / "store.db").write_bytes(files[".db"])
        (folder / "store.db-wal").write_bytes(changed)
        for name, segment in kept.items():
            (spool / name).write_bytes(segment)
        yield damage.__name__, lambda: trial_of_log(folder / "store.db", spool, before)


def trial_of_log(path: Path, spool: Path, before: Content) -> tuple[str, str]:
    """Start a worker's store again: it reads the spool from where the store stands, and scores what is pending again."""
    try:
        with SqliteStore.open(path, mode="own") as store:
            transfer(spool, store)
            pending = store.ledger().total.pending
            for claimed in store.leases.claim("worker", 100, lease_s=60):
                complete(store, claimed.trace_id, outcomes(int(claimed.trace_id.split("-")[1])))
            after, doubled = read_store(store)
            problems = store.upkeep.verify().n_problems
    except RagstoneError:
        return "refused", ""
    end = "doubled" if doubled else compare(before, after)
    if end == "unchanged":
        return "unchanged", ""
    return ("counted", "") if end == "lost" and problems else (end, f"{pending} were pending, {problems} problems")


def transfer(spool: Path, store: SqliteStore) -> None:
    """Move entries of the spool into the store, as a worker does."""
    reader = SpoolReader(spool)
    for segment in reader.segments():
        while True:
            batch = reader.read(segment.name, store.traces.segment_offsets().get(segment.name, 0))
            if not batch.entries:
                break
            store.traces.ingest(segment.name, batch.next_offset, batch.entries)


def damaged_spools(folder: Path, rng: random.Random, n: int) -> Iterator[tuple[str, Callable[[], tuple[str, str]]]]:
    """Damage a segment of a spool: three that are sealed, and one whose writer was killed."""
    spool = folder / "spool"
    for k in range(4):
        writer = SpoolWriter(spool)
        for start in range(60 * k, 60 * k + 60, 4):
            writer.append([spool_entry_adapter.dump_json(Captured(trace=trace(j))) for j in range(start, start + 4)])
        if k < 3:
            writer.close()
        else:
            writer._abandon()
    original = {path.name: path.read_bytes() for path in sorted(spool.glob("*.seg"))}
    before = {f"trace-{k}": trace(k) for k in range(240)}
    for _ in range(n):
        for old in spool.glob("*"):
            old.unlink()
        name = rng.choice(sorted(original))
        changed = bytearray(original[name])
        damage = rng.choice(DAMAGES)
        damage(changed, rng)
        for each, segment in original.items():
            (spool / each).write_bytes(changed if each == name else segment)
        yield damage.__name__, lambda: trial_of_spool(spool, before)


def trial_of_spool(spool: Path, before: dict[str, Trace]) -> tuple[str, str]:
    """Read all segments, and count entries, and what is said to be dropped."""
    found: list[Trace] = []
    dropped = 0
    try:
        reader = SpoolReader(spool)
        for segment in reader.segments():
            offset, at_end = 0, False
            while not at_end:
                batch = reader.read(segment.name, offset)
                found += [entry.trace for entry in batch.entries if isinstance(entry, Captured)]
                dropped += sum(entry.n for entry in batch.entries if isinstance(entry, Dropped))
                offset, at_end = batch.next_offset, batch.at_end
    except RagstoneError:
        return "refused", ""
    if any(each != before.get(each.trace_id) for each in found):
        return "wrong", ""
    ids = Counter(each.trace_id for each in found)
    missing = len(before) - len(ids)
    if missing > dropped:
        # Some are counted: someone sees that the file is damaged.
        return ("counted", "") if dropped else ("lost", f"{missing} missing, {dropped} counted")
    if dropped:
        return "counted", ""
    # A repeated line has the id of a request that is stored, so a store counts it as a duplicate.
    return "unchanged", ""


def damaged_caches(folder: Path, rng: random.Random, n: int) -> Iterator[tuple[str, Callable[[], tuple[str, str]]]]:
    """Damage a reply cache."""
    cache = ReplyCache(folder / "cache")
    before = {f"key-{k}": {"text": f"{k}", "usage": {"input_tokens": k}, "raw": "x" * (k % 50)} for k in range(300)}
    cache.write([(key, "model", reply) for key, reply in before.items()])
    content = cache.path.read_bytes()
    for _ in range(n):
        for old in cache.path.parent.glob("*"):
            old.unlink()
        changed = bytearray(content)
        damage = rng.choice(DAMAGES)
        damage(changed, rng)
        cache.path.write_bytes(changed)
        yield damage.__name__, lambda: trial_of_cache(cache, before)


def trial_of_cache(cache: ReplyCache, before: dict[str, dict[str, object]]) -> tuple[str, str]:
    """Read each reply. One that is missing is requested again, and costs a call."""
    try:
        found = {key: cache.read(key) for key in before}
    except RagstoneError:
        return "refused", ""
    if any(reply is not None and reply != before[key] for key, reply in found.items()):
        return "wrong", ""
    return ("unchanged" if all(found.values()) else "counted"), ""


KINDS = {
    "database": damaged_stores,
    "write-ahead log": damaged_logs,
    "spool": damaged_spools,
    "reply cache": damaged_caches,
}


def run(kind: str, n: int, seed: int, folder: Path) -> Counts:
    """Damage `n` copies of a kind of file."""
    counts = Counts()
    begin = time.perf_counter()
    place = folder / kind.replace(" ", "-")
    place.mkdir()
    for damage, trial in KINDS[kind](place, random.Random(f"{kind} {seed}"), n):
        try:
            end, example = trial()
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            end, example = "crashed", f"{type(error).__name__}: {error}"[:300]
        counts.add(end, f"trial {counts.tried}, {damage}, {example}")
    counts.seconds = time.perf_counter() - begin
    shutil.rmtree(place)
    return counts
