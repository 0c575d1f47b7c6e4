"""The names that users may rely on, so that a review sees each one that comes or goes.

A package's `__all__` holds them. `test_architecture.py` checks the names that only other packages of the core import.
"""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from pkgutil import iter_modules

import pytest

import ragstone

PUBLIC = {
    "ragstone": """
        Comparison Criterion Experiment Failure Monitor NotApplicable Outcome Passage RagstoneError Retrieval Sample
        Score Trace aevaluate assert_no_regression assert_score compare evaluate read_traces repair
    """,
    "ragstone.capture": """
        Capture Guard after_fork_in_child capture_suppressed guarded make_draft redact_secrets
        register_exit_hook suppress_capture
    """,
    "ragstone.cli": """
        main program
    """,
    "ragstone.reading": """
        FIELD_ALIASES InputFile ReadingReport RejectedRecord TraceFormat detect read_beir read_qrels read_samples
        read_traces read_trec_run sample_from_row
    """,
    "ragstone.demo": """
        Bm25 extract_answer load_corpus
    """,
    "ragstone.errors": """
        ApplicationError BrokerError ConfigurationError DataError JudgeError JudgeRejectedError JudgeReplyError
        JudgeUnavailableError MissingExtraError RagstoneError SinkDeniedError SinkError SinkNoTargetError
        SinkRejectedError SinkTargetMissingError SinkUnavailableError SpoolError StoreCorruptError StoreError
        StoreNotFoundError StoreNotReadyError StoreOwnedError StoreUnavailableError StoreVersionError
    """,
    "ragstone.experiments": """
        Comparison Experiment RepairTrial TimeRange aevaluate assert_no_regression assert_score compare evaluate repair
    """,
    "ragstone.judges": """
        AbstentionEstimate Budget Capabilities ChatModel ChatReader ChatRequest ClientSettings Completion
        ConstrainedModel Embedder EndpointEmbedder ExactModel FunctionModel JsonReply Judge JudgeIdentity Message ModelJudge
        NumberReply OpenAICompatibleJudge OpenAICompatibleModel Prompt Reader ReplyLogprobs TextReply
        TokenLogprobs VllmModel is_baseline record_usage
    """,
    "ragstone.metrics": """
        AnswerCorrectness Composite
        Criterion Metric MetricBase MetricCard Udcg UdcgTheta
        VeraComposite WorkedExample all_metrics compute_once resolve_metrics
    """,
    "ragstone.metrics.ranking": """
        alpha_ndcg average_precision f1 hit_rate ndcg precision
        recall reciprocal_rank
    """,
    "ragstone_lab": """
        apply_review best_passages build_dataset build_negatives correlate_udcg erag_scores fit_udcg judge_card plan_dataset
        plan_judge_card plan_negatives plan_udcg_experiment rank_udcg retrieval_bounds
        run_udcg_experiment topicality validate_metrics
    """,
    "ragstone.schema": """
        Evidence Failure Interval NotApplicable Outcome Passage Retrieval Sample Score Trace
        TraceStatus Turn Usage committed_json_schema field_names json_schema
    """,
    "ragstone.scoring": """
        Scorer run_async
    """,
    "ragstone.sinks": """
        Delivery JsonlSink LangfuseSink LangsmithSink MlflowSink OtlpSink PhoenixSink
        PrometheusSink Sink WebhookSink
    """,
    "ragstone.stats": """
        Agreement AlarmBudget CalendarDetector Estimate bootstrap_interval cohen_kappa
        design_effect fleiss_kappa flip_rate hajek_mean holm kendall krippendorff_alpha landis_koch mean_interval pass_at_k
        pearson percent_agreement simultaneous_differences spearman split_variance
        wilson_interval
    """,
    "ragstone.store": """
        SqliteStore
    """,
    "ragstone.testing": """
        FakeJudge JudgeContract MemoryRecorder SinkContract SinkOutageContract
    """,
    "ragstone.monitor": """
        Monitor
    """,
    "ragstone.replay": """
        areplay_traces plan_replay replay_traces
    """,
    "ragstone.requests": """
        CaptureOptions EnclosingRun InFlight Message PassageDraft Recorder Request RetrievalStage RetrieverTools Step StepKind TraceDraft Value assemble
        changed_results current_request harvest link_span
    """,
    "ragstone.views": """
        AnswerView Answers Chart ReportView
    """,
    "ragstone.worker": """
        ScorerSpec ScoringSetup
    """,
    "langchain_ragstone": """
        LangChainJudge LangChainModel RagstoneCallbackHandler RagstoneEvaluator ragstone_disable
        ragstone_enable
    """,
    "llama_index.evaluation.ragstone": """
        LlamaIndexJudge LlamaIndexModel RagstoneEvaluator
    """,
    "llama_index.observability.ragstone": """
        ContextsEvent RagstoneInstrumentor
    """,
}


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names(module):
    """A package's public names are exactly these, and all of them exist."""
    door = importlib.import_module(module)
    assert PUBLIC[module].split() == list(door.__all__)
    assert [] == [name for name in door.__all__ if not hasattr(door, name)]


def test_every_package_with_public_names_is_listed():
    """A package of the core that is not listed has an empty `__all__` or none: other packages of the core import from it."""
    packages = [f"ragstone.{module.name}" for module in iter_modules(ragstone.__path__) if module.ispkg]
    assert len(packages) > 20
    assert [] == [
        name for name in packages if getattr(importlib.import_module(name), "__all__", ()) and name not in PUBLIC
    ]


MODULE_OF = {
    alias.name: node.module
    for node in ast.walk(ast.parse(Path(ragstone.__file__).read_text(encoding="utf-8")))
    if isinstance(node, ast.ImportFrom) and re.fullmatch(r"ragstone\.[a-z]\w*", node.module or "")
    for alias in node.names
}
"""The package that a type checker imports each public name of `ragstone` from."""


def test_the_lazy_front_door_knows_every_name_and_no_other():
    """Each public name resolves to what its room calls so; a typo is an AttributeError, as everywhere."""
    assert set(ragstone.__all__) == set(MODULE_OF)
    assert set(ragstone.__all__) <= set(dir(ragstone))
    for name, room in MODULE_OF.items():
        assert getattr(ragstone, name) is getattr(importlib.import_module(room), name)
    with pytest.raises(AttributeError, match="Moniter"):
        _ = ragstone.Moniter


API_PAGES = Path(__file__).parents[2] / "docs/reference/api"


@pytest.mark.parametrize("module", [name for name in PUBLIC if name != "ragstone.cli"])
def test_the_api_reference_has_a_page_for_each_package(module):
    """The page is generated from the package's `__all__`; the one of the top level links to every name."""
    page = (API_PAGES / f"{module.replace('.', '-')}.md").read_text(encoding="utf-8")
    if module == "ragstone":
        linked = re.findall(r"\[`(\w+)`\]\[(ragstone\.\w+)\.(\w+)\]", page)
        assert {(name, MODULE_OF[name], name) for name in ragstone.__all__} == set(linked)
    else:
        assert f"\n::: {module}\n" in page
