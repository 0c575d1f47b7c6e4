"""The four metrics of RAGAS. Claims are extracted once per sample."""

from ragstone.metrics.ragas._examples import ANSWER_RELEVANCY
from ragstone.metrics.ragas._metrics import RAGAS
