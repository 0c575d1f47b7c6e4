"""Ingest: an OTLP/HTTP receiver for applications of any language; stored first, answered after, scored in the background."""

from ragstone.ingest._receiver import OtlpReceiver as OtlpReceiver
from ragstone.ingest._stage import SharedStage as SharedStage
from ragstone.ingest._stage import StageIntake as StageIntake

__all__ = []
