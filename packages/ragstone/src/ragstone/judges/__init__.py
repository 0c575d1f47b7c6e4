"""Judges: models that answer questions about a sample."""

from ragstone.judges._factory import judge_from
from ragstone.judges._parse import parse_number
from ragstone.judges._protocol import Judge, JudgeIdentity, NumberReply, Prompt, TextReply
from ragstone.judges._usage import UsageMeter, metered, record_usage
from ragstone.judges.lexical import LexicalJudge
from ragstone.judges.openai_compatible import OpenAICompatibleJudge

__all__ = [
    "Judge",
    "JudgeIdentity",
    "LexicalJudge",
    "NumberReply",
    "OpenAICompatibleJudge",
    "Prompt",
    "TextReply",
    "UsageMeter",
    "judge_from",
    "metered",
    "parse_number",
    "record_usage",
]
