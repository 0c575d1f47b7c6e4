"""The documentation is true: its Python runs, its commands exist, and CI runs what the README tells people to run."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from command_line import run_command

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
DOCUMENTED_JUDGE = "http://localhost:8000/v1"


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of one language, each padded so that a traceback names the page's own line."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return ["\n" * text.count("\n", 0, match.start(1)) + match[1] for match in found]


def name(page: Path) -> str:
    """A page's name in test reports."""
    return str(page.relative_to(ROOT))


PYTHON_PAGES = [page for page in PAGES if blocks(page, "python")]
COMMANDS = sorted(
    {
        command
        for page in PAGES
        for block in blocks(page, "bash")
        for command in re.findall(r"\bragstone ([a-z][a-z-]*)", block)
    }
)


def the_reader_s_application() -> dict[str, object]:
    """The names a page may use without defining them: what the reader brings."""
    from langchain_core.documents import Document
    from langchain_core.runnables import RunnableLambda, RunnablePassthrough

    found = [Document(page_content="A touchstone is a dark stone on which gold leaves a visible streak.")]
    retriever = RunnableLambda(lambda question: found, name="retriever")
    answerer = RunnableLambda(lambda given: "A touchstone.", name="answerer")
    return {
        "chain": RunnablePassthrough.assign(context=lambda given: retriever.invoke(given["input"])) | answerer,
        "question": "Which rock shows gold by its streak?",
    }


def the_reader_s_query_engine() -> object:
    """The same, of a reader who uses LlamaIndex."""
    from llama_index.core import MockEmbedding, VectorStoreIndex
    from llama_index.core.llms import MockLLM
    from llama_index.core.schema import TextNode

    node = TextNode(text="A touchstone is a dark stone on which gold leaves a visible streak.")
    return VectorStoreIndex([node], embed_model=MockEmbedding(embed_dim=2)).as_query_engine(MockLLM(max_tokens=3))


def the_reader_s_clients() -> dict[str, object]:
    """Return a vector database, a cursor, an index and a model client, for a reader who does not use a framework."""
    text = "A touchstone is a dark stone on which gold leaves a visible streak."
    points = [SimpleNamespace(id=1, score=0.9, payload={"text": text})]

    def create(*, model: str, messages: object, stream: bool = False) -> object:
        choice = {"index": 0, "message": SimpleNamespace(content="A touchstone.", tool_calls=None)}
        chunk = SimpleNamespace(choices=[SimpleNamespace(index=0, delta=SimpleNamespace(content="A touchstone."))])
        return iter([chunk]) if stream else SimpleNamespace(model=model, choices=[SimpleNamespace(**choice)])

    return {
        "client": SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create))),
        "cursor": SimpleNamespace(fetchall=lambda: [(1, text, 0.2)]),
        "database": SimpleNamespace(query_points=lambda name, query, limit: SimpleNamespace(points=points)),
        "embed": lambda text: [0.1, 0.2],
        "index": SimpleNamespace(search=lambda vectors, k: ([[0.9]], [[0]])),
        "make_messages": lambda question, hits: [{"role": "user", "content": f"{text}\n\n{question}"}],
        "texts": [text],
        "vector": [0.1, 0.2],
        "vectors": [[0.1, 0.2]],
    }


@pytest.mark.parametrize("page", PYTHON_PAGES, ids=name)
def test_python_on_the_page_runs(page, reader_s_desk, judge_url):
    """The blocks of a page run one after the other, as a reader would paste them."""
    namespace = {"__name__": "__main__", **the_reader_s_application()}
    if any("monitor.request(" in block for block in blocks(page, "python")):
        namespace |= the_reader_s_clients()
    if any("query_engine" in block for block in blocks(page, "python")):
        namespace["query_engine"] = the_reader_s_query_engine()
    for block in blocks(page, "python"):
        exec(compile(block.replace(DOCUMENTED_JUDGE, judge_url), str(page), "exec"), namespace)  # noqa: S102


@pytest.mark.parametrize("command", COMMANDS)
def test_documented_command_exists(command):
    """Every `ragstone COMMAND` in the documentation is a command."""
    done = run_command(command, "--help")
    assert (0, "") == (done.returncode, done.stderr)


def test_ci_runs_what_the_readme_says():
    """`.ci/run` starts with the very command the README gives for the tests."""
    (command,) = [
        line for block in blocks(ROOT / "README.md", "bash") for line in block.split("\n") if "-s tests" in line
    ]
    assert command in (ROOT / ".ci/run").read_text(encoding="utf-8")


def documented_calls(page: Path) -> list[tuple[str, str]]:
    """The options that a page's blocks and inline code give to a command: ("store prune", "--yes")."""
    text = page.read_text(encoding="utf-8")
    code = [*blocks(page, "bash"), *re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text)]
    calls = []
    for piece in code:
        for line in piece.replace("\\\n", " ").splitlines():
            for call in re.findall(r"\bragstone ([a-z][^|;&>#]*)", line):
                words = call.split()
                command = [words[0], *(words[1:2] if words[0] in GROUPS else [])]
                calls += [(" ".join(command), word.split("=")[0]) for word in words if word.startswith("--")]
    return calls


GROUPS = ("dataset", "labels", "store", "udcg")
CALLS = sorted({call for page in PAGES if "changelog.d" not in page.parts for call in documented_calls(page)})


@pytest.mark.parametrize("command", sorted({command for command, option in CALLS}))
def test_documented_options_exist(command):
    """Every option that a page gives to a command is in the command's help."""
    done = run_command(*command.split(), "--help", COLUMNS="400")
    offered = set(re.findall(r"--[a-z][a-z-]*", done.stdout)) | {"--help", "--version"}
    assert [] == [option for of, option in CALLS if of == command and option not in offered]
