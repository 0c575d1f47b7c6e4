"""Documents of LangChain in a tool's text result that is `str(documents)`."""

from __future__ import annotations

import ast
import re
from typing import Any, Final

_MAX_CHARS: Final = 300_000
"""Characters that are parsed: at most half a second, if they are nothing but numbers."""
_STR_BEGIN: Final = "page_content='"
_STR_METADATA: Final = "' metadata={"
_OBJECT: Final = re.compile(
    r"""('[^'\\]*(?:\\.[^'\\]*)*(?:'|\\?\Z)|"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z))|<[^<>]*>""", re.DOTALL
)
"""A string literal, or an object such as `<Color.RED: 'r'>` that is not written as Python."""

_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = frozenset("\\'\"nrtxuU")
"""What Python writes after a backslash. The parser would print a warning about another one."""


def read_python_text(text: str) -> Any:
    """Read what Python wrote of documents, without evaluating it: agents give the model such texts of a tool's result.

    Returns:
        Documents as mappings, in the lists and mappings around them. A value in a document's metadata that is not a
        literal is its text.

    Examples:
        >>> read_python_text("[Document(id='7', metadata={'page': 2}, page_content='It is 8 m.')]")
        [{'id': '7', 'metadata': {'page': 2}, 'page_content': 'It is 8 m.'}]
        >>> read_python_text("page_content='It's 8 m.' metadata={'page': 2}")
        {'page_content': "It's 8 m.", 'metadata': {'page': 2}}
    """
    if text.startswith(_STR_BEGIN):
        return _read_str(text[len(_STR_BEGIN) :])
    if not text.startswith(("[", "(", "{", "Document(")) or "Document(" not in text:
        raise ValueError("no document")
    return _plain(_parsed(text))


def _read_str(text: str) -> dict[str, Any]:
    """Read `str(document)` after its beginning, which does not escape the text and does not contain the id."""
    body, mark, metadata = text.rpartition(_STR_METADATA)
    if mark:
        return {"page_content": body, "metadata": _plain(_parsed("{" + metadata))}
    if not text.endswith("'"):
        raise ValueError("no document")
    return {"page_content": text[:-1]}


def _parsed(text: str) -> ast.expr:
    if len(text) > _MAX_CHARS or not _ESCAPES.issuperset(_ESCAPED.findall(text)):
        raise ValueError("too long, or not Python")
    written = _OBJECT.sub(lambda found: found[1] or repr(found[0]), text)
    try:
        return ast.parse(written, mode="eval").body
    except (SyntaxError, MemoryError) as error:  # the second one if it is nested too deeply
        raise ValueError("not Python") from error


def _plain(node: ast.expr) -> Any:
    if isinstance(node, ast.List | ast.Tuple):
        return [_plain(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        items = zip(node.keys, node.values, strict=True)
        return {_plain(key): _plain(value) for key, value in items if isinstance(key, ast.Constant)}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Document":
        return {keyword.arg: _plain(keyword.value) for keyword in node.keywords if keyword.arg}
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return ast.unparse(node)
