"""`parse_number`, case by case."""

from __future__ import annotations

import pytest

from ragstone.errors import JudgeReplyError
from ragstone.judges._parse import parse_number


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("85", 85),
        ("0", 0),
        ("100", 100),
        ("85.5", 85.5),
        ("0.85", 0.85),
        ("85/100", 85),
        ("85.0/100.0", 85),
        ("85%", 85),
        ("85 percent", 85),
        ("Score: 85%", 85),
        ("I would say:\n\n85%", 85),
        ("85/100 (85%)", 85),
        ("Score: 85. Rating of 85", 85),
        ("**Score:** 85", 85),
        ("__Rating__: 85", 85),
        ("<score>85</score>", 85),
        ('{"score": "85/100"}', 85),
        ('{"rating": 85, "confidence": 0.9}', 85),
        ('{"value": 85, "reason": "good"}', 85),
        ('Here you are: {"score": 85}', 85),
        ("The score for this response is 85.", 85),
        ("On a scale from 0 to 100, the score is 85.", 85),
        ("I give it 85/100.", 85),
        ("Score: 85. To repeat, 85.", 85),
        ("Score: 85. (85/100)", 85),
        ("Score: 85 (85%)", 85),
        ("Score: 100 (highest: 100)", 100),
        ("Score: 85\nScore: 85", 85),
        ('{"score": 85, "max_score": 100}', 85),
        ('{"score": 85, "scale": "0-100", "maximum": "100.0"}', 85),
        ("评分：85分", 85),
        ("\u22120", 0),
        ("\uff18\uff15", 85),
        ("スコア：\uff18\uff0e\uff15", 8.5),
        ('{"score": "\uff18\uff15"}', 85),
        ("\uff18\uff15\uff0f\uff11\uff10\uff10", 85),
        ("\uff18\uff15\uff05", 85),
        ("\u0668\u0665", 85),
        ("\u06f8\u06f5\u066b\u06f5", 85.5),
        ("\u096e\u096b", 85),
        ("85 \u70b9", 85),
        ('{"relevant": true, "value": 85}', 85),
        ("<think>80</think> or 90?</think>85", 85),
        ("The answer is 85.", 85),
        ("**Answer:** 85", 85),
        ("My final verdict is: 85!", 85),
        ("I would give it an 85.", 85),
        (
            "<|channel|>analysis<|message|>80? Or 90?<|end|><|start|>assistant<|channel|>final<|message|>85<|return|>",
            85,
        ),
    ],
)
def test_reads(text, expected):
    """One number, stated."""
    assert expected == parse_number(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "True",
        "NaN",
        "inf",
        "-inf",
        "Infinity",
        "eighty-five",
        "101",
        "-5",
        "\u22125",
        "\uff0d\uff15",
        "\uff17\uff10\uff0d\uff18\uff10",
        "\uff14\uff0f\uff15",
        "\u09ee\u09eb",
        "The answer is 85 meters tall.",
        "The answer is 85 or more.",
        "The tower has the number 85, which the answer names.",
        "<|channel|>analysis<|message|>85",
        "150/100",
        "4/5",
        "Score: 4/5",
        "8/10",
        "70-80",
        "70 \u2013 80",
        "70 to 80",
        ">80",
        "> 80",
        "80+",
        "~80",
        "80 ± 5",
        "85,5",
        "1,000",
        "1e1",
        "10²",
        "85½",
        "GPT4",
        "3rd",
        "2024-05-01",
        "Three facts, of which 2 are right.",
        "I cannot give a score as there is 1 passage",
        "1. The response is right.",
        '{"score": true}',
        '{"score": null}',
        '{"score": NaN}',
        '{"score": Infinity}',
        '{"score": 1e999}',
        '{"score": [85]}',
        '{"score": 80, "Score": 90}',
        '{"recall": 80, "precision": 90}',
        '{"reason": "2 of 3"}',
        "<think>85",
        "85 <think>wait",
        "Score: 85\nConfidence: 90",
        "Score: 10 out of 10",
        "Score: 5 (out of 5)",
        "Rating: 5 of 5",
        "Rating: 5 stars out of 5.",
        "Score: 5 on a 5-point scale",
        "Score: 10 (max. 10)",
        "Score: 10 von 10",
        "Score: 5 de 5",
        "Score: 10 из 10",
        "Score: 5 (highest: 5)",
        "Score: 4 stars",
        "Score: 4 Sterne",
        "评分:4颗星",
        "得分:10分(满分10分)",
        "スコア: 10点(10点満点)",
        "점수: 10점 (10점 만점)",
        '{"score": 8, "max_score": 10}',
        '{"score": 4, "scale": "1-5"}',
        '{"rating": 4, "bestRating": 5}',
        '{"score": 8, "out of": 10}',
        '{"score": 4, "range": [1, 5]}',
        '{"score": "10 von 10"}',
        'My reply:\n```json\n{\n  "score": 10,\n  "max_score": 10\n}\n```',
        "Confidence: 85%",
        "The trial reports 85% efficacy, and so does the response.",
        "Score: 8\u00b2",
        "Score: 80\u00bd",
    ],
)
def test_refuses(text):
    """No number, several, or something that only looks like one: an error that keeps the reply."""
    with pytest.raises(JudgeReplyError) as caught:
        parse_number(text)
    assert ("unparseable", text) == (caught.value.kind, caught.value.raw)


def test_other_scales():
    """The scale is the one that was asked for; its name in the reply is no second number."""
    assert 4 == parse_number("Rating (1-5): 4", 1, 5) == parse_number("Rating: 4 stars", 1, 5)
    assert 4 == parse_number('{"score": 4, "scale": "1-5"}', 1, 5)
    assert 0.5 == parse_number("0.5/1", 0, 1)
    for text in ("6", "4/5", "80%"):
        with pytest.raises(JudgeReplyError):
            parse_number(text, 1, 5)
    with pytest.raises(JudgeReplyError):
        parse_number("8%", 0, 10)
    with pytest.raises(JudgeReplyError, match="got '28 out of 100': the number is on another scale"):
        parse_number("28 out of 100", 0, 1)


def test_no_negative_zero():
    """Nobody reads "-0" in a report."""
    assert "0.0" == str(parse_number("-0"))


@pytest.mark.parametrize("unit", ["<think>", "1 ", '{"a":', "-", "score of a b c ", "(", "\\boxed", "</think>"])
def test_long_replies_take_no_time(unit):
    """A server gone wild costs no more than its length (the suite's time limit decides)."""
    with pytest.raises(JudgeReplyError):
        parse_number(unit * 100_000)
