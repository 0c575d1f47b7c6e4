"""Citation precision and recall: which citations are read, to which sentence they belong, and what they are worth."""

from __future__ import annotations

import asyncio

import pytest

from builders import make_sample
from ragstone.errors import JudgeError
from ragstone.judges.lexical import LexicalJudge
from ragstone.metrics import resolve_metrics
from ragstone.metrics.citation import CITATION
from ragstone.metrics.citation._read import read_cited_sentences
from ragstone.schema import Failure, NotApplicable, Passage, Score
from ragstone.scoring import Scorer
from ragstone.testing import FakeJudge

THREE = ("The tower is 31 m tall.", "It was built in 1884.", "Ferries leave at noon.")
DOCS = tuple(Passage(id=f"doc-{n}", text=text) for n, text in enumerate(THREE, start=1))


def read(response, contexts=THREE, **metadata):
    """Sentences with the positions they cite and the citations without a passage."""
    sample = make_sample(response=response, contexts=contexts, metadata=metadata)
    return read_cited_sentences(sample)


def cited(response, contexts=THREE, **metadata):
    return [c for _, c, _ in read(response, contexts, **metadata)]


@pytest.mark.parametrize(
    ("marker", "positions"),
    [
        ("[1]", (1,)),
        ("[1, 2]", (1, 2)),
        ("[1][2]", (1, 2)),
        ("[1] [3]", (1, 3)),
        ("[3, 1, 3]", (1, 3)),
        ("[1-3]", (1, 2, 3)),
        ("[^2]", (2,)),
        ("[Source 2]", (2,)),
        ("[Source 1, Source 3]", (1, 3)),
        ("(Sources 1 and 2)", (1, 2)),
        ("(see doc 3)", (3,)),
        ("\u30102\u3011", (2,)),
        ("\u30104:0\u2020handbook.pdf\u3011", (1,)),
        ("\u30102\u2020L3-L5\u3011", (2,)),
        ("[2](https://example.org/a)", (2,)),
    ],
)
@pytest.mark.parametrize("form", ["It is tall {}.", "It is tall{}.", "It is tall. {}", "It is tall.{}"])
def test_markers_are_read_and_removed(marker, positions, form):
    """In front of the period and behind it, with and without a space."""
    for text, expected in ((form.format(marker), [positions]), (form.format(marker) + " It is old.", [positions, ()])):
        found = read(text)
        assert expected == [c for _, c, _ in found]
        assert ["It is tall.", "It is old."][: len(expected)] == [t for t, _, _ in found]


def test_ids_are_citations():
    """Also an id in the form of the others that no passage has; other text in brackets is not a citation."""
    assert [("It is tall.", (1, 3), ())] == read("It is tall [doc-1][DOC-3].", DOCS)
    assert [("It is tall.", (1,), ("doc-9",))] == read("It is tall [doc-1, doc-9].", DOCS)
    assert [("It is tall [sic] and [optionally] old.", (2,), ())] == read(
        "It is tall [sic] and [optionally] old [doc-2].", DOCS
    )
    uuids = [Passage(id=f"0b6c1f0e-52a1-4a3e-9d0a-00000000000{n}", text="x") for n in (1, 2)]
    assert [("Tall.", (2,), ("9f6c1f0e-52a1-4a3e-9d0a-0000000000ff",))] == read(
        "Tall [0b6c1f0e-52a1-4a3e-9d0a-000000000002][9f6c1f0e-52a1-4a3e-9d0a-0000000000ff].", uuids
    )


def test_sources_and_links_are_names():
    """A file that several passages come from refers to all of them."""
    passages = [
        Passage(text="a", metadata={"source": "handbook.pdf"}),
        Passage(text="b", metadata={"file_name": "handbook.pdf"}),
        Passage(text="c", metadata={"url": "https://example.org/c"}),
    ]
    assert [(1, 2)] == cited("It is tall [handbook.pdf].", passages)
    assert [(3,)] == cited("It is tall ([example](https://example.org/c)).", passages)
    assert [("See [our page](https://example.org/other).", (), ())] == read(
        "See [our page](https://example.org/other).", passages
    )
    assert [(1, 2)] == cited("It is tall \u30100:2\u2020handbook.pdf\u3011.", passages)


def test_a_number_without_a_passage_is_unknown():
    """It is kept as written. A year is not a citation."""
    assert [("It is tall.", (1,), ("[7]",)), ("It is old [1884].", (), ())] == read(
        "It is tall [1][7]. It is old [1884]."
    )
    assert [("It is tall.", (), ("[0]",))] == read("It is tall [0].")


@pytest.mark.parametrize(
    ("ids", "response", "expected"),
    [
        (("0", "1", "2"), "A [0]. B [2].", [(1,), (3,)]),
        (("2", "3", "1"), "A [1]. B [2].", [(3,), (1,)]),
        (("17", "3", "8"), "A [17]. B [3].", [(1,), (2,)]),
        (("17", "3", "8"), "A [3].", [(3,)]),
        (("17", "3", "8"), "A [1]. B [3].", [(1,), (3,)]),
        (("17", "3", "8"), "A [1]. B [9].", [(1,), ()]),
        ((None, None, None), "A [1]. B [3].", [(1,), (3,)]),
    ],
)
def test_numbers_are_positions_or_ids(ids, response, expected):
    """Ids that number the passages win; otherwise positions, if all numbers are positions; otherwise ids."""
    passages = [Passage(id=each, text=text) for each, text in zip(ids, THREE, strict=True)]
    assert expected == cited(response, passages)


def test_llama_index_numbers_the_texts():
    """`CitationQueryEngine` writes "Source N:" into the passages; a reranker may change their order."""
    passages = ("Source 2:\nIt was built in 1884.", "Source 1:\nThe tower is 31 m tall.")
    assert [(2,), (1,)] == cited("It is 31 m tall [1]. It is from 1884 [2].", passages)
    assert [(1,), (2,)] == cited("It is 31 m tall [1]. It is from 1884 [2].", (passages[0], "No number."))


def test_the_place_of_a_marker():
    """At the beginning of a line it belongs to what follows, in a list also behind the bullet."""
    assert [(1,), (2,)] == cited("[1] It is tall.\n[2] It is old.")
    assert [(1,), (2,)] == cited("- [1] It is tall\n- [2] It is old")
    assert [(1,), (2,)] == cited("It is tall. [1]\nIt is old. [2]\n")
    assert [(1, 2)] == cited("It is tall [1] and old [2].")
    assert [("高さは31メートルです。", (1,), ()), ("1884年に建てられました。", (2,), ())] == read(
        "高さは31メートルです[1]。1884年に建てられました。[2]"
    )
    assert [] == cited("[1]")
    assert [(1,)] == cited("It is tall.\n\n[1]")


@pytest.mark.parametrize(
    "sources",
    [
        "\n\nSources:\n[1] Handbook, page 3.\n[2] Guide.",
        "\n\n## References\n\n- [1] Handbook\n- [9] Guide\n",
        "\n\nSources: [1], [2]",
        "\n\n**Quellen:**\n1. Handbuch\n2. Plan",
        "\n\n[^1]: Handbook, page 3.\n[^2]: Guide.",
    ],
)
def test_a_list_of_sources_is_not_a_sentence(sources):
    """Neither its lines nor its numbers count."""
    assert [("It is tall.", (1,), ())] == read(f"It is tall [1].{sources}")


def test_a_heading_is_no_list_of_sources():
    """Only if nothing but sources follows."""
    assert [(), (), (2,)] == cited("It is tall.\nSources\nThe handbook is the best source [2].")


def test_code_does_not_cite():
    """An index in code is not a citation."""
    assert [("Use `row[1]` or this:", (2,), ())] == read("Use `row[1]` or this: [2]\n```\na[3]\n```")[:1]
    assert (3,) not in cited("Use `row[1]` or this: [2]\n```\na[3]\n```")


@pytest.mark.parametrize(
    ("citations", "expected"),
    [
        pytest.param([1, 3], (1, 3), id="numbers"),
        pytest.param([0, 2], (1, 3), id="numbers from 0"),
        pytest.param(["doc-2"], (2,), id="ids"),
        pytest.param([{"source_id": 2, "quote": "in 1884"}], (2,), id="LangChain quotes"),
        pytest.param([{"source_id": 0}, {"source_id": 2}], (1, 3), id="LangChain quotes from 0"),
        pytest.param([{"document_index": 2, "document_title": "x", "cited_text": "noon"}], (3,), id="Anthropic"),
        pytest.param([{"url": "https://example.org/b", "title": "B"}], (2,), id="URLs"),
    ],
)
def test_a_list_for_the_whole_response(citations, expected):
    """Without places the response is one statement."""
    passages = [*DOCS[:1], Passage(id="doc-2", text="b", metadata={"url": "https://example.org/b"}), DOCS[2]]
    assert [("It is tall. It is old.", expected, ())] == read("It is tall. It is old.", passages, citations=citations)


@pytest.mark.parametrize(
    ("key", "first", "second"),
    [
        ("citations", {"start": 0, "end": 10, "document_ids": ["doc-1"]}, {"start": 12, "end": 20, "sources": [{"id": "doc-2"}]}),
        ("annotations", {"type": "url_citation", "url_citation": {"start_index": 0, "end_index": 4, "url": "doc-1"}},
         {"type": "url_citation", "start_index": 20, "end_index": 22, "title": "doc-2"}),
        ("annotations", {"type": "file_citation", "index": 10, "filename": "doc-1"},
         {"type": "file_citation", "index": 22, "file_id": "doc-2"}),
    ],
)  # fmt: skip
def test_a_list_with_places(key, first, second):
    """Cohere's and OpenAI's: each sentence that the part of the text touches."""
    assert [(1,), (2,)] == cited("It is tall. It is old.", DOCS, **{key: [first, second]})


def test_a_part_may_touch_several_sentences():
    """Then all of them cite the passage. An entry without a passage is unknown."""
    listed = [{"start": 3, "end": 15, "document_index": 0}, {"start": 0, "end": 5, "document_index": 8}]
    assert [("It is tall.", (1,), ("document 8",)), ("It is old.", (1,), ())] == read(
        "It is tall. It is old.", citations=listed
    )


def test_a_list_that_names_no_passage_is_ignored():
    """For example bibliographic metadata of the row; then markers count. With a passage, markers only disappear."""
    assert [(2,)] == cited("It is tall [2].", DOCS, citations=["Smith 2020", {"x": 1}, None, True])
    assert [(2,)] == cited("It is tall [2].", DOCS, citations="doc-1")
    assert [("It is tall.", (1,), ())] == read("It is tall [2].", DOCS, citations=["doc-1"])


def judged(supported, response, contexts=THREE, metrics=("citation",), **fields):
    """Outcomes by metric, and the prompts. `supported` gets a sentence and the texts of passages."""
    asked = []

    def reply(prompt):
        asked.append(prompt)
        claims, evidence = prompt.fields["claims"], prompt.fields["evidence"]
        return {str(n): int(supported(claim, set(evidence))) for n, claim in enumerate(claims, start=1)}

    sample = make_sample(response=response, contexts=contexts, **fields)
    outcomes = asyncio.run(Scorer(resolve_metrics(list(metrics)), FakeJudge(json=reply)).score(sample))
    return {o.metric.removeprefix("citation."): o for o in outcomes}, asked


def words(claim, evidence):
    """A judge that looks for each word of a claim in some passage."""
    return all(any(word in text for text in evidence) for word in claim.strip(".").split())


@pytest.mark.parametrize(
    ("response", "contexts", "precision", "recall"),
    [
        # One passage is enough, the other is not needed.
        ("a b [1][2].", ("a b", "c"), 1 / 2, 1),
        # Both are needed; both alone are enough.
        ("a b [1][2].", ("a", "b"), 1, 1),
        ("a [1][2].", ("a b", "a c"), 1, 1),
        # Two are needed, and the third is not.
        ("a b [1][2][3].", ("a", "b", "c"), 2 / 3, 1),
        # Not supported: no citation counts, however good.
        ("a b [1][2].", ("a", "c"), 0, 0),
        ("a [1]. b [1]. c.", ("a", "b"), 1 / 2, 1 / 3),
        # A citation without a passage counts as a citation; the sentence is supported by the others.
        ("a [1][9].", ("a",), 1 / 2, 1),
        ("a [9].", ("a",), 0, 0),
    ],
)
def test_the_definition(response, contexts, precision, recall):
    """Precision and recall of ALCE."""
    outcomes, _ = judged(words, response, contexts)
    assert (precision, recall) == pytest.approx((outcomes["precision"].value, outcomes["recall"].value))


def test_calls_are_shared():
    """Sentences with the same citations are judged together, and both metrics share these calls."""
    _, asked = judged(words, "a [1]. b [1]. c [2]. d.", ("a b", "c"), query="Why?")
    assert [("a.", "b."), ("c.",)] == [prompt.fields["claims"] for prompt in asked]
    assert [["query", "response", "evidence", "claims"]] * 2 == [list(prompt.fields) for prompt in asked]
    assert len(judged(words, "a b [1][2].", ("a", "b"), metrics=["citation.recall"])[1]) == 1
    # Without passage 1 is passage 2 alone: one call for both.
    assert len(judged(words, "a b [1][2].", ("a", "b"))[1]) == 3
    assert len(judged(words, "a b c [1][2][3].", ("a", "b", "c"))[1]) == 7


def test_details_show_the_evidence():
    """Sentences with citations and verdicts, also as text."""
    outcomes, _ = judged(words, "a b [1][2]. c [9]. d.", ("a b", "x"))
    assert outcomes["recall"].details["claims"] == [
        {"claim": "a b.", "supported": True, "cited": [1, 2]},
        {"claim": "c.", "supported": False, "cited": [], "unknown": ["[9]"]},
        {"claim": "d.", "supported": False, "cited": []},
    ]
    assert outcomes["precision"].details["claims"][0] == {
        "claim": "a b.",
        "supported": True,
        "cited": [1, 2],
        "not_needed": [2],
    }
    assert outcomes["precision"].details["n_citations"] == 3
    assert "- supported, cites 1, 2 (2 not needed): a b." in outcomes["precision"].explanation
    assert "- not supported, cites [9], which is not a passage: c." in outcomes["recall"].explanation
    assert "- not supported, without a citation: d." in outcomes["recall"].explanation


def test_nothing_to_rate():
    """Without citations precision is 0/0, without sentences recall is."""
    outcomes, asked = judged(words, "a. b.")
    assert isinstance(outcomes["precision"], NotApplicable)
    assert (0.0, []) == (outcomes["recall"].value, asked)
    outcomes, asked = judged(words, " ")
    assert all(isinstance(outcome, NotApplicable) for outcome in outcomes.values())
    outcomes, asked = judged(words, "a [1].", ())
    assert (0.0, 0.0, []) == (outcomes["precision"].value, outcomes["recall"].value, asked)
    outcomes, asked = judged(words, "a [1].", (" ", "b"))
    assert (0.0, 0.0, []) == (outcomes["precision"].value, outcomes["recall"].value, asked)


def test_missing_verdicts_lead_to_bounds():
    """Only if they can change the value."""

    def broken(prompt):
        return JudgeError("down", kind="refused") if "b" in prompt.fields["evidence"] else None

    def run(response, contexts):
        reply = lambda prompt: {str(n): 1 for n in range(1, len(prompt.fields["claims"]) + 1)}  # noqa: E731
        judge = FakeJudge(json=reply, fail=broken)
        sample = make_sample(response=response, contexts=contexts)
        return {o.metric: o for o in asyncio.run(Scorer(CITATION, judge).score(sample))}

    outcomes = run("s [1]. t [2].", ("a", "b"))
    for outcome in outcomes.values():
        assert isinstance(outcome, Failure)
        assert [0.5, 1.0] == outcome.details["bounds"]
    assert {"citation.precision": 0, "citation.recall": 0} == {n: o.value for n, o in run("s [7].", ("a", "b")).items()}


def test_the_lexical_baseline_scores_them():
    """Half of a sentence's words in the cited passages."""
    sample = make_sample(contexts=THREE, response="The tower is 31 m tall [1]. It was built in 1884 [3].")
    outcomes = asyncio.run(Scorer(CITATION, LexicalJudge()).score(sample))
    assert all(isinstance(outcome, Score) for outcome in outcomes)
    assert [0.5, 0.5] == [outcome.value for outcome in outcomes]
