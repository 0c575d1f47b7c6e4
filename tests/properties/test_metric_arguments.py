"""Laws of arguments in the names of metrics: written and parsed values are equal, and names are unique."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ragstone.metrics import MetricBase, split_metrics
from ragstone.metrics._arguments import arguments_of, parse_values


class Variant(MetricBase):
    """A metric with an argument of each kind."""

    name, needs = "acme.variant", ("response",)

    def __init__(
        self,
        text: str | None = None,
        *,
        number: float = 0.5,
        integer: int = 3,
        flag: bool = False,
        optional: int | None = 7,
        required_text: str = "x",
    ) -> None:
        self.values = (text, number, integer, flag, optional, required_text)

    async def compute(self, sample, judge):
        return self.make_score(sample, 1.0, method="exact")


TEXTS = st.text() | st.sampled_from(
    ["none", "None", "", " a", "a,b", "a=b", "_x=1", 'a"b', "a\\", "@", "=", "text", "\ud800"]
)
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "text": TEXTS | st.none(),
        "number": st.floats(allow_nan=False, allow_infinity=False),
        "integer": st.integers(-(10**30), 10**30),
        "flag": st.booleans(),
        "optional": st.integers() | st.none(),
        "required_text": TEXTS,
    },
)


def parse(name: str) -> dict[str, Any]:
    """Return the arguments that a name states."""
    _, at, text = name.partition("@")
    return parse_values("acme.variant", text, arguments_of(Variant)) if at else {}


@given(VALUES)
def test_the_name_of_a_variant_states_its_arguments(values: dict[str, Any]) -> None:
    """Arguments that are parsed from the name of a metric make an equal metric with the same name."""
    metric = Variant(**values)
    again = Variant(**parse(metric.name))
    assert metric.values == again.values
    assert metric.name == again.name


@given(VALUES, VALUES)
def test_different_variants_have_different_names(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Two metrics have the same name if and only if their arguments are equal."""
    first, second = Variant(**one), Variant(**other)
    assert (first.values == second.values) == (first.name == second.name)


@given(st.lists(VALUES, min_size=1, max_size=4))
def test_names_joined_with_commas_are_split_at_the_same_places(variants: list[dict[str, Any]]) -> None:
    """A list of names that is joined with commas is split into the same names."""
    names = [Variant(**values).name for values in variants]
    assert names == split_metrics(",".join(names))


@given(st.text(alphabet='ab@=,"\\ \n', max_size=40))
def test_any_text_is_split_or_refused(text: str) -> None:
    """A text of special characters is split into metrics that stay whole if they are split again, or raises ValueError."""
    try:
        specs = split_metrics(text)
    except ValueError:
        return
    assert specs == split_metrics(",".join(specs))
