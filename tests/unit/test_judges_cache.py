"""The reply cache: what is kept, for whom it is found again, and that its file can fail without hurting anybody."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import pytest

from fake_servers import FakeJudgeServer, FakeModelServer
from ragstone.errors import JudgeReplyError, StoreCorruptError, StoreError, StoreVersionError
from ragstone.judges import ChatRequest, OpenAICompatibleJudge, OpenAICompatibleModel, Prompt, ReplyCache, metered
from ragstone.judges._cache.replies import CachedReplies, is_repeatable
from scripted_model import ScriptedModel
from stored_bodies import count_replies

PROMPT = Prompt(construct="relevance", task="The task.", fields={"query": "Why?", "response": "Because."})
GREEDY = {"model": "m", "temperature": 0, "messages": []}


def chat_reply(text="85", finish="stop", **message):
    return {"choices": [{"message": {"content": text, **message}, "finish_reason": finish}]}


def ask(url, n=1, *, together=False, prompt=PROMPT, **options):
    """Ask a new judge `n` times; the replies, and what the judge spent."""

    async def session():
        judge = OpenAICompatibleJudge(url, **({"backoff_s": 0.01} | options))
        try:
            if together:
                replies = await asyncio.gather(*(judge.ask_number(prompt) for _ in range(n)))
            else:
                replies = [await judge.ask_number(prompt) for _ in range(n)]
        finally:
            await judge.aclose()
        return replies, judge.usage

    return asyncio.run(session())


def asked(cache, body=GREEDY, reply=None, path="/chat/completions"):
    """Ask through a cache; the reply, and whether the endpoint was asked."""
    sent = []

    async def send():
        sent.append(body)
        return chat_reply() if reply is None else reply

    return asyncio.run(cache.reply(path, body, send)), bool(sent)


def test_second_question_is_not_sent(tmp_path):
    """Another judge finds the reply: the same number, no call, no token, one cached."""
    with FakeJudgeServer() as server:
        (first,), spent = ask(server.url, cache=tmp_path)
        (second,), spent_later = ask(server.url, cache=tmp_path)
    assert 1 == server.calls
    assert (first.value, first.raw, first.method) == (second.value, second.raw, second.method)
    assert (1, 0) == (spent.calls, spent.cached)
    assert (0, 0, 0, 1) == (
        spent_later.calls,
        spent_later.input_tokens,
        spent_later.output_tokens,
        spent_later.cached,
    )
    assert spent_later == second.usage


def test_same_question_at_once_is_asked_once(tmp_path):
    """Those that come meanwhile wait for the first one's reply."""
    with FakeJudgeServer(latency_s=0.05) as server:
        replies, spent = ask(server.url, 20, together=True, cache=tmp_path)
    assert (1, 19) == (spent.calls, spent.cached)
    assert 1 == server.calls
    assert 1 == len({reply.value for reply in replies})


def test_those_that_wait_ask_themselves_when_the_first_fails(tmp_path):
    """A failure is its asker's own; the cache holds none."""
    with FakeJudgeServer(error_rate=1.0) as server:

        async def session():
            judge = OpenAICompatibleJudge(server.url, cache=tmp_path, max_retries=0, backoff_s=0.01)
            try:
                return await asyncio.gather(*(judge.ask_number(PROMPT) for _ in range(3)), return_exceptions=True)
            finally:
                await judge.aclose()

        results = asyncio.run(session())
    assert ["JudgeUnavailableError"] * 3 == [type(result).__name__ for result in results]
    assert not (tmp_path / "replies.sqlite").exists()


@pytest.mark.parametrize(
    "other",
    [
        {"model": "b"},
        {"seed": 4},
        {"max_tokens": 9},
        {"extra_body": {"top_k": 1}},
        {"prompt": Prompt(construct="relevance", task="The task.", fields={"query": "Why not?"})},
    ],
    ids=lambda other: next(iter(other)),
)
def test_any_difference_is_another_request(tmp_path, other):
    """Model, sampling, length, added fields, the question."""
    with FakeJudgeServer(models=("a", "b")) as server:
        ask(server.url, model="a", cache=tmp_path)
        _, spent = ask(server.url, **{"model": "a", "cache": tmp_path, **other})
    assert (1, 0) == (spent.calls, spent.cached)


def test_any_endpoint_is_another(tmp_path):
    """The same model name behind another address, or another query of it, has other replies."""
    endpoints = ("http://a/v1", "http://b/v1", "http://a/v2", "http://a/v1?api-version=2")
    caches = [CachedReplies(tmp_path, endpoint=endpoint) for endpoint in endpoints]
    assert [True] * 4 == [asked(cache)[1] for cache in caches]
    assert [False] * 4 == [asked(cache)[1] for cache in caches]
    assert asked(caches[0], path="/completions")[1]


def test_credentials_are_no_part_of_it(tmp_path):
    """Another key for the same endpoint finds the replies, and the file holds neither keys nor questions."""
    with FakeJudgeServer() as server:
        ask(server.url, cache=tmp_path, api_key="first-key")
        _, spent = ask(server.url.replace("http://", "http://me:secret@"), cache=tmp_path)
    assert 1 == spent.cached
    content = (tmp_path / "replies.sqlite").read_bytes()
    assert [] == [word for word in (b"first-key", b"secret", b"Because.", b"The task.") if word in content]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"temperature": 0}, True),
        ({"temperature": 0.0, "echo": False, "prompt_logprobs": None}, True),
        ({"temperature": 1.0, "seed": 0}, True),
        ({"temperature": 1.0}, False),
        ({"temperature": 1.0, "seed": None}, False),
        ({}, False),
        ({"temperature": 0, "prompt_logprobs": 0}, False),
        ({"temperature": 0, "echo": True}, False),
        ({"temperature": 0, "return_token_ids": True}, False),
    ],
)
def test_what_is_repeatable(body, expected):
    """Temperature 0 or a seed, and no reply that repeats its prompt."""
    assert expected == is_repeatable(body)


@pytest.mark.parametrize(("seed", "calls"), [(None, 4), (3, 2)])
def test_draws_are_kept_only_with_a_seed(tmp_path, seed, calls):
    """Draws without one are meant to differ."""
    with FakeJudgeServer() as server:
        for _ in range(2):
            ask(server.url, cache=tmp_path, score_mode="sampled", draws=2, seed=seed)
    assert calls == server.calls


@pytest.mark.parametrize(
    ("reply", "kept"),
    [
        (chat_reply(), True),
        (chat_reply(finish="length"), True),
        (chat_reply("", finish="stop"), True),
        (chat_reply(finish="content_filter"), False),
        (chat_reply(None, refusal="I will not."), False),
        (chat_reply(finish=None), False),
        ({"choices": [{"text": "8", "finish_reason": "length"}]}, True),
        ({"choices": [{"finish_reason": "stop"}]}, False),
        ({"choices": []}, False),
        ({"choices": [None]}, False),
        ({"object": "strange"}, False),
    ],
)
def test_what_is_kept(tmp_path, reply, kept):
    """Finished replies and those cut short; not what a filter held back, nor what is no reply."""
    cache = CachedReplies(tmp_path, endpoint="http://a/v1")
    assert (reply, True) == asked(cache, reply=reply)
    assert (reply, not kept) == asked(cache, reply=reply)


def test_truncated_reply_stays_truncated(tmp_path):
    """The same limit cuts the same reply; a longer one is another request."""
    with FakeJudgeServer(truncated_rate=1.0) as server:
        for _ in range(2):
            with pytest.raises(JudgeReplyError) as caught:
                ask(server.url, cache=tmp_path)
            assert "truncated" == caught.value.kind
        n_before = server.calls
        with pytest.raises(JudgeReplyError):
            ask(server.url, cache=tmp_path, max_tokens=65)
    assert (True, True) == (n_before <= 3, server.calls > n_before)


def test_opted_in_by_the_environment(tmp_path, monkeypatch):
    """`RAGSTONE_CACHE` names the folder, `cache=""` is against it, and without both nothing is kept."""
    with FakeJudgeServer() as server:
        ask(server.url)
        monkeypatch.setenv("RAGSTONE_CACHE", str(tmp_path / "here"))
        _, kept = ask(server.url)
        _, found = ask(server.url)
        _, without = ask(server.url, cache="")
    assert [(1, 0), (0, 1), (1, 0)] == [(spent.calls, spent.cached) for spent in (kept, found, without)]
    assert (tmp_path / "here" / "replies.sqlite").is_file()
    assert 0o600 == (tmp_path / "here" / "replies.sqlite").stat().st_mode & 0o777


def damaged(path):
    path.write_bytes(b"this is no database" * 100)


def torn(path):
    with FakeJudgeServer() as server:
        ask(server.url, cache=path.parent)
    content = bytearray(path.read_bytes())
    content[100:] = os.urandom(len(content) - 100)
    path.write_bytes(content)


def foreign(path):
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("CREATE TABLE theirs (x)")
    db.close()


def another_version(path):
    ReplyCache(path.parent).write([("a", "m", {})])
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA user_version = 99")
    db.close()


def folder_instead(path):
    path.mkdir()


@pytest.mark.parametrize("spoil", [damaged, torn, foreign, another_version, folder_instead])
def test_a_file_that_cannot_be_used_hurts_nobody(tmp_path, caplog, spoil):
    """One warning that names the file, and all questions are asked; a file of others is left as it is."""
    path = tmp_path / "replies.sqlite"
    spoil(path)
    before = path.read_bytes() if path.is_file() else None
    with FakeJudgeServer() as server, caplog.at_level(logging.WARNING, logger="ragstone"):
        _, spent = ask(server.url, 3, cache=tmp_path)
    assert (3, 0) == (spent.calls, spent.cached)
    (record,) = caplog.records
    assert str(path) in record.getMessage()
    assert before == (path.read_bytes() if path.is_file() else None)


def test_a_folder_that_cannot_be_made(tmp_path, caplog):
    """A file stands in the way: one warning, and the work continues."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    with FakeJudgeServer() as server, caplog.at_level(logging.WARNING, logger="ragstone"):
        _, spent = ask(server.url, 2, cache=tmp_path / "file")
    assert (2, 1) == (spent.calls, len(caplog.records))


def test_a_full_disk_still_reads(tmp_path, caplog, monkeypatch):
    """What cannot be written is warned of once; what is there is still found."""
    cache = CachedReplies(tmp_path, endpoint="http://a/v1")
    asked(cache)

    def full(*_):
        raise StoreError("the disk is full")

    monkeypatch.setattr(cache._file, "write", full)
    with caplog.at_level(logging.WARNING, logger="ragstone"):
        assert [True, True] == [asked(cache, {**GREEDY, "seed": seed})[1] for seed in (1, 2)]
    assert not asked(cache)[1]
    assert 1 == len(caplog.records)


def test_a_row_that_cannot_be_read_is_asked_again(tmp_path):
    """And is repaired by the new reply."""
    cache = CachedReplies(tmp_path, endpoint="http://a/v1")
    asked(cache)
    with closing(sqlite3.connect(tmp_path / "replies.sqlite")) as db, db:
        db.execute("UPDATE reply SET body = '{\"choices\": ['")
    db.close()
    assert (chat_reply(), True) == asked(cache)
    assert (chat_reply(), False) == asked(cache)


@pytest.mark.parametrize(
    "change",
    ["replace(body, '4', '5')", "CAST(x'ff30' AS TEXT)", "x'30'", "7", "substr(body, 1, 12)", "substr(body, 10)"],
)
def test_a_changed_reply_is_a_miss(tmp_path, change, caplog):
    """Also if it is valid JSON with another number, or without a checksum."""
    cache = ReplyCache(tmp_path)
    cache.write([("a", "m", {"value": 4})])
    assert {"value": 4} == cache.read("a")
    with closing(sqlite3.connect(cache.path)) as db, db:
        db.execute(f"UPDATE reply SET body = {change} WHERE key = 'a'")  # noqa: S608 - constant expressions
    db.close()
    assert cache.read("a") is None
    assert "is damaged and is requested again" in caplog.text


def test_a_hundred_damaged_replies_are_one_line_in_the_log(tmp_path, caplog):
    """A damaged file is read once for each request; the log says so at most once a minute."""
    cache = ReplyCache(tmp_path)
    cache.write([(str(n), "m", {"value": n}) for n in range(100)])
    with closing(sqlite3.connect(cache.path)) as db, db:
        db.execute("UPDATE reply SET body = '0'")
    db.close()
    assert all(cache.read(str(n)) is None for n in range(100))
    assert 1 == len(caplog.records)


def test_never_a_write_ahead_log(tmp_path):
    """Several processes write this file, and a log is not safe for that in many versions of SQLite."""
    asked(CachedReplies(tmp_path, endpoint="http://a/v1"))
    with closing(sqlite3.connect(tmp_path / "replies.sqlite")) as db, db:
        assert ("delete",) == db.execute("PRAGMA journal_mode").fetchone()
    db.close()
    assert ["replies.sqlite"] == [path.name for path in tmp_path.iterdir()]


WORKER = """
import asyncio, sys
from ragstone.judges._cache.replies import CachedReplies

async def main(folder, me):
    cache = CachedReplies(folder, endpoint="http://a/v1")
    sent = 0

    async def one(i):
        async def send():
            nonlocal sent
            sent += 1
            return {"choices": [{"message": {"content": str(i)}, "finish_reason": "stop"}]}
        reply = await cache.reply("/chat/completions", {"model": "m", "temperature": 0, "messages": [i]}, send)
        assert str(i) == reply["choices"][0]["message"]["content"], (i, reply)

    order = list(range(150)) if me % 2 else list(range(149, -1, -1))
    for start in range(0, 150, 10):
        await asyncio.gather(*(one(i) for i in order[start:start + 10]))
    print(sent)

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


def test_four_processes_share_one_cache(tmp_path):
    """They start with no file at all, write the same and different replies at once, and none of it is lost or mixed up."""
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, str(tmp_path), str(me)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for me in range(4)
    ]
    done = [worker.communicate(timeout=120) for worker in workers]
    assert ["", "", "", ""] == [errors for _, errors in done]
    assert 150 <= sum(int(sent) for sent, _ in done) < 600
    assert 150 == count_replies(tmp_path)
    with closing(sqlite3.connect(tmp_path / "replies.sqlite")) as db, db:
        assert ("ok",) == db.execute("PRAGMA integrity_check").fetchone()
    db.close()
    assert ["replies.sqlite"] == [path.name for path in tmp_path.iterdir()]


def test_threads_with_loops_of_their_own(tmp_path):
    """One model on several event loops at once."""
    import threading

    with FakeJudgeServer() as server:
        model = OpenAICompatibleModel(server.url, model="m", cache=tmp_path)
        totals = []

        async def session():
            with metered() as meter:
                for i in range(10):
                    messages = [{"role": "user", "content": str(i)}]
                    await model.complete(ChatRequest(messages=messages, max_tokens=4, sampling={"temperature": 0}))
                totals.append(meter.total.calls + meter.total.cached)

        threads = [threading.Thread(target=lambda: asyncio.run(session())) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [10, 10, 10] == totals
    assert 10 == count_replies(tmp_path)


def test_replies_since_a_time_are_removed(tmp_path):
    """Those of an erased request and all later ones; what is removed is asked again."""
    now = [1_000_000.0]
    cache = ReplyCache(tmp_path, clock=lambda: now[0])
    cache.write([("k1", "a", chat_reply()), ("k2", "a", chat_reply())])
    now[0] += 3 * 86_400
    cache.write([("k3", "b", chat_reply())])
    assert 1 == cache.clear(since=now[0])
    assert (chat_reply(), None) == (cache.read("k1"), cache.read("k3"))
    assert (2, 0) == (cache.clear(since=0), count_replies(tmp_path))


def test_clearing_what_is_not_there(tmp_path):
    """An error that names the folder, and no file is made."""
    with pytest.raises(StoreError, match="reply cache not found"):
        ReplyCache(tmp_path).clear(since=0)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("spoil", "error"),
    [(damaged, StoreCorruptError), (foreign, StoreCorruptError), (another_version, StoreVersionError)],
)
def test_reading_what_is_not_ours(tmp_path, spoil, error):
    """Errors say what it is."""
    spoil(tmp_path / "replies.sqlite")
    with pytest.raises(error, match="reply cache"):
        ReplyCache(tmp_path).read("k1")


def test_facts_grow_old(tmp_path):
    """Found within their age; not when the clock was set back behind them."""
    now = [1_000_000.0]
    cache = ReplyCache(tmp_path, clock=lambda: now[0])
    assert cache.get_fact("k", max_age_s=60) is None
    cache.put_fact("k", "v")
    assert "v" == cache.get_fact("k", max_age_s=60)
    now[0] += 61
    assert cache.get_fact("k", max_age_s=60) is None
    now[0] -= 600
    assert cache.get_fact("k", max_age_s=60) is None


def measured(server, folder, *, fresh=False, **options):
    """Ask a new model what its endpoint can do; the answer, and the calls it took."""

    async def session():
        model = OpenAICompatibleModel(server.url, model="scripted-model", cache=folder, **options)
        try:
            with metered() as meter:
                return await model.capabilities(fresh=fresh), meter.total
        finally:
            await model.aclose()

    found, spent = asyncio.run(session())
    assert 0 == spent.cached
    return found, spent.calls


def test_capabilities_are_remembered(tmp_path):
    """For a day, for an endpoint and what is added to its requests; none of the probe's own replies is kept."""
    with FakeModelServer(ScriptedModel({"yes": 1.0})) as server:
        first, n_first = measured(server, tmp_path)
        again, n_again = measured(server, tmp_path)
        _, n_other = measured(server, tmp_path, extra_body={"top_k": 3})
        _, n_fresh = measured(server, tmp_path, fresh=True)
        assert (first, 0) == (again, n_again)
        assert min(n_first, n_other, n_fresh) > 0
        assert 0 == count_replies(tmp_path)
        with closing(sqlite3.connect(tmp_path / "replies.sqlite")) as db, db:
            db.execute("UPDATE fact SET created_at = created_at - 86500")
        db.close()
        assert measured(server, tmp_path)[1] > 0


def test_what_trouble_has_hidden_is_not_remembered(tmp_path):
    """A server in trouble seems to have no log-probabilities; when it has recovered, the next run sees them."""
    crashing = {"crashes_on": frozenset({"logprobs"})}
    with FakeModelServer(ScriptedModel({"yes": 0.6, "no": 0.4}), "openai") as server:
        healthy, server.dialect = server.dialect, replace(server.dialect, **crashing)
        troubled, _ = measured(server, tmp_path, max_retries=0, backoff_s=0.01)
        server.dialect = healthy
        found, n_calls = measured(server, tmp_path)
    assert ("monte_carlo", ("logprobs",)) == (troubled.estimator, troubled.unmeasured)
    assert ("first_token", ()) == (found.estimator, found.unmeasured)
    assert n_calls > 0


def test_capabilities_that_cannot_be_read_are_measured(tmp_path):
    """What another version has noted, or a torn row, is not believed."""
    with FakeModelServer(ScriptedModel({"yes": 1.0})) as server:
        measured(server, tmp_path)
        with closing(sqlite3.connect(tmp_path / "replies.sqlite")) as db, db:
            db.execute("UPDATE fact SET value = '{}'")
        db.close()
        assert measured(server, tmp_path)[1] > 0


def test_exact_readings_are_kept(tmp_path):
    """The second expectation takes no call: only text is turned into tokens again, which the model does not run for."""
    options = {"model": "scripted-model", "cache": tmp_path, "score_mode": "expected"}
    with FakeModelServer(ScriptedModel({"80": 0.5, "65": 0.25, "7": 0.25})) as server:
        (first,), spent = ask(server.url, **options)
        (second,), spent_later = ask(server.url, **options)
    assert ("expected", 58.0) == (first.method, pytest.approx(first.value))
    assert (first.value, first.interval, first.mass, first.raw) == (
        second.value,
        second.interval,
        second.mass,
        second.raw,
    )
    assert spent.calls > spent_later.calls
    assert (0, 3) == (spent_later.calls, spent_later.cached)
