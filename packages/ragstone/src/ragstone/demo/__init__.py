"""The demo: a small handbook, questions about it, and a retriever and a generator that work without a model."""

from ragstone.demo._chain import Bm25, build_application, extract_answer, load_corpus, load_questions
from ragstone.demo._planted import APP, RELEASES, TARGETS, plant_traffic
from ragstone.demo._samples import SAMPLE_FILES, sample_file

__all__ = ["Bm25", "extract_answer", "load_corpus"]
