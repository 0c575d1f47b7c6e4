"""Laws of reading replies: a number in range that is stated once is read; anything else is an error, never a guess."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.errors import JudgeReplyError
from ragstone.judges._parse import parse_number

TEMPLATES = st.sampled_from(
    [
        "{}", " {}\n", "{}.", "**{}**", "`{}`", "Score: {}", "Score: {}/100", "{} / 100", "{} out of 100", "{}%",
        "Rating: **{}**", '{{"score": {}}}', '{{"reason": "2 of 3 facts", "score": {}}}', '```json\n{{"score": {}}}\n```',
        "<think>First 10, then 20.</think>\n{}", "maybe 40?</think>{}", "Score (0-100): {}", "The score is {}.",
        "{}\n\nThe response agrees with the passages.", "\\boxed{{{}}}", "[[{}]]",
    ]
)  # fmt: skip


@given(TEMPLATES, st.integers(0, 100))
def test_a_stated_number_is_read(template, number):
    """The usual ways to state one number."""
    assert number == parse_number(template.format(number))


@given(TEMPLATES, st.integers(-10_000, 10_000).filter(lambda n: not 0 <= n <= 100))
def test_out_of_range_is_never_clipped(template, number):
    """101 is no 100."""
    with pytest.raises(JudgeReplyError):
        parse_number(template.format(number))


@given(
    st.integers(0, 100),
    st.integers(0, 100),
    st.sampled_from(
        ["{} to {}", "{}-{}", "{} or {}", "{}, {}", "{}\n{}", "Score: {}, rating: {}", "{} / {}", "{}: {}"]
    ),
)
def test_two_numbers_are_none(one, other, template):
    """Two different numbers: no one takes the first."""
    text = template.format(one, other)
    if one == other or (other == 100 and "/" in template):
        return
    with pytest.raises(JudgeReplyError) as caught:
        parse_number(text)
    assert text == caught.value.raw


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Nd", "No"])))
def test_text_without_digits_is_an_error(text):
    """No digit, no number."""
    with pytest.raises(JudgeReplyError):
        parse_number(text)


@given(st.text())
def test_any_text_gives_a_number_in_range_or_a_reply_error(text):
    """Nothing else comes out, whatever a model writes."""
    try:
        value = parse_number(text, 1, 5)
    except JudgeReplyError:
        return
    assert 1 <= value <= 5
