"""Finding metrics: names, groups, objects, entry points of other packages, and mistakes."""

from __future__ import annotations

import importlib.metadata

import pytest

from fake_models import FakeReader
from ragstone.errors import ConfigurationError
from ragstone.metrics import AnswerCorrectness, MetricCard, Udcg, UdcgTheta, all_metrics, bind, resolve_metrics
from ragstone.metrics.ccrs import CCRS, QuestionRelevance
from ragstone.schema import Score

NAMES = ["ccrs.cc", "ccrs.qr", "ccrs.id", "ccrs.ac", "ccrs.ir"]
OURS = [metric.card.name for metric in all_metrics()]
"""Without the packages that a test brings."""


class Brevity:
    """A metric of another package's."""

    card = MetricCard(
        name="acme.brevity",
        title="Brevity",
        description="One word, one point.",
        low=0,
        high=1,
        needs=("response",),
        version="1",
        source="none",
        group="acme",
    )

    async def score(self, sample, judge):
        return Score(sample_id=sample.id, metric="acme.brevity", metric_version="1", value=1, method="exact")


def names(*specs):
    return [metric.card.name for metric in resolve_metrics(specs)]


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        (["ccrs"], NAMES),
        (["ccrs.ac"], ["ccrs.ac"]),
        ([" CCRS.AC "], ["ccrs.ac"]),
        (["ccrs.ir", "ccrs"], ["ccrs.ir", "ccrs.cc", "ccrs.qr", "ccrs.id", "ccrs.ac"]),
        (["ccrs", "ccrs", "ccrs.cc"], NAMES),
        ([Brevity(), "ccrs.qr"], ["acme.brevity", "ccrs.qr"]),
    ],
)
def test_names_groups_and_objects(specs, expected):
    """In the order given, each name once."""
    assert expected == names(*specs)


def test_one_alone():
    """A single name or object needs no list."""
    assert CCRS == resolve_metrics("ccrs")
    assert "ccrs.qr" == resolve_metrics(QuestionRelevance())[0].card.name


@pytest.mark.parametrize("before", [True, False])
def test_an_object_takes_the_place_of_the_registered_one(before):
    """An object with the arguments of a registered metric takes its place."""
    own = Udcg(FakeReader())
    assert (own,) == resolve_metrics([own, "udcg"] if before else ["udcg", own])


@pytest.mark.parametrize("before", [True, False])
def test_an_object_with_other_arguments_is_another_metric(before):
    """An object whose arguments are not the defaults is scored together with the registered metric."""
    own = AnswerCorrectness(em_weight=0)
    resolved = resolve_metrics([own, "ccrs"] if before else ["ccrs", own])
    assert {*NAMES, "ccrs.ac@em_weight=0"} == {metric.card.name for metric in resolved}
    assert own in resolved


@pytest.mark.parametrize(
    ("specs", "words"),
    [
        (["crs"], "Did you mean 'ccrs'.*Groups: .*ccrs, udcg.*`ragstone metrics`"),
        (["bleurgh"], "Groups: ranking, "),
        (["composite"], "'composite' needs an argument: composite@FILE"),
        (["ALPHA_ndcg"], "'alpha_ndcg' needs an argument: alpha_ndcg@K"),
        (["criterion"], "criterion@FILE"),
        ([], "metrics="),
        ([QuestionRelevance], "not a metric"),
        ([7], "not a metric"),
        ([QuestionRelevance(), QuestionRelevance()], "two metrics have the name 'ccrs.qr'"),
    ],
)
def test_mistakes_are_explained(specs, words):
    """The message lists what there is."""
    with pytest.raises(ConfigurationError, match=words):
        resolve_metrics(specs)


def test_metrics_of_other_packages(install_metrics):
    """Found by entry point, ours first."""
    install_metrics(Brevity())
    assert [*OURS, "acme.brevity"] == [metric.card.name for metric in all_metrics()]
    assert ["acme.brevity"] == names("acme")


def test_broken_packages_stop_nobody(install_metrics, caplog):
    """What cannot be loaded or takes a name of ours is left out, with a warning."""
    install_metrics(Brevity(), QuestionRelevance(), broken="missing")
    assert [*OURS, "acme.brevity"] == [metric.card.name for metric in all_metrics()]
    assert any("acme_metrics:missing" in message for message in caplog.messages)
    assert any("'ccrs.qr'" in message for message in caplog.messages)


def test_installed_packages_are_searched_once(install_metrics, monkeypatch):
    """Each card by name would read the entry points of all installed packages again."""
    install_metrics(Brevity())
    resolve_metrics("acme.brevity")

    def refuse(**_):
        raise AssertionError("the entry points are read again")

    monkeypatch.setattr(importlib.metadata, "entry_points", refuse)
    for name in ("acme.brevity", "ccrs.cc", "ndcg@5"):
        assert resolve_metrics(name)


def test_a_metric_keeps_the_reader_it_was_made_with():
    """Only metrics without a reader are given one, and it is made once."""
    own, made = FakeReader(), []

    def make():
        made.append(FakeReader())
        return made[-1]

    metrics = (*CCRS, Udcg(own), UdcgTheta([1.0], [1.0]), Udcg())
    bound, reader = bind("reader", metrics, make)
    assert [own, reader, reader] == [metric.reader for metric in bound[len(CCRS) :]]
    assert CCRS == bound[: len(CCRS)]
    assert [reader] == made


def test_nobody_makes_a_reader_that_no_metric_needs():
    """Judged metrics do without, and so does one that has its own."""

    def make():
        raise AssertionError

    assert (CCRS, None) == bind("reader", CCRS, make)
    assert bind("reader", [Udcg(FakeReader())], make)[1] is None
