"""Judges: models that answer questions about a sample."""

from ragstone.judges._protocol import Judge, JudgeIdentity, NumberReply, Prompt, TextReply

__all__ = ["Judge", "JudgeIdentity", "NumberReply", "Prompt", "TextReply"]
