"""The conformance matrix: each way of running LangChain, and what is recorded of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from langchain_scenarios import FOUND, Q, agents, attaching, chains, graphs, retrieval, streams

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "langchain.md"


class AnyOrder(list):
    """Contexts of parallel searches, which come in the order in which they end."""

    def __eq__(self, other):
        return other is not None and sorted(self) == sorted(other)

    __hash__ = None


def ok(question=Q, contexts=FOUND, answer="answer"):
    """A record of a request that ended well."""
    return (question, contexts, answer, "ok")


OK = ok()
ECHOED = [ok(question, [f"about {question}"]) for question in chains.QUESTIONS]
NO_TEXT_YET = (Q, FOUND, None, "truncated")
PAUSED = (Q, FOUND, None, "interrupted")
SURVIVED = {"inner_errors": ["ConnectionError: try again"], "retrievals": 1}

# fmt: off
MATRIX = [
    # row    scenario                                     records: question, contexts, answer, status      what else is checked
    ("1",   chains.lcel_invoke,                           [OK]),
    ("1b",  chains.inputs_in_a_dict,                      [OK]),
    ("1c",  chains.inputs_as_messages,                    [OK]),
    ("2",   chains.lcel_ainvoke,                          [OK]),
    ("3",   streams.lcel_stream,                          [OK],                                            {"first_token": True}),
    ("3b",  streams.stream_of_a_dict,                     [OK],                                            {"first_token": True}),
    ("3c",  streams.graph_stream,                         [OK],                                            {"first_token": True}),
    ("4",   streams.lcel_astream,                         [OK],                                            {"first_token": True}),
    ("4b",  streams.graph_astream,                        [OK],                                            {"first_token": True}),
    ("5",   streams.lcel_astream_events_v2,               [OK],                                            {"first_token": True}),
    ("5b",  streams.model_stream_events_v3,               [ok(contexts=None)],                             {"first_token": True}),
    ("5c",  streams.model_astream_events_v3,              [ok(contexts=None)],                             {"first_token": True}),
    ("5d",  streams.graph_stream_events_v3,               [OK],                                            {"first_token": True}),
    ("5e",  streams.graph_astream_events_v3,              [OK],                                            {"first_token": True}),
    ("6",   chains.lcel_batch,                            ECHOED),
    ("6b",  chains.lcel_abatch,                           ECHOED),
    ("6c",  chains.lcel_batch_as_completed,               ECHOED),
    ("6d",  chains.lcel_abatch_as_completed,              ECHOED),
    ("7",   chains.lcel_batch_with_one_failure,           [OK, ("bad", None, None, "error")]),
    ("8",   chains.concurrent_ainvoke,                    ECHOED),
    ("9",   streams.stream_closed_early,                  [NO_TEXT_YET],                                   {"first_token": True, "late": 2}),
    ("9b",  streams.graph_stream_closed_early,            [NO_TEXT_YET]),
    ("10",  streams.stream_abandoned,                     [(Q, FOUND, None, "abandoned")]),                # once swept; until then in flight
    ("11",  streams.astream_break,                        [NO_TEXT_YET],                                   {"error": None, "inner_errors": []}),
    ("12",  chains.ainvoke_canceled,                      [(Q, FOUND, None, "error")],                     {"error": "CancelledError"}),
    ("13",  chains.create_retrieval_chain_,               [OK]),
    ("14",  chains.history_aware_chain,                   [OK],                                            {"queries": ["rewritten"]}),
    ("15",  chains.retrieval_qa_legacy,                   [OK]),
    ("16",  chains.text_llm,                              [OK]),
    ("17",  retrieval.parallel_two_retrievers,            [ok(contexts=["a1", "a2", "b1", "b2"])],         {"retrievals": 2}),
    ("18",  retrieval.ensemble,                           [ok(contexts=["b", "a", "c"])],                  {"retrievals": 1}),
    ("18b", retrieval.multi_query,                        [OK],                                            {"retrievals": 1}),
    ("18c", retrieval.compression_rerank,                 [ok(contexts=["beta"])],                         {"retrievals": 1}),
    ("19",  retrieval.rerank_in_lambda,                   [ok(contexts=["beta"])],                         {"retrievals": 1}),
    ("19b", retrieval.rerank_in_lambda_streamed,          [ok(contexts=["beta"])],                         {"retrievals": 1}),
    ("19c", retrieval.rerank_of_a_dict,                   [ok(contexts=["beta"])],                         {"retrievals": 1}),
    ("19d", retrieval.rerank_in_nested_sequence,          [ok(contexts=["BETA", "ALPHA"])],                {"retrievals": 1}),
    ("19e", retrieval.rerank_in_one_of_two_branches,      [ok(contexts=["a1", "b1", "b2"])],               {"retrievals": 2}),
    ("19f", retrieval.filter_removes_everything,          [ok(contexts=[])],                               {"retrievals": 1}),
    ("19g", retrieval.second_retrieval_from_the_first,    [ok(contexts=[*FOUND, "gamma"])],                {"retrievals": 2}),  # no re-ranking
    ("20",  retrieval.lambda_calls_retriever,             [OK],                                            {"retrievals": 1}),
    ("20b", retrieval.async_lambda_calls_retriever,       [OK],                                            {"retrievals": 1}),
    ("21",  retrieval.plain_thread_in_lambda,             [ok(contexts=None)]),                            # a limit: the context is lost
    ("21b", retrieval.executor_in_async_lambda,           [ok(contexts=None)]),                            # the same
    ("22",  retrieval.lambda_uses_asyncio_to_thread,      [OK]),
    ("22b", retrieval.lambda_uses_a_task,                 [OK]),
    ("22c", retrieval.lambda_copies_the_context,          [OK]),
    ("23",  retrieval.graph_async_node_no_config,         [OK]),
    ("24",  chains.plain_function_without_root,           [ok(answer=None), ok("a prompt", None)]),
    ("25",  retrieval.llm_retry,                          [OK],                                            SURVIVED),
    ("25b", retrieval.whole_chain_retry,                  [OK],                                            SURVIVED),
    ("25c", retrieval.async_retry,                        [OK],                                            SURVIVED),
    ("26",  retrieval.retriever_fallback,                 [OK],                                            {"inner_errors": ["ConnectionError: index down"], "retrievals": 1}),
    ("27",  chains.retriever_error,                       [(Q, None, None, "error")],                      {"error": "ConnectionError: index down", "inner_errors": []}),
    ("27b", chains.llm_error,                             [(Q, FOUND, None, "error")],                     {"error": "ConnectionError: model down", "inner_errors": []}),
    ("28",  chains.empty_retrieval,                       [ok(contexts=[])],                               {"retrievals": 1}),
    ("28b", chains.no_retrieval,                          [ok(contexts=None)],                             {"retrievals": 0}),
    ("28c", chains.empty_answer,                          [ok(answer="")]),
    ("29",  agents.agent_retriever_tool,                  [OK],                                            {"retrievals": 1}),
    ("29b", agents.agent_retriever_tool_with_artifact,    [OK],                                            {"retrievals": 1}),
    ("29c", agents.agent_messages_as_tuples,              [OK],                                            {"retrievals": 1}),
    ("29d", agents.agent_ainvoke,                         [OK],                                            {"retrievals": 1}),
    ("30",  agents.agent_two_parallel_retrievals,         [ok(contexts=AnyOrder(["about first", "about second"]))], {"queries": AnyOrder(["first", "second"])}),
    ("31",  agents.agent_stream,                          [OK],                                            {"first_token": True, "retrievals": 1}),
    ("32",  agents.agent_multi_turn_checkpointer,         [ok("q one", ["about one"], "answer one"), ok("q two", ["about two"], "answer two")], {"sessions": ["T", "T"], "metadata": {}}),
    ("33",  agents.agent_artifact_tool_no_retriever,      [OK],                                            {"retrievals": 1}),
    ("33b", agents.agent_tool_returns_documents,          [OK],                                            {"retrievals": 1}),
    ("34",  agents.agent_text_tool_no_artifact,           [ok(contexts=None)],                             {"retrievals": 0}),  # unknown, which is not "none"
    ("35",  agents.agent_rag_chain_as_tool,               [OK],                                            {"retrievals": 1}),
    ("36",  agents.agent_tool_error_then_recovers,        [ok(contexts=["right"])],                        SURVIVED),
    ("37",  retrieval.graph_two_nodes,                    [ok(contexts=["alpha"])],                        {"retrievals": 1}),
    ("37b", graphs.graph_subgraph,                        [OK],                                            {"retrievals": 1}),
    ("37c", graphs.graph_map_reduce,                      [ok(contexts=AnyOrder([f"about part {i}" for i in range(3)]))], {"retrievals": 3}),
    ("37d", graphs.graph_turns_checkpointer,              [ok("q one"), ok("q two")],                      {"sessions": ["T", "T"]}),
    ("37e", graphs.graph_turn_without_retrieval,          [ok("who?"), ok("hi", None, "hello"), ok("bye", None, None)]),  # the state still holds the first turn's
    ("37f", graphs.graph_turn_without_retrieval_streamed, [ok("who?"), ok("hi", None, "hello"), ok("bye", None, None)]),
    ("37g", graphs.graph_turn_with_commands,              [ok("one", ["about one"]), ok("two", ["about two"])]),
    ("37h", graphs.graph_subgraph_returns_contexts,       [ok(contexts=["far"])]),
    ("37i", graphs.graph_with_contexts_in_its_input,      [ok(contexts=["given"])]),
    ("37j", graphs.graph_typed_state,                     [ok(contexts=[f"about {Q}"]), ok("two", None)]),
    ("37k", graphs.function_with_a_checkpointer,          [ok(contexts=["own"])]),
    ("37l", graphs.chain_around_a_graph_on_a_thread,      [ok(contexts=["own"])]),
    ("37m", graphs.function_on_a_thread,                  [ok(contexts=["own"])],                          {"session_id": "T"}),
    ("38",  graphs.graph_interrupt_resume,                [PAUSED, OK],                                    {"inner_errors": []}),
    ("38b", graphs.graph_interrupt_resume_async,          [PAUSED, OK],                                    {"inner_errors": []}),
    ("38c", graphs.graph_interrupt_streamed,              [PAUSED, OK],                                    {"inner_errors": []}),
    ("38d", graphs.graph_interrupt_in_a_subgraph,         [PAUSED, OK],                                    {"inner_errors": []}),
    ("38e", graphs.graph_interrupt_before,                [PAUSED, OK]),
    ("38f", graphs.graph_interrupt_before_async,          [PAUSED, OK]),
    ("38g", graphs.graph_interrupt_after,                 [PAUSED, OK]),
    ("38h", attaching.process_wide_graph_interrupt_resume, [PAUSED, OK]),
    ("38i", attaching.process_wide_graph_interrupt_before, [ok(answer=None), OK]),                         # a limit: only handlers of the call are told
    ("39",  attaching.constructor_callbacks_only,         []),                                              # LangChain ignores them
    ("40",  attaching.with_config_bound,                  [OK],                                            {"late": 2}),  # each root event came twice
    ("41",  chains.parent_run_of_another_tracer,          [OK],                                            {"parent_run_id": "00000000-0000-0000-0000-000000000007"}),
    ("42",  attaching.process_wide,                       [OK, OK, OK],                                    {"late": 0}),
    ("43",  attaching.block_and_a_plain_thread,           [OK]),                                            # a block is its context's
    ("44",  attaching.process_wide_plain_thread_in_lambda, [ok(answer=None), ok(contexts=None)]),           # 21, and the search by itself
    ("45",  attaching.chain_group,                        []),                                              # LangChain drops the handler
    ("45b", attaching.chain_group_process_wide,           [OK]),
    ("46",  retrieval.custom_event_context,               [ok(contexts=["gamma", "delta", "eps"])]),
    ("47",  chains.content_block_answer,                  [ok(contexts=None)]),
    ("48",  chains.unknown_input_keys,                    [ok("the topic")]),
    ("48b", chains.unknown_output_keys,                   [OK]),
    ("48c", chains.structured_answer,                     [OK]),
    ("48d", chains.structured_answer_with_unknown_names,  [ok(answer='{"verse":"answer"}')]),
    ("49",  chains.usage_and_model,                       [ok(contexts=None)],                             {
        "tokens": (20, 6), "model": "tiny-1", "name": "twice", "tags": ["canary"], "metadata": {"release": "r1"},
        "user_id": "7", "session_id": "s", "reference": ["yes", "indeed"],
    }),
]
# fmt: on
MATRIX = [(*line, {})[:4] for line in MATRIX]

DETAILS = {
    "first_token": lambda app: 0 < app.drafts[-1].first_token_s <= app.drafts[-1].ended_at - app.drafts[-1].started_at,
    "late": lambda app: app.handler.late_events,
    "queries": lambda app: [search.query for search in app.drafts[-1].retrievals],
    "retrievals": lambda app: len(app.drafts[-1].retrievals),
    "sessions": lambda app: [draft.session_id for draft in app.drafts],
    "tokens": lambda app: (app.drafts[-1].input_tokens, app.drafts[-1].output_tokens),
}
"""What is more than a field of the last record."""


@pytest.mark.parametrize(
    ("row", "scenario", "records", "also"), MATRIX, ids=[f"{m[0]}-{m[1].__name__}" for m in MATRIX]
)
@pytest.mark.filterwarnings("ignore:.*v3.*")  # LangChain calls these streams experimental
def test_matrix(app, row, scenario, records, also):
    """Each scenario leaves exactly these records."""
    scenario(app)
    assert sorted(records, key=str) == sorted(map(tuple, app.seen()), key=str)
    for name, expected in also.items():
        found = DETAILS[name](app) if name in DETAILS else getattr(app.drafts[-1], name)
        assert expected == found, name


def test_no_row_is_missing():
    """The matrix has rows 1 to 49, in their order, and no scenario twice."""
    numbers = [int(line[0].rstrip("abcdefghijklm")) for line in MATRIX]
    assert sorted(set(numbers)) == list(range(1, 50))
    assert numbers == sorted(numbers)
    assert [] == [name for name, count in Counter(line[1] for line in MATRIX).items() if count > 1]


def test_the_page_states_the_number_of_scenarios():
    """Users read how many ways of running LangChain are tested."""
    assert f"Tests run {len(MATRIX)} scenarios" in PAGE.read_text(encoding="utf-8")
