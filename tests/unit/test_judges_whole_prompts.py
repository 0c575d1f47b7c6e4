"""Prompts that a server cuts without an error are failures, and prompts that arrive whole never are."""

from __future__ import annotations

import asyncio
import base64
import random
import re

import pytest

from fake_servers import FakeJudgeServer
from ragstone.errors import JudgeRejectedError
from ragstone.judges import ConnectionOptions, OpenAICompatibleJudge, Prompt
from ragstone.judges._http.whole_prompts import least_tokens

pytestmark = pytest.mark.usefixtures("virtual_time")

RANDOM = random.Random(5)
WORDS = [
    "the",
    "lighthouse",
    "of",
    "Northport",
    "is",
    "thirty",
    "one",
    "meters",
    "tall",
    "and",
    "ferries",
    "leave",
    "at",
    "noon",
    "from",
    "quay",
    "two",
]
TEXTS = {
    "prose": lambda n: " ".join(RANDOM.choice(WORDS) for _ in range(n)),
    "code": lambda n: "\n".join(
        f"def handle_{i}(self, value: int) -> None:\n    self._x[{i}] = value" for i in range(n // 8)
    ),
    "cjk": lambda n: "".join(RANDOM.choice("灯台は高さ三十一米港口渡轮中午出发") for _ in range(n)),
    "base64": lambda n: base64.b64encode(RANDOM.randbytes(n)).decode(),
}
TOKENIZERS = {
    # The fewest tokens that words allow, and the most that bytes allow.
    "one for each word": lambda text: len(
        re.findall("[\u3040-\u9fff]{1,3}|[a-zA-Z]{1,16}|[0-9]{1,3}|[^\\w\\s]{1,8}|_+", text)
    ),
    "pieces of four letters": lambda text: len(re.findall(r" ?[^\W\d_]{1,4}|\d|.", text)),
    "bytes": lambda text: len(text.encode()),
    "two ideographs": lambda text: len(re.findall("[\u3040-\u9fff]{1,2}|[^\u3040-\u9fff\\s]{1,4}", text)),
}


def prompt(passage: str) -> Prompt:
    """A prompt of a sample with one passage."""
    return Prompt(construct="coherence", task="Rate it.", fields={"query": "How tall?", "contexts": (passage,)})


async def asked(server, passages: list[str], **connection: object) -> list[str]:
    """The kind of each outcome, in order."""
    options = ConnectionOptions(backoff_s=0.01, max_retries=1, **connection)  # type: ignore[typeddict-item]
    judge = OpenAICompatibleJudge(server.url, **options)
    kinds = []
    for passage in passages:
        try:
            reply = await judge.ask_number(prompt(passage))
        except JudgeRejectedError as error:
            kinds.append(error.kind if "num_ctx" in str(error) else str(error))
        else:
            kinds.append(reply.method)
    await judge.aclose()
    return kinds


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("kind", TEXTS)
def test_cut_prompts_fail(kind, tokenizer):
    """A prompt of 15,000 tokens at a server that reads 4,096 is a failure, whatever the text and the tokenizer are."""
    count = TOKENIZERS[tokenizer]
    long = TEXTS[kind](1000)
    long *= 1 + 15_000 // count(long)
    with FakeJudgeServer(count_tokens=count, cuts_at=4096) as server:
        kinds = asyncio.run(asked(server, ["short", long, long + " again", TEXTS[kind](100)]))
    assert ["single_reply", "prompt_truncated", "prompt_truncated", "single_reply"] == kinds
    # One call for each of the four, and one that measures.
    assert 5 == server.calls


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("kind", TEXTS)
def test_whole_prompts_never_fail(kind, tokenizer):
    """Prompts of growing length at a server without a limit are scored, with at most one more call for each doubling."""
    with FakeJudgeServer(count_tokens=TOKENIZERS[tokenizer]) as server:
        kinds = asyncio.run(asked(server, [TEXTS[kind](n) for n in range(200, 6000, 200)]))
    assert {"single_reply"} == set(kinds)
    assert len(kinds) <= server.calls <= len(kinds) + 5


def test_mixed_texts():
    """Texts of all kinds in one run are scored."""
    rng = random.Random(3)
    texts = [make(rng.randrange(300, 5000)) for make in list(TEXTS.values()) * 8]
    rng.shuffle(texts)
    with FakeJudgeServer(count_tokens=TOKENIZERS["pieces of four letters"]) as server:
        kinds = asyncio.run(asked(server, texts))
    assert ({"single_reply"}, True) == (set(kinds), server.calls <= len(kinds) + 5)


def test_counts_without_cached_tokens():
    """A server that does not count tokens from its cache is not accused: the measurement has a new beginning."""
    seen: set[str] = set()

    def count(text: str) -> int:
        known, _ = text[:200] in seen, seen.add(text[:200])
        return len(text[-200:].split()) if known else len(text.split())

    passage = TEXTS["prose"](3000)
    with FakeJudgeServer(count_tokens=count) as server:
        kinds = asyncio.run(asked(server, [passage, passage + " again", passage + " and again"]))
    assert ["single_reply"] * 3 == kinds


def test_refusal_is_not_a_cut():
    """A server that refuses the longer prompt of the measurement does not cut, and is not measured again."""
    passage = " ".join(["word"] * 2100)

    class Refusing(FakeJudgeServer):
        def _plan(self, question, body):
            from fake_servers.loopback import error_reply

            if len(question.split()) > 4000:
                return error_reply(400, "This model's maximum context length is 4000 tokens.")
            return super()._plan(question, body)

    with Refusing(count_tokens=lambda text: len(text.split()) // 2) as server:
        kinds = asyncio.run(asked(server, [passage, passage + " again"]))
    assert (["single_reply"] * 2, 3) == (kinds, server.calls)


@pytest.mark.parametrize("count", [0, 1, 17])
def test_servers_that_do_not_count(count):
    """A server that counts nothing, or the same for every prompt, is not accused."""
    with FakeJudgeServer(count_tokens=lambda _: count) as server:
        assert ["single_reply"] * 2 == asyncio.run(asked(server, [TEXTS["prose"](2000), TEXTS["prose"](4000)]))


def test_cut_replies_are_not_cached(tmp_path):
    """The verdict about a cut prompt is not stored: after the limit is raised, the sample is scored."""
    passage = TEXTS["prose"](9000)
    with FakeJudgeServer(count_tokens=TOKENIZERS["one for each word"], cuts_at=4096) as server:
        assert ["prompt_truncated"] == asyncio.run(asked(server, [passage], cache=tmp_path))
        server._cuts_at = None
        assert ["single_reply"] == asyncio.run(asked(server, [passage], cache=tmp_path))


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("How tall is it?", 4),
        ("a" * 1000, 1),
        ("=" * 80 + "\nTitle", 2),
        ("ab" * 400, 101),
        ("灯台は高さ三十一米", 3),
        ("", 0),
    ],
)
def test_least_tokens(text, least):
    """Words count once, long words by length, repeated characters not, and ideographs in threes."""
    assert least == least_tokens(text)
