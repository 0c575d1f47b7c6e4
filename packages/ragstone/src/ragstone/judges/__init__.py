"""Judges and readers: models that rate samples or answer from passages."""

from typing import TYPE_CHECKING

from ragstone._util.lazy import lazy_names

if TYPE_CHECKING:
    from ragstone.judges._cache.file import ReplyCache
    from ragstone.judges._cache.replies import cache_bypassed, repeat_replies
    from ragstone.judges._call_context import CallContext
    from ragstone.judges._client_settings import ClientSettings
    from ragstone.judges._endpoint_options import (
        ROLES,
        EmbedderSpec,
        EndpointOptions,
        JudgeSpec,
        ReaderSpec,
        embedder_from,
        judge_from,
        read_endpoint,
        reader_from,
        with_cache,
    )
    from ragstone.judges._factory import MissingModel, OpenAICompatibleJudge, describe_missing
    from ragstone.judges._limits.gate import (
        OutageTimer,
        find_outage,
        find_outage_reason,
        is_any_endpoint_down,
        report_outage,
        wait_for_outages,
    )
    from ragstone.judges._limits.spend import Budget, amounts_of, find_uncounted
    from ragstone.judges._model import (
        Capabilities,
        ChatModel,
        ChatRequest,
        Completion,
        ConstrainedModel,
        ExactModel,
        ReplyLogprobs,
        TokenLogprobs,
        UsageMeter,
        after_reasoning,
        metered,
        note_progress,
        progress_at,
        record_usage,
    )
    from ragstone.judges._model_judge import ModelJudge
    from ragstone.judges._option_names import OptionNames, Role
    from ragstone.judges._protocol import (
        BASELINE_NOTE,
        LEAST_RATINGS,
        NO_CLAIMS,
        OUTCOME_CHECKS,
        PLACEHOLDER,
        AbstentionEstimate,
        Embedder,
        ExactReader,
        JsonReply,
        Judge,
        JudgeIdentity,
        NumberReply,
        Preparable,
        Prompt,
        RatingRange,
        Reader,
        TextReply,
        ask_number,
        bounded_number,
        check_method,
        check_outcome,
        common_method,
        is_baseline,
    )
    from ragstone.judges._render import Message
    from ragstone.judges.dry_run import DryRunEmbedder, DryRunJudge, DryRunReader
    from ragstone.judges.embedder import EndpointEmbedder, embed_texts
    from ragstone.judges.function_model import FunctionModel
    from ragstone.judges.openai_model import ConnectionOptions, OpenAICompatibleModel
    from ragstone.judges.reader import ChatReader
    from ragstone.judges.vllm_engine import VllmModel

__all__ = [
    "AbstentionEstimate",
    "Budget",
    "Capabilities",
    "ChatModel",
    "ChatReader",
    "ChatRequest",
    "ClientSettings",
    "Completion",
    "ConstrainedModel",
    "Embedder",
    "EndpointEmbedder",
    "ExactModel",
    "FunctionModel",
    "JsonReply",
    "Judge",
    "JudgeIdentity",
    "Message",
    "ModelJudge",
    "NumberReply",
    "OpenAICompatibleJudge",
    "OpenAICompatibleModel",
    "Prompt",
    "Reader",
    "ReplyLogprobs",
    "TextReply",
    "TokenLogprobs",
    "VllmModel",
    "is_baseline",
    "record_usage",
]

if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_cache.file": "ReplyCache",
            "_cache.replies": "cache_bypassed repeat_replies",
            "_call_context": "CallContext",
            "_client_settings": "ClientSettings",
            "_endpoint_options": (
                "ROLES EmbedderSpec EndpointOptions JudgeSpec ReaderSpec embedder_from judge_from read_endpoint "
                "with_cache reader_from"
            ),
            "_factory": "MissingModel OpenAICompatibleJudge describe_missing",
            "_limits.gate": (
                "OutageTimer find_outage find_outage_reason is_any_endpoint_down report_outage wait_for_outages"
            ),
            "_limits.spend": "Budget amounts_of find_uncounted",
            "_model": (
                "Capabilities ChatModel ChatRequest Completion ConstrainedModel ExactModel ReplyLogprobs TokenLogprobs "
                "after_reasoning record_usage UsageMeter metered note_progress progress_at"
            ),
            "_model_judge": "ModelJudge",
            "_option_names": "OptionNames Role",
            "_protocol": (
                "AbstentionEstimate Embedder JsonReply Judge JudgeIdentity NumberReply Prompt Reader TextReply "
                "is_baseline ExactReader Preparable BASELINE_NOTE ask_number bounded_number OUTCOME_CHECKS "
                "check_outcome check_method common_method NO_CLAIMS LEAST_RATINGS PLACEHOLDER RatingRange"
            ),
            "_render": "Message",
            "dry_run": "DryRunEmbedder DryRunJudge DryRunReader",
            "embedder": "EndpointEmbedder embed_texts",
            "function_model": "FunctionModel",
            "openai_model": "ConnectionOptions OpenAICompatibleModel",
            "reader": "ChatReader",
            "vllm_engine": "VllmModel",
        },
    )
