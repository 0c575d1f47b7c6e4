"""Every judge of ours keeps the promises of the Protocol, over HTTP against a server with and without constraints."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fake_servers import FakeJudgeServer
from ragstone.judges import Completion, FunctionModel, Judge, ModelJudge, OpenAICompatibleJudge
from ragstone.judges.lexical import LexicalJudge
from ragstone.schema import Usage
from ragstone.testing import FakeJudge, JudgeContract


class TestLexicalJudge(JudgeContract):
    """The baseline."""

    def make_judge(self) -> Judge:
        return LexicalJudge()


class TestFakeJudge(JudgeContract):
    """The fake that users test with."""

    def make_judge(self) -> Judge:
        return FakeJudge()


class TestFunctionModel(JudgeContract):
    """A judge on a function of someone's own."""

    def make_judge(self) -> Judge:
        return ModelJudge(FunctionModel(lambda _: (Completion(text="1"), Usage()), name="one", settings={}))


class _OverHttp(JudgeContract):
    structured = "obeyed"

    @pytest.fixture(autouse=True)
    def server(self) -> Iterator[None]:
        with FakeJudgeServer(structured=self.structured) as server:
            self.url = server.url
            yield

    def make_judge(self) -> Judge:
        return OpenAICompatibleJudge(self.url, backoff_s=0.01)


class TestOpenAICompatibleJudge(_OverHttp):
    """A server that obeys constraints."""


class TestOpenAICompatibleJudgeWithoutConstraints(_OverHttp):
    """A server that ignores them."""

    structured = "ignored"
