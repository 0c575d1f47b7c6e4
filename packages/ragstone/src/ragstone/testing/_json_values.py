"""Values that match a JSON Schema, as replies of fakes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def schema_value(schema: Mapping[str, Any], draw: Callable[[str], float], path: str = "") -> Any:
    """Generate a value that matches a schema of objects, lists, texts, numbers, booleans and enumerations.

    The schema is without references. `draw` returns a number in [0, 1) for each path in the value.
    """
    if "enum" in schema:
        return schema["enum"][int(draw(path) * len(schema["enum"]))]
    if "const" in schema:
        return schema["const"]
    match schema.get("type"):
        case "object":
            return {name: schema_value(part, draw, f"{path}.{name}") for name, part in schema["properties"].items()}
        case "array":
            least = schema.get("minItems", 0)
            n = max(least, min(2, schema.get("maxItems", 2)))
            return [schema_value(schema["items"], draw, f"{path}.{i}") for i in range(n)]
        case "string":
            return f"text {path} {draw(path):.4f}"
        case "integer":
            low, high = schema.get("minimum", 0), schema.get("maximum", 9)
            return low + int(draw(path) * (high - low + 1))
        case "number":
            low, high = schema.get("minimum", 0), schema.get("maximum", 1)
            return low + draw(path) * (high - low)
        case "boolean":
            return draw(path) < 0.5
    raise ValueError(f"a fake cannot generate a value of the schema {schema!r}")
