"""Build the distributions of a release twice, compare them, check their contents, and install them on each Python.

It also writes a bill of materials (CycloneDX) of what an installation brings on the oldest Python.

`nox -s release` runs this. An argument is the version that is to be published: `nox -s release -- 0.2.0`. All distributions and
CITATION.cff must have it, the newest entry of the changelog must be that of the version with a date, and the distributions must
name the addresses of the project.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECTS = ("packages/ragstone", "packages/ragstone-lab", "integrations/langchain", "integrations/llama-index")
PYTHONS = ("3.11", "3.12", "3.13")
SMOKE = """
import asyncio, ragstone
from langchain_ragstone import RagstoneCallbackHandler
from llama_index.observability.ragstone import RagstoneInstrumentor
from llama_index.evaluation.ragstone import RagstoneEvaluator
from ragstone_lab import validate_metrics
rows = [{"query": "Why?", "contexts": ["Rain."], "response": "Rain.", "reference": "Rain."}]
result = ragstone.evaluate(rows, ["ccrs"], judge="lexical")
assert len(result.outcomes) == 5, result
assert validate_metrics(result).systems == ("experiment",)
with ragstone.Monitor(judge="lexical", metrics=["ccrs"], store="smoke.db") as monitor:
    with monitor.request("Why?") as request:
        request.found(["Rain."])
        request.answer("Rain.")
assert monitor.ledger().total.scored == 1, monitor.ledger()
"""


def run(*command: str | Path, **options: object) -> str:
    """Run a command and return its output, or end this program with the output."""
    words = [str(word) for word in command]
    done = subprocess.run(words, check=False, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return str(done.stdout)


def build(into: Path) -> dict[str, str]:
    """Build source archives and wheels, and return the SHA-256 of each by file name."""
    epoch = run("git", "log", "-1", "--format=%ct", cwd=ROOT).strip()
    for project in PROJECTS:
        environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
        run(sys.executable, "-m", "build", "--outdir", into, ROOT / project, env=environment)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(into.iterdir())}


def names_in(archive: Path) -> list[str]:
    """List the files of a wheel or a source archive."""
    if archive.suffix == ".whl":
        return zipfile.ZipFile(archive).namelist()
    with tarfile.open(archive) as source:
        return source.getnames()


def check_contents(archive: Path) -> None:
    """Refuse an archive without license or type marker, or with files that do not belong to it."""
    names = names_in(archive)
    for wanted in ("LICENSE", "py.typed"):
        if not any(name.endswith(wanted) for name in names):
            raise SystemExit(f"{archive.name} does not contain {wanted}")
    wrong = [name for name in names if "/tests/" in name or "__pycache__" in name or name.endswith((".db", ".pyc"))]
    if wrong:
        raise SystemExit(f"{archive.name} contains {wrong[:5]}")
    print(f"  {archive.name}: {len(names)} files, {archive.stat().st_size // 1000} kB")


def check_addresses(wheels: list[Path], *, required: bool) -> None:
    """Warn about wheels that name no address of the project (`[project.urls]`), or refuse them."""
    without = []
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as files:
            (name,) = (name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
            if "\nProject-URL: " not in files.read(name).decode().partition("\n\n")[0]:
                without.append(wheel.name)
    if without:
        problem = (
            f"{', '.join(without)}: [project.urls] is missing. CONTRIBUTING.md, 'Release a version', says what to add."
        )
        if required:
            raise SystemExit(problem)
        print(f"warning: {problem}")


def check_citation(version: str, citation: str) -> None:
    """Refuse a CITATION.cff of another version."""
    cited = re.search(r"^version: (.+)$", citation, re.MULTILINE)
    if cited is None or cited[1] != version:
        raise SystemExit(f"CITATION.cff has the version {cited and cited[1]}, expected {version}")


def check_changelog(version: str, changelog: str, *, dated: bool) -> None:
    """Refuse a changelog whose newest entry is about another version, and one without a date if the version is to be published."""
    heading = re.search(r"^## (.*)$", changelog, re.MULTILINE)
    date = r"\d{4}-\d{2}-\d{2}" if dated else r"(?:\d{4}-\d{2}-\d{2}|unreleased)"
    if heading is None or not re.fullmatch(rf"{re.escape(version)} \({date}\)", heading[1]):
        expected = f"{version} (YYYY-MM-DD)" if dated else f"{version} (unreleased)"
        raise SystemExit(
            f"the newest entry of docs/changelog.md is {heading and heading[1]!r}, expected the heading '## {expected}'. "
            "CONTRIBUTING.md, 'Release a version', says what to write."
        )


def install_and_run(wheels: list[Path], python: str, directory: Path) -> None:
    """Install the wheels alone into an empty environment of a Python, and run the quickstart of each."""
    environment = directory / f"python-{python}"
    command = [shutil.which("uv") or "uv", "python", "find", "--no-python-downloads", python]
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    if found.returncode:
        if os.environ.get("CI"):
            raise SystemExit(f"Python {python} is not installed")
        print(f"  Python {python}: not installed here, skipped")
        return
    run("uv", "venv", "-q", "--clear", "--python", found.stdout.strip(), environment)
    programs = environment / ("Scripts" if os.name == "nt" else "bin")
    # By name and version, as users do: an installation from a path is recorded with that path.
    wanted = ["==".join(wheel.name.split("-")[:2]) for wheel in wheels]
    run("uv", "pip", "install", "-q", "--python", programs / "python", "--find-links", wheels[0].parent, *wanted)
    empty = directory / f"empty-{python}"
    shutil.rmtree(empty, ignore_errors=True)
    empty.mkdir()
    run(programs / "python", "-c", SMOKE, cwd=empty)
    run(programs / "ragstone", "demo", cwd=empty)
    run(programs / "ragstone", "lab", "udcg", "--help", cwd=empty)
    print(f"  Python {python}: installed from wheels; quickstarts and demo run")
    if python == PYTHONS[0]:
        materials = directory / "materials.cdx.json"
        options = ("--output-reproducible", "--sv", "1.6", "-o", materials)
        run(sys.executable, "-m", "cyclonedx_py", "environment", programs / "python", *options)
        print(f"  {materials.name}: {len(json.loads(materials.read_text())['components'])} packages")


def main(wanted: str | None = None) -> None:
    """Build, compare, check, install."""
    directory = Path(os.environ.get("RAGSTONE_RELEASE_DIR", "dist")).resolve()
    first, second = directory / "dist", directory / "again"
    for folder in (first, second):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    hashes = build(first)
    again = build(second)
    different = [name for name in hashes if hashes[name] != again.get(name)]
    if different or hashes.keys() != again.keys():
        raise SystemExit(f"a second build differs: {different or sorted(hashes.keys() ^ again.keys())}")
    shutil.rmtree(second)
    print(f"{len(hashes)} archives; a second build is identical")
    versions = {name.removesuffix(".tar.gz").split("-")[1].removesuffix(".whl") for name in hashes}
    if len(versions) != 1 or (wanted and versions != {wanted}):
        raise SystemExit(f"the distributions have the versions {sorted(versions)}, expected {wanted or 'one'}")
    version = versions.pop()
    check_citation(version, (ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    check_changelog(version, (ROOT / "docs" / "changelog.md").read_text(encoding="utf-8"), dated=wanted is not None)
    archives = sorted(first.iterdir())
    for archive in archives:
        check_contents(archive)
    run(sys.executable, "-m", "twine", "check", "--strict", *archives)
    wheels = [path for path in archives if path.suffix == ".whl"]
    check_addresses(wheels, required=wanted is not None)
    for python in PYTHONS:
        install_and_run(wheels, python, directory)
    for name, digest in hashes.items():
        print(f"{digest}  {name}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
