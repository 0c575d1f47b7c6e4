"""`PostgresStore` keeps every promise of a store: the contract of `tests/contract`, over a real server."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from ragstone.store import open_store as open_any

pytestmark = pytest.mark.servers

_PATH = Path(__file__).parents[1] / "contract" / "test_store_contract.py"
_spec = importlib.util.spec_from_file_location("ragstone_store_contract", _PATH)
_contract = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_contract)

# All its classes, and the fixtures that they are written for; `open_store` is ours.
globals().update(
    {name: value for name, value in vars(_contract).items() if name.startswith("Test") or name in ("clock", "store")}
)


@pytest.fixture
def open_store(database, clock):
    """Opens the same store again and again."""
    return lambda: open_any(database, mode="own", clock=clock)
