"""Judges and readers: models that rate samples or answer from passages."""

from typing import TYPE_CHECKING

from ragstone._util.lazy import lazy_names

if TYPE_CHECKING:
    from ragstone.judges._batch import BatchedRequests as BatchedRequests
    from ragstone.judges._batch import BatchPendingError
    from ragstone.judges._batch import BatchReport as BatchReport
    from ragstone.judges._batch import PostponedError as PostponedError
    from ragstone.judges._batch import RequestBatch as RequestBatch
    from ragstone.judges._batch import requests_in_batches as requests_in_batches
    from ragstone.judges._batch import requests_of_sample as requests_of_sample
    from ragstone.judges._cache.file import ReplyCache
    from ragstone.judges._cache.replies import cache_bypassed as cache_bypassed
    from ragstone.judges._cache.replies import repeat_replies as repeat_replies
    from ragstone.judges._call_context import CallContext as CallContext
    from ragstone.judges._client_settings import ClientSettings
    from ragstone.judges._endpoint_options import ROLES as ROLES
    from ragstone.judges._endpoint_options import EmbedderSpec as EmbedderSpec
    from ragstone.judges._endpoint_options import EndpointOptions as EndpointOptions
    from ragstone.judges._endpoint_options import JudgeSpec as JudgeSpec
    from ragstone.judges._endpoint_options import ReaderSpec as ReaderSpec
    from ragstone.judges._endpoint_options import embedder_from as embedder_from
    from ragstone.judges._endpoint_options import judge_from as judge_from
    from ragstone.judges._endpoint_options import read_endpoint as read_endpoint
    from ragstone.judges._endpoint_options import reader_from as reader_from
    from ragstone.judges._endpoint_options import with_cache as with_cache
    from ragstone.judges._factory import MissingModel as MissingModel
    from ragstone.judges._factory import OpenAICompatibleJudge
    from ragstone.judges._factory import describe_missing as describe_missing
    from ragstone.judges._limits.gate import OutageTimer as OutageTimer
    from ragstone.judges._limits.gate import find_outage as find_outage
    from ragstone.judges._limits.gate import forget_outage as forget_outage
    from ragstone.judges._limits.gate import is_any_endpoint_down as is_any_endpoint_down
    from ragstone.judges._limits.gate import report_outage as report_outage
    from ragstone.judges._limits.gate import wait_for_outages as wait_for_outages
    from ragstone.judges._limits.spend import Budget
    from ragstone.judges._model import (
        Capabilities,
        ChatModel,
        ChatRequest,
        Completion,
        ConstrainedModel,
        ExactModel,
        ReplyLogprobs,
        TokenLogprobs,
        record_usage,
    )
    from ragstone.judges._model import UsageMeter as UsageMeter
    from ragstone.judges._model import metered as metered
    from ragstone.judges._model import note_progress as note_progress
    from ragstone.judges._model import progress_at as progress_at
    from ragstone.judges._model_judge import ModelJudge
    from ragstone.judges._option_names import OptionNames as OptionNames
    from ragstone.judges._option_names import Role as Role
    from ragstone.judges._parse import parse_number
    from ragstone.judges._protocol import BASELINE_NOTE as BASELINE_NOTE
    from ragstone.judges._protocol import (
        AbstentionEstimate,
        Embedder,
        JsonReply,
        Judge,
        JudgeIdentity,
        NumberReply,
        Prompt,
        Reader,
        TextReply,
        is_baseline,
    )
    from ragstone.judges._protocol import ExactReader as ExactReader
    from ragstone.judges._protocol import Preparable as Preparable
    from ragstone.judges._protocol import ask_number as ask_number
    from ragstone.judges._protocol import bounded_number as bounded_number
    from ragstone.judges._render import Message
    from ragstone.judges.dry_run import DryRunEmbedder as DryRunEmbedder
    from ragstone.judges.dry_run import DryRunJudge as DryRunJudge
    from ragstone.judges.dry_run import DryRunReader as DryRunReader
    from ragstone.judges.embedder import EndpointEmbedder, LocalEmbedder
    from ragstone.judges.embedder import embed_texts as embed_texts
    from ragstone.judges.function_model import FunctionModel
    from ragstone.judges.lexical import LexicalJudge
    from ragstone.judges.openai_model import ConnectionOptions as ConnectionOptions
    from ragstone.judges.openai_model import OpenAICompatibleModel
    from ragstone.judges.reader import ChatReader
    from ragstone.judges.vllm_engine import VllmModel

__all__ = [
    "AbstentionEstimate",
    "BatchPendingError",
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
    "LexicalJudge",
    "LocalEmbedder",
    "Message",
    "ModelJudge",
    "NumberReply",
    "OpenAICompatibleJudge",
    "OpenAICompatibleModel",
    "Prompt",
    "Reader",
    "ReplyCache",
    "ReplyLogprobs",
    "TextReply",
    "TokenLogprobs",
    "VllmModel",
    "is_baseline",
    "parse_number",
    "record_usage",
]

if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_batch": (
                "BatchedRequests BatchPendingError BatchReport PostponedError RequestBatch requests_in_batches "
                "requests_of_sample"
            ),
            "_cache.file": "ReplyCache",
            "_cache.replies": "cache_bypassed repeat_replies",
            "_call_context": "CallContext",
            "_client_settings": "ClientSettings",
            "_endpoint_options": (
                "ROLES EmbedderSpec EndpointOptions JudgeSpec ReaderSpec embedder_from judge_from read_endpoint "
                "with_cache reader_from"
            ),
            "_factory": "MissingModel OpenAICompatibleJudge describe_missing",
            "_limits.gate": "OutageTimer find_outage forget_outage is_any_endpoint_down report_outage wait_for_outages",
            "_limits.spend": "Budget",
            "_model": (
                "Capabilities ChatModel ChatRequest Completion ConstrainedModel ExactModel ReplyLogprobs TokenLogprobs "
                "record_usage UsageMeter metered note_progress progress_at"
            ),
            "_model_judge": "ModelJudge",
            "_option_names": "OptionNames Role",
            "_parse": "parse_number",
            "_protocol": (
                "AbstentionEstimate Embedder JsonReply Judge JudgeIdentity NumberReply Prompt Reader TextReply "
                "is_baseline ExactReader Preparable BASELINE_NOTE ask_number bounded_number"
            ),
            "_render": "Message",
            "dry_run": "DryRunEmbedder DryRunJudge DryRunReader",
            "embedder": "EndpointEmbedder LocalEmbedder embed_texts",
            "function_model": "FunctionModel",
            "lexical": "LexicalJudge",
            "openai_model": "ConnectionOptions OpenAICompatibleModel",
            "reader": "ChatReader",
            "vllm_engine": "VllmModel",
        },
    )
