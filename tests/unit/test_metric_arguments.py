"""Arguments in the names of metrics: notation, canonical names, checks and metrics of other packages."""

from __future__ import annotations

import asyncio
import copy
import pickle
from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from builders import make_sample
from fake_models import FakeReader
from ragstone.errors import ConfigurationError
from ragstone.metrics import (
    AnswerCorrectness,
    Composite,
    Metric,
    MetricBase,
    MetricCard,
    Udcg,
    VeraComposite,
    full_name,
    resolve_metrics,
    selects,
    split_metrics,
)
from ragstone.metrics import _registry as registry
from ragstone.metrics.crux import RankedCoverage
from ragstone.metrics.ranking import AlphaNdcg, RankingMetric
from ragstone.metrics.semantic import BertScore
from ragstone.metrics.text import RougeL
from ragstone.schema import Score
from ragstone.scoring import Signals, note_outcome
from ragstone.sinks._row import shorten_name
from ragstone.testing import FakeJudge


def names(*specs: str | Metric) -> list[str]:
    return [metric.card.name for metric in resolve_metrics(specs)]


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("ccrs.ac@0", "ccrs.ac@em_weight=0"),
        ("ccrs.ac@0.0", "ccrs.ac@em_weight=0"),
        ("ccrs.ac@-0", "ccrs.ac@em_weight=0"),
        ("CCRS.AC@em_weight=.0", "ccrs.ac@em_weight=0"),
        ("ccrs.ac @ em_weight = 0 ", "ccrs.ac@em_weight=0"),
        ("ccrs.ac@.5", "ccrs.ac@em_weight=0.5"),
        ("ccrs.ac@5e-1", "ccrs.ac@em_weight=0.5"),
        ("ccrs.ac@0.70", "ccrs.ac"),
        ("ccrs.ac@0.7000001", "ccrs.ac@em_weight=0.7000001"),
        ("udcg@0.5", "udcg@gamma=0.5"),
        ("udcg@threshold=2,labels=JUDGE,gamma=1", "udcg@gamma=1,labels=judge,threshold=2"),
        ("ndcg@10", "ndcg@10"),
        ("ndcg@k=3", "ndcg@3"),
        ("ndcg@threshold=2,k=3", "ndcg@3,threshold=2"),
        ("ndcg_linear@10", "ndcg_linear@10"),
        ("ndcg", "ndcg"),
        ("precision@none", "precision"),
        ("alpha_ndcg@10,alpha=0.5", "alpha_ndcg@10"),
        ("crux.coverage@3.0", "crux.coverage@3"),
        ("crux.coverage@none", "crux.coverage"),
        ("crux.density@4,weight=1", "crux.density@4,weight=1"),
        ("bleu@max_order=2,tokenize=zh", "bleu@zh,max_order=2"),
        ("bleu@none", "bleu@none"),
        ("exact_match@STRICT", "exact_match@strict"),
        ("rouge_2@stem", "rouge_2@stem"),
        ("rouge_l@true", "rouge_l@stem"),
        ("rouge_l@stem=false", "rouge_l"),
        ("chrf@2", "chrf++"),
        ("chrf++", "chrf++"),
        ("ragas.answer_relevancy_cosine@5", "ragas.answer_relevancy_cosine@5"),
    ],
)
def test_canonical_names(spec: str, name: str) -> None:
    """All notations of one variant have one name, which resolves to the same card."""
    (metric,) = resolve_metrics(spec)
    assert name == metric.card.name
    assert metric.card == resolve_metrics(name)[0].card
    assert name == full_name(name)


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (AnswerCorrectness(em_weight=0), "ccrs.ac@em_weight=0"),
        (AnswerCorrectness(em_weight=0.7), "ccrs.ac"),
        (Udcg(FakeReader(), gamma=0.5), "udcg@gamma=0.5"),
        (Udcg(gamma=0.5).with_reader(FakeReader()), "udcg@gamma=0.5"),
        (RougeL(stem=True), "rouge_l@stem"),
        (RankingMetric("precision", 3, threshold=2), "precision@3,threshold=2"),
        (AlphaNdcg(k=20, alpha=1), "alpha_ndcg@20,alpha=1"),
        (RankedCoverage(k=3), "crux.ranked_coverage@k=3"),
        (BertScore(device="cpu"), "bertscore"),
        (BertScore("org/a,b=c", layer=2), 'bertscore@"org/a,b=c",layer=2'),
        (BertScore("roberta-large", layer=17), "bertscore@roberta-large"),
        (VeraComposite(model="MODEL"), "vera.composite@MODEL"),
        (VeraComposite(statements=False), "vera.composite@statements=false"),
    ],
    ids=str,
)
def test_objects_have_their_arguments_in_the_name(made: Metric, name: str) -> None:
    """An object whose arguments differ from the defaults has the name that resolves to it, also after a copy."""
    assert name == made.card.name
    assert name == copy.copy(made).card.name
    assert made.card.title != name


def test_a_copy_of_a_variant_is_the_variant() -> None:
    """A pickled metric keeps its name, its arguments and its values."""
    metric = pickle.loads(pickle.dumps(AnswerCorrectness(em_weight=0.25)))  # noqa: S301  written by this test
    assert ("ccrs.ac@em_weight=0.25", 0.25) == (metric.card.name, metric.em_weight)
    outcome = asyncio.run(metric.score(make_sample(), FakeJudge(80)))
    assert "ccrs.ac@em_weight=0.25" == outcome.metric


@pytest.mark.parametrize(
    ("text", "specs"),
    [
        ("ccrs.ac@em_weight=0,f1_weight=1,udcg@0.5", ["ccrs.ac@em_weight=0,f1_weight=1", "udcg@0.5"]),
        ("udcg@0.5,ccrs.ac@em_weight=0", ["udcg@0.5", "ccrs.ac@em_weight=0"]),
        (" ccrs , ndcg@10 ,threshold = 2,bleu", ["ccrs", "ndcg@10,threshold = 2", "bleu"]),
        ("ccrs,,udcg,", ["ccrs", "udcg"]),
        ("", []),
        ('criterion@"a,b=c.toml",ccrs', ['criterion@"a,b=c.toml"', "ccrs"]),
        ('bertscore@ "a,b" , layer=3', ['bertscore@ "a,b" , layer=3'.replace(" , ", ",")]),
        (r'criterion@"a\",b.toml",ccrs', [r'criterion@"a\",b.toml"', "ccrs"]),
        (r'criterion@"a\\",ccrs', [r'criterion@"a\\"', "ccrs"]),
        ('criterion@a"b,c"', ['criterion@a"b', 'c"']),
        ("criterion@./a=b.toml,ccrs", ["criterion@./a=b.toml", "ccrs"]),
        ("acme@x=1@2,y=3", ["acme@x=1@2,y=3"]),
    ],
)
def test_a_comma_separates_metrics_or_arguments(text: str, specs: list[str]) -> None:
    """A part that begins with KEY= continues the arguments, every other part is another metric."""
    assert specs == split_metrics(text)
    assert specs == split_metrics(",".join(specs))


def test_a_list_may_be_split_at_any_comma() -> None:
    """A list of metrics that a tool has split at each comma resolves to the same metrics."""
    text = "ndcg@5,threshold=2,alpha_ndcg@2,alpha=1,ccrs.ac@0"
    cards = [metric.card for metric in registry.resolve_metrics([text, AnswerCorrectness()])]
    assert 4 == len(cards)
    assert cards == [metric.card for metric in resolve_metrics([*text.split(","), AnswerCorrectness()])]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("ccrs.ac@2", ["em_weight of ccrs.ac", "a number of at least 0 and at most 1", "'2'"]),
        ("ccrs.ac@nan", ["em_weight of ccrs.ac", "'nan'"]),
        ("ccrs.ac@x", ["em_weight of ccrs.ac", "'x'"]),
        ("ccrs.ac@", ["em_weight of ccrs.ac", "''"]),
        ("ccrs.ac@em_weight=", ["em_weight of ccrs.ac", "''"]),
        (
            "ccrs.ac@em_weigt=0",
            ["'em_weigt' is not an argument of ccrs.ac", "Did you mean 'em_weight'?", "default 0.7"],
        ),
        ("ccrs.ac@em_weight=0,em_weight=1", ["'em_weight' is given twice"]),
        ("ccrs.ac@0,em_weight=1", ["'em_weight' is given twice"]),
        ("ccrs.ac,em_weight=0", ["Write ccrs.ac@em_weight=0"]),
        ('ccrs.ac@"0', ["does not end"]),
        ("ccrs.ac@0,1", ["unknown metric or group '1'"]),
        ("token_f1@stem", ["token_f1 does not take arguments"]),
        ("ndcg@measure=recall", ["'measure' is not an argument of ndcg", "k (an integer"]),
        ("ndcg@1.0", ["k of ndcg", "an integer of at least 1"]),
        ("udcg@reader=x", ["'reader' is not an argument of udcg", "gamma"]),
        ("udcg@theta.json", ["gamma of udcg", "'theta.json'"]),
        ("bleu@spm", ["tokenize of bleu must be one of 13a, intl, zh, char, none, got 'spm'"]),
        ("ccrs@em_weight=0", ["'ccrs@em_weight=0'", "'em_weight' is not an argument of ccrs.cc. Arguments: fields ("]),
        ("ranking@alpha=0", ["'ranking@alpha=0'", "'alpha' is not an argument of precision"]),
        ("criterion@a=b.toml", ["'a' is not an argument of criterion", "path (a file, required)", "Quote a value"]),
        ("criterion", ["criterion@FILE"]),
        ("nothing@3", ["unknown metric or group 'nothing@3'"]),
    ],
)
def test_invalid_arguments(spec: str, words: list[str]) -> None:
    """The error names the metric, the key, the nearest key, the value and the rule, before any work."""
    with pytest.raises(ConfigurationError) as error:
        resolve_metrics(spec)
    assert [] == [word for word in words if word not in str(error.value)]


def test_python_values_are_checked() -> None:
    """A value of the wrong type or range raises an error that names the argument and the value."""
    for value in (2, float("nan"), "0", True, None):
        with pytest.raises(ConfigurationError, match=f"em_weight of AnswerCorrectness must be a number .*{value!r}"):
            AnswerCorrectness(em_weight=value)
    with pytest.raises(TypeError, match="unexpected keyword argument 'weight'"):
        AnswerCorrectness(weight=0)  # type: ignore[call-arg]


def test_variants_in_one_run() -> None:
    """Several variants of one metric are scored together, and one variant in two notations once."""
    expected = ["ccrs.ac", "ccrs.ac@em_weight=0", "ccrs.ac@em_weight=1"]
    assert expected == names("ccrs.ac", AnswerCorrectness(em_weight=0), "ccrs.ac@0,ccrs.ac@0.70", "ccrs.ac@1")
    metrics = resolve_metrics(expected)
    judge = FakeJudge(80)
    outcomes = [asyncio.run(metric.score(make_sample(), judge)) for metric in metrics]
    assert expected == [outcome.metric for outcome in outcomes]
    assert 3 == len({outcome.value for outcome in outcomes}) == len({metric.card.title for metric in metrics})
    assert 3 == len({outcome.metric_version for outcome in outcomes})
    assert 1 == len({outcome.prompt_hash for outcome in outcomes})


def test_groups_with_arguments() -> None:
    """A group takes an argument that each of its metrics has."""
    assert ["precision@3", "recall@3"] == names("ranking@3")[:2]
    assert names("ranking@3") == names("ranking@k=3")
    assert {"@4"} == {name[-2:] for name in names("crux@4")}
    assert {"@3"} == {name[-2:] for name in names("crux@3")}


def test_files_with_the_same_name_are_never_pooled(tmp_path: Path) -> None:
    """Two files of weights make two metrics with one name, which is an error instead of a choice."""
    for name, weight in (("a", 1), ("b", 2)):
        (tmp_path / f"{name}.toml").write_text(f"[weights]\nrouge_l = 1\ntoken_f1 = {weight}\n")
    one = f"composite@{tmp_path / 'a.toml'}"
    assert ["composite"] == names(one, one)
    with pytest.raises(ConfigurationError, match=r"two metrics have the name 'composite'"):
        resolve_metrics([one, f"composite@{tmp_path / 'b.toml'}"])
    with pytest.raises(ConfigurationError, match=r"two metrics have the name 'composite'"):
        resolve_metrics([one, Composite(resolve_metrics("rouge_l"), [1])])


@pytest.mark.parametrize("name", ["a,b.toml", "a=b.toml", "a b.toml", 'a"b.toml', "10", "a@b.toml", "none"])
def test_paths_with_special_characters(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quoted path can have any characters, relative and absolute."""
    monkeypatch.chdir(tmp_path)
    Path(name).write_text('[[criterion]]\nname = "kind"\ntext = "Is it kind?"\nneeds = ["response"]\n')
    for path in (Path(name), tmp_path / name):
        text = str(path).replace("\\", "\\\\").replace('"', '\\"')
        assert ["kind", "ccrs.qr"] == names(f'criterion@"{text}",ccrs.qr')
        assert ["kind"] == names(f'criterion@path="{text}"')
    absolute = registry.with_absolute_paths(f"ccrs,criterion@{registry.quote('./' + name)}")
    monkeypatch.chdir(Path(__file__).parent)
    assert "kind" == names(absolute)[-1]


class Brevity(MetricBase):
    """A metric of another package."""

    name, needs = "acme.brevity", ("response",)
    unstated = ("cache",)

    def __init__(
        self,
        limit: Annotated[int, Field(ge=1)] = 100,
        *,
        mode: Literal["words", "letters"] = "words",
        api_key: str = "",
        cache: str = "",
        strict: bool = False,
        plain=2.5,
    ) -> None:
        self.limit, self.mode, self.api_key, self.cache = limit, mode, api_key, cache
        self.strict, self.plain = strict, plain

    async def compute(self, sample, judge):
        return self.make_score(sample, 1.0, method="exact")


class Bare:
    """A metric of another package that does not use MetricBase, and has the same name for all arguments."""

    def __init__(self, limit: int = 3) -> None:
        self.limit = limit
        self.card = MetricCard(
            name="acme.bare",
            title="Bare",
            description="",
            low=0,
            high=1,
            needs=("response",),
            version="1",
            source="none",
            group="acme",
        )

    async def score(self, sample, judge):
        return Score(sample_id=sample.id, metric="acme.bare", metric_version="1", value=1, method="exact")


@pytest.fixture
def acme(install_metrics) -> None:
    install_metrics(Brevity(), Bare())


@pytest.mark.usefixtures("acme")
def test_metrics_of_other_packages_take_arguments() -> None:
    """A registered metric of another package takes the arguments of its constructor, checked by their annotations."""
    (metric,) = resolve_metrics("acme.brevity@50,strict=yes,plain=.5,mode=letters,cache=/tmp")
    assert "acme.brevity@50,mode=letters,plain=0.5,strict=true" == metric.card.name
    assert (50, "letters", True, 0.5, "/tmp") == (  # noqa: S108  a text, no file is used
        metric.limit,
        metric.mode,
        metric.strict,
        metric.plain,
        metric.cache,
    )
    assert "acme" == metric.card.group
    with pytest.raises(ConfigurationError, match=r"limit of acme.brevity must be an integer of at least 1, got '0'"):
        resolve_metrics("acme.brevity@0")


@pytest.mark.usefixtures("acme")
def test_secrets_are_not_part_of_a_name() -> None:
    """An argument that may be secret is set in Python only, and never in the name."""
    assert "acme.brevity" == Brevity(api_key="s3cret").card.name
    with pytest.raises(ConfigurationError, match="'api_key' is not an argument"):
        resolve_metrics("acme.brevity@api_key=s3cret")


@pytest.mark.usefixtures("acme")
def test_a_metric_whose_name_does_not_state_its_arguments() -> None:
    """A variant with the name of the default metric raises an error, because both would be pooled."""
    assert ["acme.bare"] == names("acme.bare")
    with pytest.raises(ConfigurationError, match=r"the name of acme.bare does not state its arguments"):
        resolve_metrics("acme.bare@limit=5")


def test_a_name_selects_one_variant() -> None:
    """A name never selects another variant, also if one name begins with the other."""
    card = AnswerCorrectness(em_weight=0.5).card
    assert selects("ccrs", card.name, card)
    assert selects("ccrs.ac@.5", card.name, card)
    assert not selects("ccrs.ac@em_weight=0", card.name, card)
    assert not selects("ccrs.ac", card.name, card)


def test_the_group_of_a_variant_is_that_of_its_metric() -> None:
    """A dot in an argument does not end the group that a metric takes from its name."""

    class Undotted(Brevity):
        name = "brevity"

    assert ("brevity@plain=0.5", "brevity") == (Undotted(plain=0.5).card.name, Undotted(plain=0.5).card.group)


@pytest.mark.parametrize("metric", ["ccrs.ac", "ccrs.ac@em_weight=0"])
def test_variants_say_if_an_answer_is_correct(metric: str) -> None:
    """The causes of wrong answers use the judged part of each variant of answer correctness."""
    signals = Signals()
    score = Score(
        sample_id="s", metric=metric, metric_version="1", value=0.2, method="exact", details={"em": 0.0, "judge": 0.2}
    )
    note_outcome(signals, score, None)
    assert (False, metric) == (signals.is_correct, signals.correct_by)


def test_long_names_stay_different_in_sinks() -> None:
    """A name that is cut for a sink ends with its hash, so that two variants never share one."""
    names = [f"bertscore@{'org/' * 30}{end},layer=3" for end in "ab"]
    assert ["bertscore"] == [shorten_name(name, 100) for name in ["bertscore"]]
    cut = [shorten_name(name, 100) for name in names]
    assert [100, 100] == [len(name) for name in cut]
    assert cut[0] != cut[1]


VARIANTS = (
    "ccrs.ac@0", "ccrs.ac@0.25", "udcg@0", "udcg@0.5", "ndcg@3,threshold=2", "alpha_ndcg@2,alpha=1",
    "crux.coverage@4", "crux.density@weight=1", "crux.ranked_coverage@alpha=0", "rouge_1@stem", "precision@2,threshold=2",
)  # fmt: skip


@pytest.mark.parametrize("spec", VARIANTS)
def test_cards_of_variants(spec: str) -> None:
    """The formula and the example of a variant are those of its arguments, or the example is left out."""
    (metric,) = resolve_metrics(spec)
    (default,) = resolve_metrics(spec.partition("@")[0] if "ndcg@" not in spec else "ndcg@10")
    assert metric.card.title != default.card.title
    if metric.card.example is not None and spec.startswith(("ccrs", "udcg")):
        assert metric.card.formula != default.card.formula
        assert metric.card.example.value != default.card.example.value
