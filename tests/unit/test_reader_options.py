"""Readers given as strings, with the options of a command line."""

from __future__ import annotations

import json

import pytest

from fake_models import FakeReader
from ragstone.errors import ConfigurationError
from ragstone.judges import ChatReader, EndpointOptions, ModelJudge, OptionNames, reader_from
from ragstone.judges.lexical import LexicalReader
from scripted_model import ScriptedModel

JUDGE = ModelJudge(ScriptedModel({"Oslo": 1.0}))


def build_reader(url=None, **own):
    """Build a reader with the options of a command."""
    names = OptionNames("reader", "command line")
    return EndpointOptions(names=names, url=url, own=own).build_reader(JUDGE, EndpointOptions(names=OptionNames()))


@pytest.fixture(autouse=True)
def nobody_named(monkeypatch):
    """No reader in the environment."""
    monkeypatch.delenv("RAGSTONE_READER", raising=False)
    monkeypatch.delenv("RAGSTONE_JUDGE", raising=False)


def test_options_make_a_reader_of_the_judges_model():
    """It shares the judge's connections, and is the reader that the options describe."""
    reader = reader_from(None, judge=JUDGE, prompt="{context}{question}", abstention=["NONE"], max_draws=7)

    assert reader.model is JUDGE.model
    assert ChatReader(
        JUDGE.model, prompt="{context}{question}", abstention="NONE", max_draws=7
    ).identity == reader.identity  # fmt: skip


def test_without_options_there_is_no_reader():
    """The judge's model is the default of metrics that need one."""
    assert build_reader() is None
    assert isinstance(build_reader("lexical"), LexicalReader)


def test_a_prompt_from_a_file(tmp_path):
    """A text is a template; JSON holds a conversation."""
    text, conversation = tmp_path / "prompt.txt", tmp_path / "prompt.json"
    text.write_text("{question}\n{context}", encoding="utf-8")
    messages = [{"role": "system", "content": "Use {context}"}, {"role": "user", "content": "{question}"}]
    conversation.write_text(json.dumps(messages), encoding="utf-8")

    for file, prompt in ((text, "{question}\n{context}"), (conversation, messages)):
        reader = build_reader(prompt=file, abstention=("A", "B"), estimator="monte_carlo", max_draws=3)

        assert ChatReader(
            JUDGE.model, prompt=prompt, abstention=["A", "B"], estimator="monte_carlo", max_draws=3
        ).identity == reader.identity  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("lexical", {"max_draws": 3}, "the lexical baseline does not have a model"),
        (None, {"prompt": "missing.txt"}, "missing.txt' cannot be read"),
        (None, {"prompt": "broken.json"}, "broken.json' cannot be read"),
        (None, {"prompt": "empty.txt"}, "needs a placeholder for the passages"),
    ],
)
def test_what_cannot_work(spec, options, message, tmp_path):
    """The message names the option's value."""
    (tmp_path / "broken.json").write_text("[", encoding="utf-8")
    (tmp_path / "empty.txt").write_text("", encoding="utf-8")
    options = {name: tmp_path / value if name == "prompt" else value for name, value in options.items()}

    with pytest.raises(ConfigurationError, match=message):
        build_reader(spec, **options)


def test_options_are_not_for_readers_that_are_made_already():
    """They would be ignored."""
    with pytest.raises(ConfigurationError, match="max_draws: options apply only to readers given as a string"):
        reader_from(FakeReader(), judge=JUDGE, max_draws=3)
    assert isinstance(reader_from("lexical", judge=JUDGE), LexicalReader)
