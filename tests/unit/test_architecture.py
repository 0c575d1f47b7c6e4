"""Rules that the linters do not check: imports through a package's public API, and a docstring for each test."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = tuple(
    ROOT / f"{project}/src"
    for project in ("packages/ragstone", "packages/ragstone-lab", "integrations/langchain", "integrations/llama-index")
)
CORE, LAB, LANGCHAIN, LLAMA_INDEX = SOURCES
OURS = (
    "ragstone",
    "ragstone_lab",
    "langchain_ragstone",
    "llama_index.observability.ragstone",
    "llama_index.evaluation.ragstone",
)
FRAMEWORKS = {LANGCHAIN: ("langchain", "langgraph", "langsmith"), LLAMA_INDEX: ("llama_index",)}


def _imports(path: Path) -> Iterator[str]:
    """Yield the dotted name of each import in a file, and of what it uses of an imported package: `metrics.Metric`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    packages: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            if node.module == "ragstone":
                packages |= {alias.asname or alias.name: f"ragstone.{alias.name}" for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in packages:
            yield f"{packages[node.value.id]}.{node.attr}"


@cache
def all_imports() -> list[tuple[Path, str, str]]:
    """Return each import in a shipped module: its source directory, the module, and the imported name."""
    return [
        (source, ".".join(path.relative_to(source).with_suffix("").parts), name)
        for source in SOURCES
        for path in sorted(source.rglob("*.py"))
        for name in _imports(path)
    ]


def _for_the_core(path: Path) -> set[str]:
    """Return the names that a package exports to other packages of the core: not in its `__all__`, nor used in it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = ".".join(path.parent.relative_to(CORE).parts)
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(f"{package}.")
        for alias in node.names
    }
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return imported - used - set(getattr(importlib.import_module(package), "__all__", ()))


FOR_THE_CORE = {
    ".".join(path.parent.relative_to(CORE).parts): names
    for path in sorted(CORE.rglob("__init__.py"))
    if (names := _for_the_core(path))
}
"""By package of the core."""


def _private_owner(name: str) -> str | None:
    """Return the package that owns the first private part of a dotted name, or None without a private part."""
    parts = name.split(".")
    for position, part in enumerate(parts):
        # `ragstone._util` is a package like any other: import-linter's layers decide who imports it.
        if part.startswith("_") and not part.startswith("__") and (position > 1 or parts[0] != "ragstone"):
            return ".".join(parts[:position])
    return None


def test_private_modules_are_imported_inside_their_package_only() -> None:
    """Another package imports the public name from the package that exports it."""
    offenders = [
        f"{module} imports {name}"
        for _, module, name in all_imports()
        if any(f"{name}.".startswith(f"{package}.") for package in OURS)
        and (owner := _private_owner(name)) is not None
        and not f"{module}.".startswith(f"{owner}.")
    ]
    assert [] == offenders


def test_modules_do_not_import_each_other() -> None:
    """No chain of imports leads back to its module. Imports in functions and for type checkers count as well."""
    graph: dict[str, set[str]] = {module.removesuffix(".__init__"): set() for _, module, _ in all_imports()}
    for _, module, name in all_imports():
        # The imported name is a module, or an attribute of the module before the last dot.
        imported = name if name in graph else name.rpartition(".")[0]
        if imported in graph and imported != module.removesuffix(".__init__"):
            graph[module.removesuffix(".__init__")].add(imported)
    circle: list[str] = []
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        circle = error.args[1]
    assert [] == circle


def test_integrations_import_public_names_only() -> None:
    """An integration imports from the core what every user may: names in a package's `__all__`."""
    offenders = [
        f"{module} imports {name}"
        for source, module, name in all_imports()
        if source in FRAMEWORKS
        and name.startswith("ragstone.")
        and ("._" in name or name.rpartition(".")[2] in FOR_THE_CORE.get(name.rpartition(".")[0], ()))
    ]
    assert [] == offenders


def test_a_name_for_the_core_has_a_user() -> None:
    """A package exports a name outside its `__all__` only if another package of the core, or the lab, imports it."""
    imported = {
        name
        for source, module, name in all_imports()
        if source in (CORE, LAB) and not module.startswith(f"{name.rpartition('.')[0]}.")
    }
    exported = {f"{package}.{name}" for package, names in FOR_THE_CORE.items() for name in names}
    assert set() == exported - imported


def test_the_lab_imports_no_private_module_of_the_core() -> None:
    """It may use names that packages of the core export to each other, since both are released together."""
    imported = [
        (module, name) for source, module, name in all_imports() if source == LAB and name.startswith("ragstone.")
    ]
    assert [] == [f"{module} imports {name}" for module, name in imported if "._" in name]
    used = {name for _, name in imported}
    for extension in ("ragstone.extension", "ragstone.cli.extension"):
        path = CORE / f"{extension.replace('.', '/')}.py"
        exported = {
            f"{extension}.{alias.name}"
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.ImportFrom) and "._" in str(node.module)
            for alias in node.names
        }
        assert len(exported) > 5
        assert {f"{extension}.lazy_names"} >= exported - used, "a name that the lab does not need"


def test_integrations_do_not_import_each_other() -> None:
    """An integration imports neither the other integration nor its framework."""
    offenders = [
        f"{module} imports {name}"
        for source, module, name in all_imports()
        for owner, framework in FRAMEWORKS.items()
        if source not in (CORE, owner) and name.startswith(framework)
    ]
    assert [] == offenders


def test_every_source_directory_is_checked() -> None:
    """The rules above look at modules of all distributions."""
    assert set(SOURCES) == {source for source, _, _ in all_imports()}


def test_every_test_has_a_docstring() -> None:
    """The docstring of a failing test says what was expected."""
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    offenders = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in paths
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]
    assert len(paths) > 100
    assert [] == offenders
