"""How replies are drawn where their frequencies are to be the model's own probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

__all__ = ["TEMPERATURE_ONE"]

TEMPERATURE_ONE: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": -1,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
    }
)
"""Sampling from the model's distribution as it is, every field spelt out.

A server fills a missing field from the model's own defaults, and those bend the distribution (vLLM reads them from
`generation_config.json`). What an endpoint refuses is left out and remembered. `top_k` -1 means no limit to vLLM,
SGLang (which refuses 0) and llama.cpp alike.
"""
