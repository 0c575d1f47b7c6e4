"""Embedders: what is sent, batched, retried, cached, refused and counted, and how they are named."""

from __future__ import annotations

import asyncio
import importlib.machinery
import importlib.util
import math

import numpy as np
import pytest

from fake_models import FakeEmbedder
from fake_servers import FakeEmbeddingServer
from fake_servers.embedding_server import fake_vector
from ragstone.errors import (
    ConfigurationError,
    JudgeError,
    JudgeRejectedError,
    JudgeReplyError,
    JudgeUnavailableError,
    MissingExtraError,
)
from ragstone.judges import (
    Budget,
    Embedder,
    EndpointEmbedder,
    EndpointOptions,
    MissingModel,
    OptionNames,
    embed_texts,
    embedder_from,
    metered,
)
from ragstone.judges.embedder import LocalEmbedder
from ragstone.judges.lexical import LexicalEmbedder
from ragstone.settings import TABLES, read_table

pytestmark = pytest.mark.usefixtures("virtual_time")

TEXTS = ("How tall is it?", "What is its height?", "Ferries leave at noon.")
KEY = "sk-live-0123456789abcdef"


def embed(url, texts=TEXTS, **options):
    """Vectors of a new embedder, the embedder and what it used."""

    async def session():
        embedder = EndpointEmbedder(url, **({"backoff_s": 0.01} | options))
        with metered() as meter:
            try:
                return await embedder.embed(texts), embedder, meter.total
            finally:
                await embedder.aclose()

    return asyncio.run(session())


def unit(text, dimension=32):
    """The server's vector of a text with length 1."""
    vector = np.asarray(fake_vector(text, dimension))
    return vector / np.linalg.norm(vector)


def test_vectors_have_length_one_in_the_order_of_the_texts():
    """Also with texts that occur twice, which are sent once."""
    with FakeEmbeddingServer() as server:
        rows, embedder, usage = embed(server.url, (*TEXTS, TEXTS[0]))
    assert np.allclose(rows, [unit(text) for text in (*TEXTS, TEXTS[0])])
    probe, body = server.stats.requests
    assert {"model": "fake-embedder", "input": list(TEXTS)} == body
    assert 1 == len(probe["input"])
    assert (2, 0) == (usage.calls, usage.output_tokens)
    assert sum(math.ceil(len(text) / 4) for text in (*probe["input"], *TEXTS)) == usage.input_tokens
    assert embedder.identity.name == f"fake-embedder at {server.url.split('/')[2]}"


def test_many_texts_are_sent_in_batches():
    """No request is longer than the batch size, and no text is lost."""
    texts = [f"text {n}" for n in range(10)]
    with FakeEmbeddingServer() as server:
        rows, _, _ = embed(server.url, texts, batch_size=4)
    assert [4, 4, 2] == [len(body["input"]) for body in server.stats.requests[1:]]
    assert np.allclose(rows, [unit(text) for text in texts])


def test_extra_fields_are_sent_and_part_of_the_identity():
    """A model with shorter vectors is another embedder."""
    with FakeEmbeddingServer() as server:
        rows, short, _ = embed(server.url, extra_body={"dimensions": 8})
        _, full, _ = embed(server.url)
    assert (3, 8) == rows.shape
    assert short.identity.hash != full.identity.hash


def test_the_identity_depends_on_model_endpoint_and_dimension():
    """Scores of two embedders are never mixed."""
    with (
        FakeEmbeddingServer(models=("a", "b")) as one,
        FakeEmbeddingServer(models=("a",)) as two,
        FakeEmbeddingServer(models=("a",), dimension=16) as three,
    ):
        same = [embed(one.url, model="a")[1].identity.hash for _ in range(2)]
        others = [
            embed(one.url, model="b")[1].identity.hash,
            *(embed(server.url, model="a")[1].identity.hash for server in (two, three)),
        ]
    assert same[0] == same[1]
    assert 4 == len({same[0], *others})


def test_temporary_failures_are_retried():
    """Every vector arrives, and the attempts are counted."""
    with FakeEmbeddingServer(error_rate=0.5, seed=1) as server:
        rows, _, usage = embed(server.url, max_retries=20, batch_size=1)
    assert np.allclose(rows, [unit(text) for text in TEXTS])
    assert server.stats.replies["500"] > 0
    assert usage.calls == server.calls


def test_a_cached_request_is_not_sent_again(tmp_path):
    """Neither the texts nor the probe of the dimension."""
    with FakeEmbeddingServer() as server:
        first, _, _ = embed(server.url, cache=tmp_path)
        second, _, usage = embed(server.url, cache=tmp_path)
    assert 2 == server.calls
    assert np.array_equal(first, second)
    assert (0, 2) == (usage.calls, usage.cached)


def test_a_reply_without_a_vector_for_each_text_is_not_cached(tmp_path):
    """A later request may be answered well."""
    short = [True]
    with FakeEmbeddingServer(reply=lambda data: data[1:] if short[0] and len(data) > 1 else data) as server:
        with pytest.raises(JudgeReplyError, match="did not return one vector per text"):
            embed(server.url, cache=tmp_path)
        short[0] = False
        rows, _, _ = embed(server.url, cache=tmp_path)
    assert np.allclose(rows, [unit(text) for text in TEXTS])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data[:-1],
        lambda data: [entry | {"index": 0} for entry in data],
        lambda data: [entry | {"embedding": "AAAA"} for entry in data],
        lambda data: [entry | {"embedding": [0.0, 0.0]} for entry in data],
        lambda data: [entry | {"embedding": [1.0] * (2 + entry["index"])} for entry in data],
        lambda data: [entry | {"embedding": [float("nan"), 1.0]} for entry in data],
        lambda data: [entry["embedding"] for entry in data],
    ],
)
def test_unusable_vectors(spoil):
    """They are an error with the reply, never a value."""
    server = FakeEmbeddingServer(reply=lambda data: data if len(data) == 1 else spoil(data))
    with server, pytest.raises(JudgeReplyError, match="did not return one vector per text") as caught:
        embed(server.url)
    assert caught.value.raw


def test_a_reply_without_data_is_retried():
    """As that of a gateway before its model is ready."""
    replies = [{"object": "list"}]
    with FakeEmbeddingServer(reply=lambda data: replies.pop() if replies else data) as server:
        rows, _, _ = embed(server.url)
    assert 3 == len(rows)
    assert 3 == server.calls


def test_a_model_that_is_exchanged_is_noticed():
    """Vectors of another dimension are not compared."""
    server = FakeEmbeddingServer(reply=lambda data: [e | {"embedding": e["embedding"][: 16 * len(data)]} for e in data])
    with server, pytest.raises(JudgeReplyError, match="dimension 32, and earlier with 16"):
        embed(server.url, TEXTS[:2])


def test_redirects_are_refused():
    """The key and the texts are not sent to a server that the user did not name. The message names the target."""
    refused = pytest.raises(
        JudgeRejectedError, match=r"redirect to http://127.0.0.1:9/v1/x, which is not followed. Name"
    )
    with FakeEmbeddingServer(redirect="http://u:p@127.0.0.1:9/v1/x?key=1") as server, refused:
        embed(server.url, model="m", api_key=KEY)
    assert 1 == server.calls


def test_a_key_is_sent_and_never_shown():
    """A wrong one is an error without the key."""
    with FakeEmbeddingServer(api_key=KEY) as server:
        assert (3, 32) == embed(server.url, api_key=KEY)[0].shape
        with pytest.raises(JudgeRejectedError, match="401") as caught:
            embed(server.url, api_key="sk-wrong-0123456789")
        with pytest.raises(JudgeRejectedError, match="No key was given"):
            embed(server.url)
    assert "sk-wrong" not in str(caught.value)


def test_limits_cost_and_budget():
    """They are those of all endpoints: the price is that of input tokens, and no request exceeds the budget."""
    with FakeEmbeddingServer() as server:
        _, _, usage = embed(server.url, usd_per_million_tokens=(2.0, 0.0))
        assert pytest.approx(2.0 * usage.input_tokens / 1e6) == usage.cost_usd
        with pytest.raises(JudgeError) as caught:
            embed(server.url, [f"text {n}" for n in range(10)], batch_size=2, budget=Budget(calls=3))
        assert 2 + 3 == server.calls
    assert "budget" == caught.value.kind
    with pytest.raises(ConfigurationError, match="prices of the embedder"):
        embedder_from("http://127.0.0.1:1/v1", connection={"budget": Budget(usd=1)})


def test_a_server_that_is_down():
    """The message names the address."""
    with FakeEmbeddingServer() as server:
        url = server.url
    with pytest.raises(JudgeUnavailableError, match=url.removesuffix("/v1")):
        embed(url, model="m", max_retries=0)


def test_texts_that_cannot_be_embedded():
    """They are refused before a request."""
    with FakeEmbeddingServer() as server:
        for texts in ((), ("fine", " ")):
            with pytest.raises(ValueError, match="no blank text"):
                embed(server.url, texts)
    assert 0 == server.calls


@pytest.mark.parametrize(
    ("spec", "environment", "kind"),
    [
        (None, {}, MissingModel),
        (None, {"RAGSTONE_EMBEDDER": "http://h:1/v1"}, EndpointEmbedder),
        ("lexical", {"RAGSTONE_EMBEDDER": "http://h:1/v1"}, LexicalEmbedder),
        ("openai:text-embedding-3-small", {"OPENAI_API_KEY": "sk-1"}, EndpointEmbedder),
        ("openai:m", {"OPENAI_BASE_URL": "http://gateway:9/v1"}, EndpointEmbedder),
    ],
)
def test_forms(monkeypatch, spec, environment, kind):
    """Each way to name one."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    embedder = embedder_from(spec)
    assert isinstance(embedder, Embedder)
    assert kind is type(embedder)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("openai:m", "OPENAI_API_KEY"),
        ("openai:", "Known forms"),
        ("local:", "Known forms"),
        ("bge-m3", "embedder='bge-m3' is unknown. Known forms: 'http://host:8000/v1'"),
        (FakeEmbedder, "not an embedder"),
        (7, "not an embedder"),
    ],
)
def test_mistakes_are_explained(spec, words):
    """The message shows the way out."""
    with pytest.raises(ConfigurationError, match=words):
        embedder_from(spec)


def test_a_local_model(monkeypatch):
    """It is named by its directory, and the install line comes before anything is scored."""
    real = importlib.util.find_spec
    found = [importlib.machinery.ModuleSpec("sentence_transformers", None)]
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: found[0] if name == "sentence_transformers" else real(name, *rest),
    )
    embedder = embedder_from("local:/models/tiny", device="cpu")
    assert isinstance(embedder, LocalEmbedder)
    assert "/models/tiny in this process" == embedder.identity.name
    found[0] = None
    with pytest.raises(MissingExtraError, match=r"embedder 'local:/models/tiny' needs .*ragstone\[models\]"):
        embedder_from("local:/models/tiny")
    for make in (LocalEmbedder, EndpointEmbedder):
        with pytest.raises(ConfigurationError, match="batch_size must be an integer of at least 1, got 0"):
            make("http://h", batch_size=0)


def test_the_baseline_counts_common_words():
    """The cosine of word counts, without function words; it says that it is a baseline."""
    embedder = LexicalEmbedder()
    rows = asyncio.run(embedder.embed(["the red tower", "a red tower", "red paint", "ferries leave"]))
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)
    assert pytest.approx([1.0, 1.0, 0.5, 0.0]) == list(rows @ rows[0])
    assert embedder.identity.is_baseline
    with pytest.raises(JudgeError, match="contains no words") as caught:
        asyncio.run(embedder.embed(["red", "?!"]))
    assert "unsupported" == caught.value.kind


NAMES = OptionNames("embedder", "command line")


def options(url=None, **table):
    """The options of a table, merged with `--embedder`."""
    read = EndpointOptions.from_settings(read_table(TABLES["embedder"], table, source="r.toml"), NAMES)
    return read.override(url=url, model=None, api_key_env=None, limits={})


def test_the_table(monkeypatch):
    """Its keys reach the embedder, and the key comes from the environment."""
    monkeypatch.setenv("EMBEDDER_KEY", KEY)
    with FakeEmbeddingServer(api_key=KEY, models=("a", "b")) as server:
        embedder = options(
            url=server.url, api_key_env="EMBEDDER_KEY", model="b", batch_size=2, extra_body={"dimensions": 4}
        ).build_embedder()
        rows = asyncio.run(embedder.embed(TEXTS))
    assert (3, 4) == rows.shape
    assert [1, 2, 1] == [len(body["input"]) for body in server.stats.requests]
    assert {"b"} == {body["model"] for body in server.stats.requests}


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"api_key": KEY}, "is an option of an embedder, and none is named"),
        ({"batchsize": 3}, "Did you mean 'batch_size'"),
        ({"batch_size": 0}, "embedder.batch_size must be an integer of at least 1, got 0"),
        ({"batch_size": 3}, "is an option of an embedder, and none is named. Name it with embedder.url"),
        ({"model": "m"}, "none is named"),
        ({"url": "lexical", "model": "m"}, "embedder.model is for an endpoint, and the embedder is 'lexical'"),
        ({"url": "http://h/v1", "api_key_env": "NOT_SET"}, "NOT_SET that is not set"),
    ],
)
def test_mistakes_in_the_table(table, words):
    """They name the table, the key and the way out, and never the value of a key."""
    with pytest.raises(ConfigurationError, match=words) as caught:
        options(**table).build_embedder()
    assert KEY not in str(caught.value)


def test_no_table_is_no_embedder():
    """The default is chosen where a metric needs one."""
    assert options().build_embedder() is None


@pytest.mark.parametrize(
    ("texts", "is_error"), [(["a b", "c", "d"], True), (["a b", "b a", "A B"], False), (["a", "b"], False)]
)
def test_one_vector_for_different_texts(texts, is_error):
    """Similarities of such vectors are all 1. Texts with the same words may have the same vector."""

    class Same:
        identity = LexicalEmbedder().identity

        async def embed(self, texts):
            return [[3.0, 4.0]] * len(texts)

    if is_error:
        with pytest.raises(JudgeReplyError, match="one vector for 3 different texts"):
            asyncio.run(embed_texts(Same(), texts))
    else:
        assert (len(texts), 2) == asyncio.run(embed_texts(Same(), texts)).shape
