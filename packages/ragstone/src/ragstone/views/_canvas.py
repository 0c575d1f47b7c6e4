"""Lines of styled text that fit a terminal."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from ragstone._util.ascii import to_ascii, without_controls

if TYPE_CHECKING:
    from rich.text import Text

_MAX_WIDTH: Final = 100


class Canvas:
    """Lines of styled text of a limited width."""

    def __init__(self, width: int, *, ascii_only: bool) -> None:
        self.width = min(width, _MAX_WIDTH)
        self.ascii_only = ascii_only
        self.lines: list[Text] = []

    def add(self, *parts: str | tuple[str, str]) -> None:
        """Add a line of texts and (text, style) pairs."""
        from rich.text import Text

        pairs = ((part, "") if isinstance(part, str) else part for part in parts)
        line = Text.assemble(*((self._clean(text), style) for text, style in pairs))
        line.rstrip()
        self.lines.append(line)

    def heading(self, title: str, about: str = "") -> None:
        """Add an empty line, and the title of a part."""
        self.add()
        self.add((title, "bold"), (about, "dim"))

    def wrap(
        self, text: str, style: str = "", *, indent: int = 0, hanging: int = 0, max_lines: int | None = None
    ) -> None:
        """Add a paragraph, broken between words, and in words that are longer than a line."""
        width = max(self.width - indent - hanging, 20)
        cells = wrap_cells(" ".join(self._clean(text).split()), width)
        if max_lines is not None and len(cells) > max_lines:
            cells = [*cells[: max_lines - 1], _cut(cells[max_lines - 1] + self.more, width, self.more)]
        for n, line in enumerate(cells):
            self.add(" " * (indent + (hanging if n else 0)), (line, style))

    def cut(self, text: str, width: int) -> str:
        """Return a text as one line of at most `width` columns."""
        # No need to look at all of a long text.
        return _cut(" ".join(self._clean(text[: 20 * width]).split()), width, self.more)

    @property
    def more(self) -> str:
        """The mark of a text that was cut."""
        return "..." if self.ascii_only else "…"

    def _clean(self, text: str) -> str:
        """Remove control characters, and in ASCII mode everything else that is not ASCII."""
        shown = without_controls(text)
        return to_ascii(shown) if self.ascii_only else shown


def wrap_cells(text: str, width: int) -> list[str]:
    """Wrap a text by terminal columns, of which some characters take two."""
    if text.isascii():
        return textwrap.wrap(text, width) or [""]
    from rich.cells import cell_len, chop_cells

    lines: list[str] = []
    used = width
    for word in text.split(" "):
        size = cell_len(word)
        if used + 1 + size <= width:
            lines[-1] += f" {word}"
            used += 1 + size
        else:
            lines += chop_cells(word, width) if size > width else [word]
            used = cell_len(lines[-1])
    return lines


def _cut(text: str, width: int, more: str) -> str:
    from rich.cells import cell_len

    if cell_len(text) <= width:
        return text
    text = text.removesuffix(more)
    while text and cell_len(text + more) > width:
        text = text[:-1]
    return text + more


def pad(text: str, width: int) -> str:
    from rich.cells import cell_len

    return text + " " * (width - cell_len(text))
