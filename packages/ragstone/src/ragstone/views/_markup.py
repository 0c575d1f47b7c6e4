"""Elements of HTML and SVG as text. Every text and attribute value is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

_VOID: Final = frozenset({"meta", "br", "hr", "wbr", "input"})
_SHAPES: Final = frozenset({"line", "rect", "circle", "path"})


class Markup(str):
    """Text that is markup already. Any other text is escaped."""

    __slots__ = ()


def tag(name: str, /, *children: str | None, **attributes: str | float | None) -> Markup:
    """Make an element of texts, which are escaped, and `Markup`. None is left out.

    `_` at the end of an attribute's name is removed, other `_` become `-`. None and False are left out.

    Examples:
        >>> tag("p", "a < b", class_="note")
        '<p class="note">a &lt; b</p>'
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    if name in _SHAPES:
        return Markup(f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{join(*children)}</{name}>")


def join(*parts: str | None) -> Markup:
    """Join texts, which are escaped, and markup."""
    return Markup("".join(part if isinstance(part, Markup) else escape(_clean(part)) for part in parts if part))


def section(title: str, *content: str | None, lead: str | None = None, **attributes: str | float | None) -> Markup:
    """Make a section of a page: its title, a sentence about what it shows, and the content."""
    sentence = tag("p", lead, class_="lead") if lead else None
    return tag("section", tag("h2", title), sentence, *content, **attributes)


def table(names: Iterable[str], rows: Iterable[str], *, class_: str | None = None) -> Markup:
    """Make a table with names of columns."""
    head = tag("tr", *(tag("th", name, scope="col") for name in names))
    return tag("table", tag("thead", head), tag("tbody", *rows), class_=class_)


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:  # an attribute without a value, such as hidden
        return f" {name}"
    text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return f' {name}="{escape(_clean(text))}"'


def _clean(text: str) -> str:
    """Replace what HTML cannot contain: control characters other than white space, and lone surrogates."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\ufffd" if "\ud800" <= c <= "\udfff" else " " for c in text
    )
