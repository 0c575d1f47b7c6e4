"""`PostgresStore` keeps every promise of a store: the contract of `tests/contract`, over a real server."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from ragstone.store import open_store as open_any
from ragstone.store.postgres import PostgresStore

pytestmark = pytest.mark.servers


def _load(path):
    spec = importlib.util.spec_from_file_location(f"ragstone_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


_TESTS = Path(__file__).parents[1]
_contract = _load(_TESTS / "contract" / "test_store_contract.py")
_laws = _load(_TESTS / "properties" / "test_store_ledger.py")
_deliveries = _load(_TESTS / "properties" / "test_store_deliveries.py")

# All its classes, and the fixtures that they are written for; `open_store` is ours.
globals().update(
    {name: value for name, value in vars(_contract).items() if name.startswith("Test") or name in ("clock", "store")}
)


@pytest.fixture
def open_store(database, clock):
    """Opens the same store again and again."""
    return lambda: open_any(database, mode="own", clock=clock)


def test_whatever_happens_the_books_add_up(postgres):
    """The laws of `tests/properties`, in any order of events."""

    class Machine(_laws.StoreMachine):
        url = None

        def open(self):
            self.url = self.url or postgres.new_database()
            self.store = PostgresStore.open(
                self.url, mode="own", clock=lambda: self.now, max_attempts=_laws.MAX_ATTEMPTS
            )

    run_state_machine_as_test(Machine, settings=settings(max_examples=10, stateful_step_count=30, deadline=None))


def test_deliveries_are_what_a_table_would_say(postgres):
    """The laws of `tests/properties`, in any order of events."""

    class Machine(_deliveries.DeliveryMachine):
        url = None

        def open(self):
            self.url = self.url or postgres.new_database()
            self.store = PostgresStore.open(self.url, mode="own", clock=lambda: self.now)

    run_state_machine_as_test(Machine, settings=settings(max_examples=8, stateful_step_count=25, deadline=None))
