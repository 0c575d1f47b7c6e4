"""What the order of prompts is worth: five CCRS metrics and UDCG on five passages, what they share first or last."""

from __future__ import annotations

import random
import re
import time
import urllib.request

import pytest

from ragstone.experiments import evaluate
from ragstone.judges import ChatReader, ModelJudge, OpenAICompatibleModel
from ragstone.schema import Passage, Sample, Score

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]

N_SAMPLES = 5
LIMIT_S = 800.0
WORDS = [
    "ferry",
    "lantern",
    "harbour",
    "keeper",
    "winter",
    "rope",
    "signal",
    "tower",
    "island",
    "captain",
    "barrel",
    "storm",
    "mooring",
    "ledger",
]


class Ordered:
    """The model behind a server, asked in our order or another; judges' numbers come in one constrained request."""

    def __init__(self, model, reorder):
        self._model = model
        self._reorder = reorder

    def __getattr__(self, name):
        return getattr(self._model, name)

    async def complete(self, request):
        held = await self._model.complete_number(
            self._reorder(request.messages), 0, 100, max_tokens=8, sampling={"temperature": 0.0}
        )
        return (held,)

    async def chat_ids(self, messages):
        return await self._model.chat_ids(self._reorder(messages))


def as_it_is(messages):
    """Our order: what questions about one sample share comes first."""
    return messages


def assignment_first(messages):
    """The order that many write: the assignment, and then the material."""
    system, user = messages
    blocks = re.findall(r"<(\w+)>\n.*?</\1>\n", user["content"], re.DOTALL)
    material = user["content"][: user["content"].rindex(f"</{blocks[-1]}>") + len(blocks[-1]) + 4]
    assignment = user["content"][len(material) :].strip()
    return [system, {"role": "user", "content": f"{assignment}\n\n{material}"}]


def passage_first(messages):
    """The reader's prompt with the passage before the question, as many write it."""
    system, user = messages
    question, passages = user["content"].split("</question>\n\n")
    return [system, {"role": "user", "content": f"{passages}\n{question}</question>"}]


def counters(url):
    """The server's (queried, found) tokens of its prefix cache."""
    with urllib.request.urlopen(f"{url.removesuffix('/v1')}/metrics", timeout=30) as reply:  # noqa: S310
        text = reply.read().decode()
    return [
        sum(
            float(value) for value in re.findall(rf"^vllm:prefix_cache_{name}_total\{{.*\}} (\S+)$", text, re.MULTILINE)
        )
        for name in ("queries", "hits")
    ]


def samples(seed):
    """Samples with five passages of some hundred tokens. Another seed has the same words in another order."""
    rng = random.Random(seed)

    def text(n_words):
        words = (WORDS * 3)[:n_words]
        rng.shuffle(words)
        return " ".join(words).capitalize() + "."

    return [
        Sample(
            id=f"{seed}-{n}",
            query=text(30),
            contexts=tuple(Passage(text=text(35), relevance=float(place == 0)) for place in range(5)),
            response=text(12),
            reference=(text(8),),
        )
        for n in range(N_SAMPLES)
    ]


def measured(url, metrics, judge_order, reader_order, seed):
    """Hit rate, calls, prompt tokens, computed prompt tokens and seconds of one evaluation."""
    # One request at a time: requests that arrive together find nothing of each other in the cache.
    # On a busy machine a reply takes seconds: neither an attempt nor a sample may end before it, because a request that is
    # sent again is found in the cache.
    model = OpenAICompatibleModel(url, max_concurrent_requests=1, timeout_s=LIMIT_S)
    reader = ChatReader(Ordered(model, reader_order), estimator="exact_sequence")
    queries, hits = counters(url)
    start = time.perf_counter()
    judge = ModelJudge(Ordered(model, judge_order))
    found = evaluate(samples(seed), metrics, judge=judge, reader=reader, deadline_s=LIMIT_S)
    seconds = time.perf_counter() - start
    asked, cached = (after - before for after, before in zip(counters(url), (queries, hits), strict=True))
    scores = [outcome for outcome in found.outcomes if isinstance(outcome, Score)]
    assert len(found.outcomes) == len(scores), [o for o in found.outcomes if not isinstance(o, Score)][:2]
    return {
        "hit_rate": cached / asked,
        "calls": sum(score.usage.calls for score in scores),
        "prompt_tokens": sum(score.usage.input_tokens for score in scores),
        "computed_tokens": asked - cached,
        "seconds": seconds,
    }


@pytest.mark.parametrize("metrics", [["ccrs"], ["ccrs", "udcg"]], ids=["ccrs", "ccrs and udcg"])
def test_our_order_finds_more_in_the_cache(reader_url, metrics, record_property):
    """The same questions cost the server less when what they share comes first.

    UDCG's exact reads send one conversation with several beginnings of a reply, which any order finds in the cache.
    """
    seeds = random.Random(f"{metrics} {time.time()}")
    # Kernels, templates and the probe, before anything is counted.
    measured(reader_url, metrics, as_it_is, as_it_is, seeds.random())
    ours = measured(reader_url, metrics, as_it_is, as_it_is, seeds.random())
    naive = measured(reader_url, metrics, assignment_first, passage_first, seeds.random())
    for name in ours:
        record_property(f"ours_{name}", ours[name])
        record_property(f"naive_{name}", naive[name])
        ratio = naive[name] / ours[name] if ours[name] else float("inf")
        print(f"{'+'.join(metrics)}, {name}: ours {ours[name]:.4g}, naive {naive[name]:.4g}, naive/ours {ratio:.2f}")
    assert ours["hit_rate"] > naive["hit_rate"]
    assert ours["computed_tokens"] < naive["computed_tokens"]
