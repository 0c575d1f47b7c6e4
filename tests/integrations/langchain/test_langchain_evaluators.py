"""Our metrics as evaluators: the shape of openevals, every metric by name, and all ways of saying what is to be scored."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.language_models import FakeListChatModel
from langchain_core.load import dumpd
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda

from fake_models import FakeEmbedder, FakeReader
from langchain_ragstone import LangChainJudge, RagstoneCallbackHandler, RagstoneEvaluator
from langchain_ragstone._evaluator_sample import sample_from_run
from ragstone.errors import ConfigurationError, JudgeUnavailableError, MissingExtraError
from ragstone.judges import embedder_from, judge_from
from ragstone.metrics import all_metrics
from ragstone.testing import FakeJudge, MemoryRecorder

INPUTS = {"question": "How tall is the lighthouse?"}
OUTPUTS = {"answer": "31 metres.", "contexts": ["The lighthouse is 31 metres tall."]}
KEYS = ["key", "score", "comment", "metadata"]
METRICS = [metric.card for metric in all_metrics()]


def score(metrics: Any = "ccrs.qr", *, judge: Any = None, **given: Any) -> Any:
    """Score one run with a fake judge."""
    options = {name: given.pop(name) for name in ("fields", "reader") if name in given}
    return RagstoneEvaluator(metrics, judge=judge or FakeJudge(80), **options)(**given)


def asked(**given: Any) -> dict[str, Any]:
    """The fields of the prompt that the judge was asked with."""
    judge = FakeJudge(80)
    outcome = RagstoneEvaluator("ccrs.qr", judge=judge, fields=given.pop("fields", None))(**given)
    assert 0.8 == outcome["score"], outcome["comment"]
    return dict(judge.prompts[0].fields)


def test_score_has_the_shape_of_openevals():
    """Key, score, comment, metadata and nothing else; the metadata say how the score came about, in plain values."""
    found = score(inputs=INPUTS, outputs=OUTPUTS)
    assert KEYS == list(found)
    assert ("ccrs.qr", 0.8) == (found["key"], found["score"])
    metadata = json.loads(json.dumps(found["metadata"]))
    assert ("score", None, "single_reply", 1) == tuple(metadata[k] for k in ("outcome", "reason", "method", "n"))
    assert ("fake judge", False, "higher") == tuple(metadata[k] for k in ("judge", "is_baseline", "direction"))
    assert metadata["metric_version"].endswith(metadata["prompt_hash"])
    assert 1 == metadata["usage"]["calls"]
    assert metadata["judge_hash"]


def test_interval_of_a_score_is_in_the_metadata():
    """Where a score carries its uncertainty, so does the feedback."""
    judge = LangChainJudge(FakeListChatModel(responses=["70", "90"]), score_mode="sampled", draws=4)
    found = score(judge=judge, inputs=INPUTS, outputs=OUTPUTS)
    interval = found["metadata"]["interval"]
    assert ("sampled", 4) == (found["metadata"]["method"], found["metadata"]["n"])
    assert interval["low"] < found["score"] < interval["high"]


def test_baseline_says_that_it_is_one():
    """The lexical baseline scores if it is named, and the metadata say so. Without a judge the evaluator is refused."""
    found = RagstoneEvaluator("ccrs.qr", judge="lexical")(inputs=INPUTS, outputs=OUTPUTS)
    assert True is found["metadata"]["is_baseline"]
    with pytest.raises(ConfigurationError, match=r"ccrs\.qr needs a judge, and none is named"):
        RagstoneEvaluator("ccrs.qr")


def test_not_applicable_has_no_score_and_says_why():
    """A metric without what it needs scores nothing, rather than 0."""
    found = score("ccrs.ac", inputs=INPUTS, outputs=OUTPUTS)
    assert None is found["score"]
    assert "not applicable: the sample has no reference" == found["comment"]
    assert ("not_applicable", "the sample has no reference") == tuple(
        found["metadata"][k] for k in ("outcome", "reason")
    )


def test_failure_has_no_score_and_says_why():
    """A judge that cannot be reached is no 0 either."""
    judge = FakeJudge(fail=lambda _: JudgeUnavailableError("the line is dead"))
    found = score(judge=judge, inputs=INPUTS, outputs=OUTPUTS)
    assert (None, "failed (unavailable): the line is dead") == (found["score"], found["comment"])
    assert ("failure", "unavailable") == tuple(found["metadata"][k] for k in ("outcome", "kind"))


def test_what_cannot_be_read_has_no_score_and_says_why():
    """One bad row does not end an evaluation: it has no score, and a reason."""
    found = score(["ccrs.qr", "ndcg@10"], inputs=INPUTS, outputs={"answer": object(), "contexts": 7})
    assert [(None, "unreadable")] * 2 == [(each["score"], each["metadata"]["outcome"]) for each in found]
    assert "contexts must be a list of passages" in found[0]["comment"]


def test_group_is_a_list():
    """Several metrics give a list in their order, from one reading of the sample."""
    found = score("ccrs", inputs=INPUTS, outputs=OUTPUTS, reference_outputs={"answer": "31 metres"})
    assert ["ccrs.cc", "ccrs.qr", "ccrs.id", "ccrs.ac", "ccrs.ir"] == [each["key"] for each in found]
    assert ["ccrs.qr", "exact_match"] == [
        each["key"] for each in score(["ccrs.qr", "exact_match"], inputs=INPUTS, outputs=OUTPUTS)
    ]


@pytest.mark.parametrize("card", METRICS, ids=lambda card: card.name)
def test_every_metric_is_available_by_name(card):
    """Each registered metric makes an evaluator by its name alone, which says what it found in its worked example."""
    row = dict(card.example.row)
    if card.extra is not None and importlib.util.find_spec(card.extra.module) is None:
        with pytest.raises(MissingExtraError, match=re.escape(card.extra.extra)):
            RagstoneEvaluator(card.name)
        return
    evaluator = RagstoneEvaluator(card.name, judge=FakeJudge(), reader=FakeReader(), embedder=FakeEmbedder())
    reference = {name: row.pop(name) for name in ("reference", "qrels", "ratings", "sub_questions") if name in row}
    found = evaluator(inputs={"question": row.pop("query", None)}, outputs=row, reference_outputs=reference)
    assert (card.name, card.name, KEYS) == (evaluator.__name__, found["key"], list(found))
    assert found["metadata"]["outcome"] in ("score", "not_applicable", "failure")
    if card.asks_judge or card.reader_calls_per_passage or card.extra:
        return
    assert card.example.value == pytest.approx(found["score"])


def test_metric_that_reads_says_that_it_needs_a_reader():
    """A judge without a model cannot lend one; the message says what to give."""
    with pytest.raises(ConfigurationError, match="reader="):
        RagstoneEvaluator("udcg", judge=FakeJudge())


def test_chat_model_reads_and_judges():
    """A chat model of LangChain's is taken as it is, for judge and reader."""
    model = FakeListChatModel(responses=["80"])
    assert 0.8 == score(judge=model, inputs=INPUTS, outputs=OUTPUTS)["score"]
    reader = FakeListChatModel(responses=["NO-RESPONSE"])
    found = score("udcg", judge=FakeJudge(), reader=reader, inputs=INPUTS, outputs=OUTPUTS)
    assert found["score"] is not None, found["comment"]


def test_unknown_metric_and_unknown_field_are_refused():
    """What does not exist is said when the evaluator is made."""
    with pytest.raises(ConfigurationError, match="Did you mean"):
        RagstoneEvaluator("ccrs.qrr")
    with pytest.raises(ConfigurationError, match="'documents'; a sample has id, query"):
        RagstoneEvaluator("ccrs.qr", judge="lexical", fields={"documents": "x"})


QUESTION, ANSWER = "How tall is it?", "31 metres."
DOCUMENTS = [Document("It is 31 metres tall.", id="a", metadata={"score": 0.5}), Document("Ferries leave at noon.")]
TEXTS = ("It is 31 metres tall.", "Ferries leave at noon.")


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        (QUESTION, ANSWER),
        (HumanMessage(QUESTION), AIMessage(ANSWER)),
        ([("user", QUESTION)], [{"role": "assistant", "content": ANSWER}]),
        ({"question": QUESTION}, {"answer": ANSWER}),
        ({"input": HumanMessage(QUESTION)}, {"output": AIMessage(ANSWER)}),
        ({"query": QUESTION}, {"result": ANSWER}),
        ({"messages": [HumanMessage(QUESTION)]}, {"messages": [HumanMessage(QUESTION), AIMessage(ANSWER)]}),
        ({"messages": [dumpd(HumanMessage(QUESTION))]}, {"messages": [dumpd(AIMessage(ANSWER))]}),
        ({"user_input": QUESTION}, {"response": AIMessage([{"type": "reasoning"}, {"type": "text", "text": ANSWER}])}),
        ({}, {"question": QUESTION, "answer": ANSWER}),
        ({"question": QUESTION, "answer": "of the data set"}, {"question": "rewritten", "answer": ANSWER}),
    ],
    ids=repr,
)
def test_question_and_answer_are_found(inputs, outputs):
    """Texts, messages and mappings under all usual names; the question is the example's, the answer the run's."""
    fields = asked(inputs=inputs, outputs=outputs, contexts=[])
    assert (QUESTION, ANSWER) == (fields["query"], fields["response"])


@pytest.mark.parametrize(
    ("inputs", "outputs", "given"),
    [
        ({}, {"context": DOCUMENTS}, {}),
        ({}, {"documents": DOCUMENTS}, {}),
        ({}, {"source_documents": DOCUMENTS}, {}),
        ({}, {"contexts": list(TEXTS)}, {}),
        ({}, {"retrieved_contexts": [{"page_content": text} for text in TEXTS]}, {}),
        ({}, {"context": [dumpd(document) for document in DOCUMENTS]}, {}),
        ({"context": "of the data set"}, {"context": DOCUMENTS}, {}),
        ({"context": DOCUMENTS}, {}, {}),
        ({}, {"context": ["other"]}, {"context": DOCUMENTS}),
    ],
    ids=repr,
)
def test_contexts_are_found(inputs, outputs, given):
    """Documents, texts and mappings; what the caller names goes before the run's, and that before the example's."""
    judge = FakeJudge(80)
    RagstoneEvaluator("ccrs.id", judge=judge)(
        inputs={"question": QUESTION, **inputs}, outputs={"answer": ANSWER, **outputs}, **given
    )
    assert TEXTS == judge.prompts[0].fields["contexts"]


@pytest.mark.parametrize(
    "reference",
    [
        "31 metres",
        ["no", "31 metres"],
        {"answer": "31 metres"},
        {"reference": ["no", "31 metres"]},
        {"expected": AIMessage("31 metres")},
        {"output": {"answer": "31 metres"}},
        {"output": {"answer": ["no", "31 metres"]}},
        AIMessage("31 metres"),
    ],
    ids=repr,
)
def test_reference_is_found(reference):
    """A text, a message, a list of correct answers, or a mapping with any of them."""
    assert 1.0 == score("exact_match", inputs=QUESTION, outputs="31 metres", reference_outputs=reference)["score"]


def test_outputs_bring_no_reference():
    """A system does not say itself what is right."""
    outputs = {"answer": "x", "reference": "x", "ground_truth": "x"}
    assert None is score("exact_match", inputs=QUESTION, outputs=outputs)["score"]


def test_ranking_metrics_take_document_ids_and_the_reference_s_qrels():
    """Ids of documents meet the grades among the reference outputs."""
    found = score(
        "reciprocal_rank",
        inputs=INPUTS,
        outputs={"context": DOCUMENTS[::-1][1:]},
        reference_outputs={"qrels": {"a": 1}},
    )
    assert 1.0 == found["score"], found["comment"]
    found = score(
        "recall@5", inputs=INPUTS, outputs={"context": [DOCUMENTS[0]]}, reference_outputs={"qrels": {"a": 1, "b": 1}}
    )
    assert 0.5 == found["score"]


def test_fields_name_what_has_other_names():
    """An application's own names are said once, when the evaluator is made."""
    fields = {"query": "frage", "contexts": "quellen", "response": "antwort"}
    found = asked(
        inputs={"frage": QUESTION, "question": "not this"},
        outputs={"antwort": ANSWER, "quellen": DOCUMENTS},
        fields=fields,
    )
    assert (QUESTION, ANSWER) == (found["query"], found["response"])


def test_field_that_is_nowhere_is_said():
    """A name that fits nothing is a mistake of the caller's, and is told as one."""
    found = score(inputs={"question": QUESTION}, outputs=OUTPUTS, fields={"query": "frage"})
    assert None is found["score"]
    assert "field 'frage' not found" in found["comment"]
    assert "inputs: ['question']" in found["comment"]


def test_names_that_disagree_are_said():
    """Two names of one field with different values are never settled by guessing."""
    found = score(inputs={"question": "a", "query": "b"}, outputs=OUTPUTS)
    assert None is found["score"]
    assert "which mean 'query' and differ" in found["comment"]


def test_works_inside_a_running_loop():
    """The synchronous call works where a loop runs already, and the asynchronous one says the same."""
    evaluator = RagstoneEvaluator("ccrs.qr", judge=FakeJudge(80))

    async def both() -> list[Any]:
        return [evaluator(inputs=INPUTS, outputs=OUTPUTS), await evaluator.acall(inputs=INPUTS, outputs=OUTPUTS)]

    assert [0.8, 0.8] == [found["score"] for found in asyncio.run(both())]


def test_threads_share_an_evaluator_and_mix_nothing():
    """Eight threads score four hundred runs through one evaluator and one chat model, each its own."""

    def number_in(prompt: Any) -> AIMessage:
        return AIMessage(re.search(r"number (\d+)", str(prompt))[1])

    evaluator = RagstoneEvaluator("ccrs.qr", judge=RunnableLambda(number_in))

    def scored(nth: int) -> float:
        return evaluator(inputs=f"number {nth}", outputs="x")["score"]

    with ThreadPoolExecutor(8) as threads:
        assert [nth % 101 / 100 for nth in range(400)] == list(threads.map(scored, (nth % 101 for nth in range(400))))


def test_slow_judge_fails_by_the_deadline():
    """An evaluator ends by its deadline, as a failure."""
    evaluator = RagstoneEvaluator("ccrs.qr", judge=FakeJudge(80, latency_s=60), deadline_s=0.1)
    assert "timeout" == evaluator(inputs=INPUTS, outputs=OUTPUTS)["metadata"]["kind"]


def test_evaluation_is_no_traffic():
    """A chat model that judges inside a captured request is not part of it."""
    recorder = MemoryRecorder()
    model = FakeListChatModel(responses=["80"]).with_config(callbacks=[RagstoneCallbackHandler(recorder)])
    assert 0.8 == score(judge=model, inputs=INPUTS, outputs=OUTPUTS)["score"]
    assert [] == recorder.drafts


def test_judge_in_words_is_taken():
    """What `judge_from` takes, an evaluator takes."""
    found = score(judge="lexical", inputs=INPUTS, outputs=OUTPUTS)
    assert judge_from("lexical").identity.name == found["metadata"]["judge"]


def test_metric_without_a_judge_names_none():
    """Nor is its score that of a baseline."""
    about = RagstoneEvaluator("exact_match")(outputs="a", reference_outputs="a")["metadata"]
    assert (None, None, False) == (about["judge"], about["judge_hash"], about["is_baseline"])


TRAJECTORY = [
    HumanMessage("What is the fee?"),
    ToolMessage("old", tool_call_id="0", artifact=[Document("a fact of an earlier turn")]),
    AIMessage("Ten."),
    HumanMessage("How tall is it?"),
    AIMessage("", tool_calls=[{"name": "search", "args": {"query": "height"}, "id": "1"}]),
    ToolMessage("It is 31 metres tall.", tool_call_id="1", artifact=[Document("It is 31 metres tall.", id="h")]),
    ToolMessage("7", tool_call_id="2"),
    AIMessage("31 metres."),
]


@pytest.mark.parametrize("outputs", [TRAJECTORY, {"messages": TRAJECTORY}, {"messages": dumpd(TRAJECTORY)}])
def test_messages_of_an_agent_are_a_sample(outputs):
    """The last question, what tools found for it, and the last answer; a saved agent's state is read as well."""
    read = sample_from_run(inputs=None, outputs=outputs, reference_outputs=None, given={}, fields={})
    if isinstance(outputs, dict):
        assert "How tall is it?" == read.query
    assert ("31 metres.", ["It is 31 metres tall."]) == (read.response, [passage.text for passage in read.contexts])


WEB = "Parking at the harbor library costs two euros an hour, says the page of the city council."
FOUND = Document("The harbor library opens at ten on Saturdays.", id="h")
TODOS = [{"content": "Look up when the harbor library opens on Saturdays", "status": "pending"}] * 2


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize(
    ("others", "contexts"),
    [
        ([{"content": WEB}], None),
        ([{"content": WEB, "status": "error"}], [FOUND.page_content]),
        ([{"content": '[{"fee": 2}]', "artifact": [{"fee": 2}]}], [FOUND.page_content]),
        ([{"content": f"Updated todo list to {TODOS}"}], [FOUND.page_content]),
        ([{"content": "drawn", "artifact": []}], [FOUND.page_content]),
    ],
    ids=["text", "error", "rows", "plan", "empty list"],
)
def test_contexts_of_an_agent_are_those_of_captured_requests(others, contexts, saved):
    """A text that may be a passage leaves them unknown. Rows, plans, errors and empty lists are not passages."""
    calls = [
        {"name": "search", "args": {"query": "?"}, "id": "0"},
        {"name": "other", "args": {"todos": TODOS}, "id": "1"},
    ]
    found = ToolMessage(FOUND.page_content, name="search", tool_call_id="0", artifact=[(FOUND, 0.5)])
    if saved:
        found.artifact = [FOUND]
    tools = [ToolMessage(name="other", tool_call_id="1", **other) for other in others]
    messages = [HumanMessage("When?"), AIMessage("", tool_calls=calls), found, *tools, AIMessage("At ten.")]
    outputs = {"messages": dumpd(messages) if saved else messages}
    read = sample_from_run(inputs=None, outputs=outputs, reference_outputs=None, given={}, fields={})
    assert contexts == (None if read.contexts is None else [passage.text for passage in read.contexts])


def test_an_empty_artifact_and_a_text_leave_contexts_unknown():
    """The list does not say that a retrieval found nothing."""
    messages = [HumanMessage("?"), ToolMessage("drawn", tool_call_id="1", artifact=[]), AIMessage("!")]
    read = sample_from_run(inputs=None, outputs={"messages": messages}, reference_outputs=None, given={}, fields={})
    assert read.contexts is None


def test_messages_without_artifacts_leave_contexts_unknown():
    """Text of a tool is not known to be a passage."""
    messages = [HumanMessage("?"), ToolMessage("7", tool_call_id="2"), AIMessage("!")]
    read = sample_from_run(inputs=None, outputs={"messages": messages}, reference_outputs=None, given={}, fields={})
    assert read.contexts is None


def test_an_embedder_is_used():
    """The one that is named, and a wrong name is refused."""
    name = "vera.answer_relevance_cosine"
    embedder = embedder_from("lexical")
    assert RagstoneEvaluator(name, judge="lexical", embedder=embedder)._setup.embedder is embedder
    with pytest.raises(ConfigurationError, match="is unknown"):
        RagstoneEvaluator(name, judge="lexical", embedder="no-embedder")


EARLIER = [HumanMessage("Which towers are there?"), AIMessage("The Alpha tower.")]


@pytest.mark.parametrize(
    "inputs",
    [
        {"messages": [*EARLIER, HumanMessage("How tall is it?")]},
        {"messages": dumpd([*EARLIER, HumanMessage("How tall is it?")])},
        {"question": "How tall is it?", "chat_history": EARLIER},
        {"question": "How tall is it?", "history": dumpd(EARLIER)},
        [*EARLIER, HumanMessage("How tall is it?")],
    ],
)
def test_earlier_messages_are_the_history(inputs):
    """Judges see them with the question."""
    read = sample_from_run(inputs=inputs, outputs="31 metres.", reference_outputs=None, given={}, fields={})
    assert "How tall is it?" == read.query
    assert [("user", EARLIER[0].content), ("assistant", EARLIER[1].content)] == [(t.role, t.text) for t in read.history]


def test_a_question_alone_has_no_history():
    """Neither as a text nor as a message."""
    for inputs in ("How tall is it?", {"messages": [HumanMessage("How tall is it?")]}, None):
        read = sample_from_run(inputs=inputs, outputs="31 metres.", reference_outputs=None, given={}, fields={})
        assert () == read.history
