"""JSON Schema of the stored records, for other languages and for review."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from pydantic import TypeAdapter

from ragstone.schema._base import SCHEMA_VERSION
from ragstone.schema._entry import spool_entry_adapter
from ragstone.schema._ledger import Ledger
from ragstone.schema._outcome import outcome_adapter
from ragstone.schema._sample import Sample
from ragstone.schema._trace import Trace


def json_schema() -> dict[str, Any]:
    """Generate the JSON Schema (draft 2020-12) of every stored record from the models."""
    adapters: dict[str, TypeAdapter[Any]] = {
        "Trace": TypeAdapter(Trace),
        "Sample": TypeAdapter(Sample),
        "Outcome": outcome_adapter,
        "SpoolEntry": spool_entry_adapter,
        "Ledger": TypeAdapter(Ledger),
    }
    _, schema = TypeAdapter.json_schemas(
        [(name, "serialization", adapter) for name, adapter in adapters.items()],
        title=f"Ragstone records, schema version {SCHEMA_VERSION}",
    )
    return dict(schema)


def committed_json_schema() -> dict[str, Any]:
    """Read the JSON Schema that ships with the package. A test keeps it equal to `json_schema()`."""
    return dict(json.loads(files("ragstone.schema").joinpath(f"v{SCHEMA_VERSION}.json").read_text(encoding="utf-8")))
