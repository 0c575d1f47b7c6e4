"""Arguments of metrics: declared by their constructors, and written as `NAME@VALUE` or `NAME@key=value,key=value`.

A text can hold several metrics. A comma separates metrics, except before `key=`, which continues the arguments, and in
a quoted value (a JSON string). `ccrs.ac@em_weight=0,udcg@gamma=0.5` is two metrics, `bertscore@roberta-large,layer=17`
is one.
"""

from __future__ import annotations

import difflib
import inspect
import json
import re
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Final, get_type_hints

from pydantic import Field, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError

from ragstone.errors import ConfigurationError

Cutoff = Annotated[int, Field(ge=1, le=10**9)]
Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
RatingThreshold = Annotated[float, Field(gt=0, le=5)]

_KEY: Final = re.compile(r"[^\W\d]\w*+\s*+=")
_SECRET: Final = re.compile(r"(?i)key|token(?!iz)|secret|password|credential")
"""Names of arguments that a name of a metric must not contain, because names are stored and printed."""
_KINDS: Final[Mapping[str, str]] = {
    "boolean": "true or false",
    "integer": "an integer",
    "number": "a number",
    "string": "a text",
}
_FILE: Final = "a file"
_LIMITS: Final = (
    ("minimum", "of at least"),
    ("exclusiveMinimum", "above"),
    ("maximum", "at most"),
    ("exclusiveMaximum", "below"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """An argument of a constructor that a text can state: a number, an integer, a truth value, a text or a path."""

    name: str
    rule: str
    """Allowed values, in words."""
    default: Any
    """Default, or `Argument` if the argument is required."""
    is_positional: bool
    """Whether a name states the argument without its key, if it is the first one."""
    choices: Mapping[str, Any]
    """Allowed values by text, if the rule lists them."""
    adapter: TypeAdapter[Any]
    kind: str
    allows_none: bool

    @property
    def placeholder(self) -> str:
        """The value in `NAME@VALUE`, for messages."""
        return "FILE" if self.rule == _FILE else self.name.upper()

    @property
    def is_required(self) -> bool:
        """Whether the argument does not have a default."""
        return self.default is Argument

    def __str__(self) -> str:
        default = "required" if self.is_required else f"default {_written(self.default, self)}"
        return f"{self.name} ({self.rule}, {default})"

    def check(self, value: Any) -> Any:
        """Check a value of Python."""
        return self.adapter.validate_python(value, strict=self.kind != "string")

    def parse(self, text: str) -> Any:
        """Parse a value in text, which may be quoted."""
        if text.startswith('"'):
            text = json.loads(text)
        elif self.allows_none and text.casefold() == "none":
            return None
        elif self.kind == "boolean" and text.casefold() == self.name:
            return True
        elif not text or (self.kind == "integer" and not text.removeprefix("-").isdecimal()):
            raise ValueError(text)
        if self.choices:
            chosen = [name for name in self.choices if name.casefold() == text.casefold()]
            return self.choices[text if text in self.choices else chosen[0] if chosen else ""]
        value = self.adapter.validate_python(text)
        return value + 0.0 if isinstance(value, float) else value  # zero does not have a sign


@cache
def arguments_of(make: Callable[..., Any]) -> tuple[Argument, ...]:
    """Return the arguments of a class or function that a text can state, in their order."""
    function = make.__init__ if isinstance(make, type) else make  # type: ignore[misc]
    if function is object.__init__:
        return ()
    parameters = [
        parameter
        for name, parameter in _signature(make).parameters.items()
        if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL) and not _SECRET.search(name)
    ]
    declared = (_declared(parameter, _hint(function, parameter)) for parameter in parameters)
    return tuple(argument for argument in declared if argument is not None)


def _signature(make: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a function, or of the `__init__` of a class: early versions of 3.11 read `__new__`."""
    if not isinstance(make, type):
        return inspect.signature(make)
    signature = inspect.signature(make.__init__)  # type: ignore[misc]
    return signature.replace(parameters=[*signature.parameters.values()][1:])


def _hint(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    if parameter.annotation is parameter.empty:
        return type(parameter.default)
    own = types.SimpleNamespace(__annotations__={"hint": parameter.annotation})
    names = getattr(inspect.unwrap(getattr(function, "__func__", function)), "__globals__", {})
    try:
        return get_type_hints(own, names, include_extras=True)["hint"]
    except Exception:  # noqa: BLE001  the annotation of another package can be any text
        return None


def _declared(parameter: inspect.Parameter, hint: Any) -> Argument | None:
    try:
        adapter = TypeAdapter(hint)
        schema = adapter.json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError):
        return None
    options = [option for option in schema.get("anyOf", [schema]) if option.get("type") != "null"]
    listed = [
        value for option in options for value in option.get("enum", [option["const"]] if "const" in option else [])
    ]
    kinds = {option.get("type") for option in options}
    formats = {option.get("format") for option in options} - {None, "path"}
    if len(kinds) != 1 or formats or any(option.get("writeOnly") for option in options):
        return None
    (kind,) = kinds
    if kind not in _KINDS:
        return None
    limits = [f"{words} {_number(options[0][key])}" for key, words in _LIMITS if key in options[0]]
    allows_none = len(options) < len(schema.get("anyOf", [schema]))
    rule = options[0].get("rule") or f"{_KINDS[kind]} {' and '.join(limits)}".rstrip()
    if any(option.get("format") for option in options):
        rule = _FILE
    return Argument(
        name=parameter.name,
        rule=("one of " + ", ".join(map(str, listed)) if listed else rule) + (", or none" if allows_none else ""),
        default=Argument if parameter.default is parameter.empty else parameter.default,
        is_positional=parameter.kind is parameter.POSITIONAL_OR_KEYWORD,
        choices={str(value): value for value in listed},
        adapter=adapter,
        kind=kind,
        allows_none=allows_none,
    )


def base_name(name: str) -> str:
    """Return the name of a metric without its arguments."""
    return name.partition("@")[0]


def read_values(make: type, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call that differ from their defaults, of those that a text can state.

    Raise ConfigurationError if a value does not follow the rule of its argument.
    """
    try:
        given = _signature(make).bind(*args, **kwargs).arguments
    except TypeError:  # the constructor reports it
        return {}
    values: dict[str, Any] = {}
    for argument in arguments_of(make):
        if argument.name in given:
            value = _checked(make.__name__, argument, argument.check, given[argument.name])
            if argument.is_required or value != argument.default:
                values[argument.name] = value
    return values


def parse_values(spec: str, text: str, arguments: Sequence[Argument]) -> dict[str, Any]:
    """Parse the text after the @ of a metric. A value without a key is that of the first argument.

    Raise ConfigurationError if the text has another form, an argument is unknown or repeated, or a value is invalid.
    """
    known = {argument.name: argument for argument in arguments}
    if not known:
        raise ConfigurationError(f"{spec} does not take arguments, got {spec}@{text}. Write {spec}")
    values: dict[str, Any] = {}
    for place, part in enumerate(map(str.strip, split_at_commas(text))):
        keyed = _KEY.match(part) is not None
        key, _, raw = part.partition("=") if keyed else (arguments[0].name, "", part)
        key = key.strip()
        if not keyed and place:
            raise ConfigurationError(
                f"{spec}@{text}: {part!r} must have a key ({', '.join(known)}), because only the first value can be "
                "without one. If it belongs to the value before, quote that value"
            )
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            raise ConfigurationError(
                f"{spec}@{text}: {key!r} is not an argument of {spec}."
                + (f" Did you mean {close[0]!r}?" if close else "")
                + f" Arguments: {', '.join(map(str, arguments))}. Quote a value with an equals sign"
            )
        if key in values:
            raise ConfigurationError(f"{spec}@{text}: {key!r} is given twice. Give each argument once")
        values[key] = _checked(spec, known[key], known[key].parse, raw.strip())
    return values


def _checked(name: str, argument: Argument, check: Callable[[Any], Any], value: Any) -> Any:
    try:
        return check(value)
    except (ValidationError, ValueError, KeyError):
        raise ConfigurationError(f"{argument.name} of {name} must be {argument.rule}, got {value!r}") from None


def suffix_of(values: Mapping[str, Any], make: type, *, without: Collection[str] = ()) -> str:
    """Return the canonical form of arguments: "@" and the arguments, or "" for none.

    The first argument stands first and without its key, if the constructor takes it by position. The others are sorted.
    """
    stated = _stated(values, make, without)
    parts = [f"{argument.name}={written}" for argument, written, _ in stated]
    if stated and stated[0][2]:
        argument, written, _ = stated[0]
        is_flag = argument.kind == "boolean" and values[argument.name]
        parts[0] = argument.name if is_flag else json.dumps(written) if _KEY.match(written) else written
    return f"@{','.join(parts)}" if parts else ""


def describe_values(values: Mapping[str, Any], make: type, *, without: Collection[str] = ()) -> str:
    """Return arguments in words for a title: "em_weight 0, threshold 2"."""
    return ", ".join(f"{argument.name} {written}" for argument, written, _ in _stated(values, make, without))


def _stated(values: Mapping[str, Any], make: type, without: Collection[str]) -> list[tuple[Argument, str, bool]]:
    """Return the stated arguments in canonical order, with their text and whether it stands without the key."""
    arguments = [argument for argument in arguments_of(make) if argument.name not in without]
    ordered = [*arguments[:1], *sorted(arguments[1:], key=lambda argument: argument.name)]
    return [
        (argument, _written(values[argument.name], argument), argument.is_positional and argument is arguments[0])
        for argument in ordered
        if argument.name in values
    ]


def _written(value: Any, argument: Argument) -> str:
    """Write a value so that `Argument.parse` returns it, and equal values are the same text."""
    if value is None or isinstance(value, bool):
        return str(value).casefold()
    if isinstance(value, int | float):
        return _number(value)
    return json.dumps(value) if argument.allows_none and value.casefold() == "none" else quote(str(value))


def quote(text: str) -> str:
    """Return a text as the value of an argument: as it is, or quoted if it could be read in another way."""
    is_plain = text and text.isprintable() and text == text.strip() and not {'"', ","} & set(text)
    return text if is_plain else json.dumps(text)


def _number(value: float) -> str:
    """Write a number as the shortest text with this value. Zero does not have a sign."""
    return repr(value + 0).removesuffix(".0")


def split_at_commas(text: str) -> list[str]:
    """Split a text at its commas, except those in quoted values, which begin after a comma, an @ or an equals sign.

    Raise ConfigurationError if a quote is not closed.
    """
    parts, start, place, before, quoted = [], 0, 0, ",", False
    while place < len(text):
        letter = text[place]
        if quoted and letter == "\\":
            place += 1
        elif letter == '"' and (quoted or before in ",@="):
            quoted = not quoted
        elif letter == "," and not quoted:
            parts.append(text[start:place])
            start = place + 1
        before = before if letter.isspace() else letter
        place += 1
    if quoted:
        raise ConfigurationError(f'the quoted value in {text!r} does not end. Close it with a quote (")')
    return [*parts, text[start:]]


def split_metrics(text: str) -> list[str]:
    """Split a text into metrics. A part that begins with `key=` continues the arguments of the metric before.

    Raise ConfigurationError if arguments follow a metric without an @, or a quote is not closed.
    """
    specs: list[str] = []
    for part in filter(None, map(str.strip, split_at_commas(text))):
        if not specs or not _KEY.match(part):
            specs.append(part)
        elif "@" in specs[-1]:
            specs[-1] += f",{part}"
        else:
            raise ConfigurationError(f"arguments follow an @. Write {specs[-1]}@{part} instead of {specs[-1]},{part}")
    return specs
