"""`score`: scores a Ray dataset in actors, and can be interrupted and resumed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ragstone._util.lazy import needs_extra
from ragstone.capture import Redactor, redact_secrets
from ragstone.errors import ConfigurationError
from ragstone.metrics import resolve_metrics
from ragstone.ray._block import BlockScorer, open_output, read_done
from ragstone.worker import ScorerSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from ray.data import Dataset

_SPARE_CPUS: Final = 1.0
"""For the tasks of Ray Data that read and divide the rows. Without it, they wait for the actors, and the actors for
them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RayReport:
    """What a run has scored."""

    output: str
    n_scored: int
    """Requests scored in this run."""
    n_known: int
    """Requests that the output had."""
    n_rejected: int
    """Rows that are not requests."""


def score(
    dataset: Dataset,
    spec: ScorerSpec,
    output: str,
    *,
    actors: int | None = None,
    cpus_per_actor: float = 0.5,
    gpus_per_actor: float = 0.0,
    rows_per_block: int = 50,
    redact: Redactor | None = redact_secrets,
) -> RayReport:
    """Score the rows of a Ray dataset, and write all outcomes with their requests to Parquet files.

    A killed actor is restarted, and repeats its block. After any interruption, also a killed driver or a judge that is
    away, the same call scores only the requests that the output does not have: each outcome is in the output once.
    The column `outcome_json` holds the lines of a file of outcomes, which `report` and `compare` read.

    Args:
        dataset: Rows with the fields of a data set (`id`, `query`, `contexts`, `response`, ...), or with one field
            `trace_json` (`trace.model_dump_json()`). A row without an id is known by its contents. Of several rows with
            one id in a block, the first one is scored.
        spec: Metrics, models and limits. Requests in flight and rates are divided among the actors.
        output: A directory that all hosts of the cluster share, or a URI ("s3://bucket/scores").
        actors: Number of scorers. Default: as many as fit, with one CPU left for reading.
        cpus_per_actor: CPUs of an actor. A scorer that waits for an HTTP judge needs a fraction of one.
        gpus_per_actor: GPUs of an actor, for a judge or an embedding model in the process of the scorer.
        rows_per_block: Rows that are scored together and written to one file, and repeated if an actor is killed.
        redact: Function from text to text that is applied to all texts before they are scored and written. None keeps
            them.

    Raises:
        ConfigurationError: If a metric does not exist, a number is out of range, the cluster is too small, or the spec
            has a budget, which actors on several hosts cannot share.
        DataError: If the output cannot be written or read.
        MissingExtraError: If Ray is not installed.
        ray.exceptions.RayTaskError: If a scorer fails, for example because the judge is away. It names the cause.

    Examples:
        ```python
        spec = ScorerSpec("ccrs", judge="http://localhost:8000/v1")
        ragstone.ray.score(ray.data.read_parquet("s3://archive/requests"), spec, "s3://archive/scores")
        ```
    """
    with needs_extra("ray", "ray[data]", "Scoring on a cluster"):
        import ray
        from ray.data import ActorPoolStrategy
    _check_arguments(spec, actors, cpus_per_actor, gpus_per_actor, rows_per_block)
    open_output(output)
    if not ray.is_initialized():
        ray.init()
    n_actors = _count_actors(ray.cluster_resources().get("CPU", 0.0), actors, cpus_per_actor)
    done = ray.put(read_done(output))
    arguments: dict[str, Any] = {"num_gpus": gpus_per_actor} if gpus_per_actor else {}
    # `strict` joins the rests of small blocks, which would otherwise become files of one or two rows.
    counts = dataset.repartition(target_num_rows_per_block=rows_per_block, strict=True).map_batches(
        _Actor,
        batch_size=rows_per_block,
        batch_format="pyarrow",
        num_cpus=cpus_per_actor,
        compute=ActorPoolStrategy(size=n_actors),
        fn_constructor_args=(min(spec.split(n_actors), key=lambda part: part.concurrency), output, done, redact),
        **arguments,
    )
    totals = {"n_scored": 0, "n_known": 0, "n_rejected": 0}
    for row in counts.iter_rows():
        for name in totals:
            totals[name] += int(row[name])
    return RayReport(output=output, **totals)


class _Actor:
    """A `BlockScorer` in an actor of Ray."""

    def __init__(self, spec: ScorerSpec, output: str, done: Any, redact: Redactor | None) -> None:
        import ray

        self._scorer = BlockScorer(spec, output, ray.get(done), redact)

    def __call__(self, block: pa.Table) -> pa.Table:
        return self._scorer(block)


def _check_arguments(spec: object, actors: object, cpus: float, gpus: float, rows: object) -> None:
    if not isinstance(spec, ScorerSpec):
        raise ConfigurationError(
            f"spec must be a ScorerSpec, got {type(spec).__name__}. A judge or a scorer with connections cannot be sent to "
            "other hosts: write ScorerSpec(metrics, judge=...)."
        )
    if spec.budget is not None:
        raise ConfigurationError(
            "the spec has a budget, which actors on several hosts cannot share. Remove it, and limit the rows: "
            "dataset.limit(N)."
        )
    # An actor would say it too, after the cluster has started, at the end of a long traceback.
    resolve_metrics(spec.metrics)
    for name, value in (("actors", actors), ("rows_per_block", rows)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise ConfigurationError(f"{name} must be a number from 1, got {value!r}.")
    if not cpus > 0 or gpus < 0:
        raise ConfigurationError(
            f"cpus_per_actor must be above 0 and gpus_per_actor at least 0, got {cpus!r} and {gpus!r}."
        )


def _count_actors(cpus: float, actors: int | None, cpus_per_actor: float) -> int:
    """Return the number of actors that leave a CPU for reading."""
    most = int((cpus - _SPARE_CPUS) / cpus_per_actor + 1e-9)
    if most < 1 or (actors or 1) > most:
        raise ConfigurationError(
            f"{actors or 1} actors of {cpus_per_actor:g} CPUs do not fit: the cluster has {cpus:g} CPUs, and one is left for "
            "reading. Start more nodes, or set lower cpus_per_actor or actors."
        )
    return most if actors is None else actors
