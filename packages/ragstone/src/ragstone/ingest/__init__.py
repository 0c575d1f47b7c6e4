"""Ingest: an OTLP/HTTP receiver for applications of any language; stored first, answered after, scored in the background."""

from ragstone.ingest._receiver import OtlpReceiver
from ragstone.ingest._stage import SharedStage, StageIntake

__all__ = ["OtlpReceiver", "SharedStage", "StageIntake"]
