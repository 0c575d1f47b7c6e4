"""Fixtures of several files."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from ragstone.metrics import Metric


@pytest.fixture
def install_metrics(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """A function that installs a distribution of another package, whose entry points name metrics and missing objects."""

    def install(*metrics: Metric, **missing: str) -> None:
        module = types.ModuleType("acme_metrics")
        module.make = lambda: list(metrics)
        monkeypatch.setitem(sys.modules, "acme_metrics", module)
        info = tmp_path / "acme-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1\n")
        lines = [f"{name} = acme_metrics:{found}" for name, found in {**missing, "made": "make"}.items()]
        (info / "entry_points.txt").write_text("[ragstone.metrics]\n" + "\n".join(lines))
        monkeypatch.syspath_prepend(tmp_path)

    return install
