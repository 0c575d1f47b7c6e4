"""`judge_from`: what users write as `judge=`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ragstone.errors import ConfigurationError
from ragstone.judges import MissingModel, OpenAICompatibleJudge, judge_from
from ragstone.judges.lexical import LexicalJudge
from ragstone.testing import FakeJudge


@pytest.mark.parametrize(
    ("spec", "environment", "expected"),
    [
        (None, {}, MissingModel),
        (None, {"RAGSTONE_JUDGE": ""}, MissingModel),
        (None, {"RAGSTONE_JUDGE": "http://h:1/v1"}, OpenAICompatibleJudge),
        ("lexical", {"RAGSTONE_JUDGE": "http://h:1/v1"}, LexicalJudge),
        ("https://h", {}, OpenAICompatibleJudge),
        ("openai:gpt-4.1", {"OPENAI_API_KEY": "sk-1"}, OpenAICompatibleJudge),
    ],
)
def test_kinds(monkeypatch, spec, environment, expected):
    """Each way to write one."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert expected is type(judge_from(spec))


def test_openai_endpoint_from_the_environment(monkeypatch):
    """Another endpoint needs no key of ours."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://gateway:9/v1")
    judge = judge_from("openai:org/model:free")
    assert "OpenAICompatibleJudge(OpenAICompatibleModel('http://gateway:9/v1', model='org/model:free'))" == repr(judge)


def test_objects_pass():
    """A judge is a judge."""
    judge = FakeJudge()
    assert judge is judge_from(judge)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("openai:gpt-4.1", "OPENAI_API_KEY"),
        ("openai:", "unknown"),
        ("vllm:", "unknown"),
        ("nli:", "unknown"),
        ("nli:some/model?labels=x", "unknown option 'labels'. Known options: supported, device"),
        ("gpt-4.1", "openai:MODEL"),
        ("localhost:8000", "http://host:8000/v1"),
        (FakeJudge, "not a judge"),
        (7, "not a judge"),
    ],
)
def test_mistakes_are_explained(spec, words):
    """The message shows the way out."""
    with pytest.raises(ConfigurationError, match=words):
        judge_from(spec)


def test_door_is_cheap():
    """Importing the room, even making a judge, loads no client."""
    code = (
        "import sys; from ragstone.judges import judge_from; judge_from('http://h'); judge_from('lexical');"
        "print([m for m in ('openai', 'aiohttp', 'httpx', 'numpy', 'nltk') if m in sys.modules])"
    )
    assert "[]\n" == subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_score_mode():
    """It reaches judges that are made from words."""
    named = judge_from("http://127.0.0.1:1/v1", score_mode="sampled", draws=7)
    made = OpenAICompatibleJudge("http://127.0.0.1:1/v1", score_mode="sampled", draws=7)
    assert made.identity == named.identity


@pytest.mark.parametrize("spec", ["lexical", FakeJudge(80)], ids=["lexical", "object"])
def test_score_mode_for_those_that_have_none(spec):
    """It is refused, not ignored."""
    with pytest.raises(ConfigurationError, match="score_mode='expected'"):
        judge_from(spec, score_mode="expected")


def test_length_limit_of_numbers():
    """It reaches the judge that is made, and a judge that is there already keeps its own."""
    made = OpenAICompatibleJudge("http://h/v1", max_tokens=4096)
    assert made.identity == judge_from("http://h/v1", max_tokens=4096).identity
    assert made.identity != judge_from("http://h/v1").identity
    with pytest.raises(ConfigurationError, match="max_tokens=9 is for judges given as a string"):
        judge_from(FakeJudge(), max_tokens=9)
