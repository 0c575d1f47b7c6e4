"""Settings of analyses, of the receiver of spans, and of research."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator

from ragstone.settings._base import Settings, Text, Texts, key


def _numbers(kind: type[int | float]) -> Callable[[object], object]:
    def convert(value: object) -> object:
        try:
            return tuple(map(kind, value)) if isinstance(value, list | tuple) else value
        except TypeError:
            raise ValueError(value) from None

    return convert


Floats = Annotated[tuple[float, ...], BeforeValidator(_numbers(float))]
Integers = Annotated[tuple[int, ...], BeforeValidator(_numbers(int))]
_PROBABILITY: Final = "a probability above 0 and below 1"


class Analysis(Settings):
    """How means are estimated and compared."""

    confidence_level: float = key(
        0.95,
        "Confidence level of intervals, tests and gates.",
        rule="a number above 0 and below 1, such as 0.95",
        gt=0,
        lt=1,
    )
    cluster: Text = key("auto", "Key of the clusters that are independent. auto: session_id if 5% of rows share one.")
    undecided: Literal["fail", "pass"] = key("fail", "What --fail-under does if the samples do not decide.")
    seed: int | None = key(None, "Seed of random numbers. Default: 0, for a draw of labels a random one.", ge=0)
    n_resamples: int | None = key(None, "Bootstrap resamples. Default: 2,000, for topicality 10,000.", ge=1)
    n_permutations: int = key(10_000, "Permutations of a test.", ge=1)
    min_effect: float | None = key(None, "Smallest difference of interest. Default: 1% of the range.")
    across_metrics: bool = key(default=True, description="Whether p-values are corrected for all metrics together.")
    allow_different_judges: bool = key(default=False, description="Whether a mean or test may mix different judges.")


class Receiver(Settings):
    """How spans are received."""

    idle_timeout_s: float = key(10.0, "Seconds without a new span until a trace with a root is complete.", ge=0)
    rootless_timeout_s: float = key(300.0, "Seconds without a new span until a trace without a root is complete.", ge=0)
    max_message_mib: int = key(8, "Largest message in MiB, uncompressed. Larger ones are refused.", ge=1, le=256)


class Research(Settings):
    """How datasets are built, and how judges and metrics are validated."""

    max_items: int = key(20, "Maximum items of a dataset.", ge=1)
    max_passages: int | None = key(
        None, "Maximum passages of an item (default: 12), or checked for an unrelated query (3).", ge=1
    )
    queries: int = key(100, "Unrelated queries.", ge=1)
    questions: int = key(10, "Maximum sub-questions of an item.", ge=1, le=30)
    rating_threshold: float = key(3.0, "Rating from which a passage counts as answering.", ge=0.1, le=5)
    conditions: Texts = key(
        ("wording", "order", "repeats"),
        "What a judge card measures: wording, order, repeats, reasoned. none: only agreement.",
    )
    max_crossed: int = key(50, "Maximum labeled samples that are scored under the conditions.", ge=2)
    flip_threshold: float = key(0.1, "Difference from which two scores are a flip, as a share of the range.", ge=0)
    repeats: int = key(2, "How often a judge card scores each wording.", ge=1)
    label_range: Annotated[tuple[float, float], BeforeValidator(_numbers(float))] | None = key(
        None, "Lowest and highest possible label.", rule="two numbers LOW,HIGH, such as 1,5"
    )
    label_values: Texts = key((), "Labels that are texts, lowest first, such as poor,fair,good.")
    target: Text | None = key(None, "Metric (or labels) with whose ranking of systems others are compared.")
    pass_at: Integers = key(
        (), "k of pass@k: the probability that one of k answers reaches the threshold.", rule="integers, such as 1,5"
    )
    threshold: float | None = key(None, "Score of a positive sample, or grade of a relevant passage.")
    svm_c: Floats = key((), "Candidates for the cost C of the SVM. Default: a grid.", rule="numbers, such as 0.1,1")
    k: int = key(5, "Passages in a context.", ge=1)
    top_n: int = key(25, "Candidates of a question, from the first.", ge=1)
    max_questions: int = key(100, "Maximum questions.", ge=2)
    n_contexts: int = key(10, "Sampled contexts of a question. Half have a relevant passage.", ge=2)
    k_values: Integers = key((1, 2, 3, 5), "Passages in a context, for the part k.", rule="integers, such as 1,3,5")
    n_distractors: int | None = key(None, "Distractors in a context. Default: k - 1.", ge=1)
    second_judge: Text | None = key(None, "Another judge, for the part judges, in the forms of the judge.")
    second_judge_model: Text | None = key(None, "Name of the model at the URL of the second judge.")
    other_readers: Texts = key((), "Further readers of an experiment, in the forms of the reader.")
    weak_below: float = key(0.2, "Distracting effect that limits weak distractors.", rule=_PROBABILITY, gt=0, lt=1)
    hard_above: float = key(0.8, "Distracting effect that limits hard distractors.", rule=_PROBABILITY, gt=0, lt=1)
