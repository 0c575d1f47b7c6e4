"""The base of all settings: keys, the sentences for their rules, and how texts and values are read and shown."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Final, Literal, NoReturn, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError
from typing_extensions import override

HIDDEN: Final = "(hidden)"
_SECRET_NAME: Final = re.compile(r"key|token|secret|password|auth|cookie|credential", re.IGNORECASE)


def _as_tuple(value: object) -> object:
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(_as_tuple)]
"""A list of texts, of which one can be written as a text."""


class Settings(BaseModel):
    """Settings of one subject: a table of the configuration. Secrets are not in its representation."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
        protected_namespaces=(),
    )
    main: ClassVar[str | None] = None
    """The key that the name of the table sets: `judge = "URL"` is `[judge] url = "URL"`."""
    is_open: ClassVar[bool] = False
    """Whether the table in a file has names of the user's. Then the whole table is the value of the key `main`."""

    @property
    def stated(self) -> dict[str, Any]:
        """The values that a source states. Defaults are left out."""
        return {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}

    @override
    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name in self.stated:
            yield name, show(type(self).model_fields[name], getattr(self, name))


def key(
    default: Any, description: str, *, rule: str | None = None, secret: bool = False, shown: bool = True, **limits: Any
) -> Any:
    """Declare a key. The description omits the default, and `rule` says what a value must be if the type does not.

    A `secret` value is not shown and not stored. `shown` is False for a value that is not secret, but may be one by
    mistake: it is not in messages. `limits` are `gt`, `ge`, `lt` and `le`.
    """
    extra: dict[str, Any] = {"rule": rule, "secret": secret, "shown": shown}
    return Field(default, description=description, json_schema_extra=extra, **limits)


def raise_rule(sentence: str) -> NoReturn:
    """Raise the error of a validator with a sentence of its own."""
    raise PydanticCustomError("settings", "{sentence}", {"sentence": sentence})


def extra_of(field: FieldInfo) -> Mapping[str, Any]:
    """Return what `key` says about a field."""
    extra = field.json_schema_extra
    return extra if isinstance(extra, Mapping) else {}


def kind_of(annotation: Any) -> Any:
    """Return a type without None and without annotations."""
    if get_origin(annotation) is Annotated:
        return kind_of(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
        return kind_of(kinds[0]) if len(kinds) == 1 else Any
    return annotation


def rule_of(field: FieldInfo) -> str:
    """Return what a value of a key must be, such as "an integer of at least 0"."""
    kind = kind_of(field.annotation)
    if rule := extra_of(field).get("rule"):
        return str(rule)
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(repr, get_args(kind)))}"
    if kind in (int, float):
        return f"{'an integer' if kind is int else 'a number'}{_bounds(field.metadata)}"
    names = {bool: "true or false", str: "a text", tuple: "a text or a list of texts"}
    return names.get(get_origin(kind) or kind, "a table")


def _bounds(metadata: Iterable[Any]) -> str:
    limits = {
        name: value
        for item in metadata
        for name in ("gt", "ge", "le")
        if (value := getattr(item, name, None)) is not None
    }
    if limits.keys() == {"ge", "le"}:
        return f" from {limits['ge']:g} to {limits['le']:g}"
    words = {"gt": " above {:g}", "ge": " of at least {:g}", "le": " and at most {:g}"}
    return "".join(words[name].format(value) for name, value in limits.items())


def parse(field: FieldInfo, text: str) -> Any:
    """Return the value that a text of an environment variable or an option stands for, or the text if it is not one."""
    kind, text = kind_of(field.annotation), text.strip()
    origin = get_origin(kind)
    try:
        if kind is bool:
            return {"true": True, "false": False}.get(text.lower(), text)
        if kind in (int, float):
            return kind(text)
        if text.startswith(("{", "[")) and kind is not str:
            return _parse_structure(text)
        if origin is tuple:
            parts = [part.strip() for part in text.split(",") if part.strip()]
            return [float(part) for part in parts] if kind_of(get_args(kind)[0]) is float else parts
    except (ValueError, RecursionError):
        return text
    return text


def _parse_structure(text: str) -> Any:
    """Read a list or a table that is written as JSON or as TOML."""
    try:
        return json.loads(text)
    except ValueError:
        return tomllib.loads(f"value = {text}")["value"]


def show(field: FieldInfo, value: object) -> str:
    """Return a value as a user may see it. Secrets are hidden, and URLs do not have credentials and a query."""
    is_secret = bool(extra_of(field).get("secret"))
    if value is None or value in ((), {}):
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={HIDDEN if is_secret else part}" for name, part in value.items())
    if isinstance(value, tuple | list):
        return ", ".join(_show_text(str(part), is_secret="://" in str(part) and is_secret) for part in value)
    return f"{value:g}" if isinstance(value, float) else _show_text(str(value), is_secret=is_secret)


def _show_text(text: str, *, is_secret: bool) -> str:
    if is_secret:
        scheme, separator, _ = text.rpartition("://")
        return f"{scheme}{separator}{HIDDEN}"
    return public_name(text) if may_hold_secret(text) else text


def may_hold_secret(text: str) -> bool:
    """Return whether a text contains a URL with a query, or credentials."""
    return ("@" in text and ":" in text.partition("@")[0]) or ("://" in text and "?" in text)


def public_name(spec: str) -> str:
    """Return the name of a model or URLs of endpoints, of any form, without what may be a secret."""
    # A password may contain a comma.
    return ",".join(map(_public_part, re.split(r",(?=\s*\w+://)", spec)))


def _public_part(spec: str) -> str:
    before, _, rest = spec.rpartition("@")
    scheme, separator, _ = before.partition("://")
    return (f"{scheme}{separator}{rest}" if separator else rest).partition("?")[0]


def find_secrets(name: str, value: object) -> Iterator[str]:
    """Yield the keys ("judge.headers") whose value is a secret text: a key, a header for one, a URL with a password."""
    if isinstance(value, Mapping):
        for part, content in value.items():
            if isinstance(content, str) and _SECRET_NAME.search(str(part)):
                yield f"{name}.{part}"
            elif not (isinstance(content, Mapping) and content.keys() == {"env"}):
                yield from find_secrets(f"{name}.{part}", content)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from find_secrets(name, part)
    elif isinstance(value, str) and (name.endswith(".api_key") or has_password(value)):
        yield name


def has_password(text: str) -> bool:
    """Return whether a text contains a URL with a user and a password."""
    authorities = [rest.partition("/")[0] for rest in text.split("://")[1:]]
    return any(":" in authority.rpartition("@")[0] for authority in authorities)
