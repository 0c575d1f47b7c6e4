"""Documents in the text that Python wrote of them."""

from __future__ import annotations

import warnings

import pytest

from ragstone.requests._python_text import read_python_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Document(metadata={}, page_content='a')", {"metadata": {}, "page_content": "a"}),
        ("[(Document(page_content='a'), 0.5)]", [[{"page_content": "a"}, 0.5]]),
        ("{'docs': [Document(page_content='a')]}", {"docs": [{"page_content": "a"}]}),
        (r"""[Document(page_content="It's\n<b>\xa0\\d</b>")]""", [{"page_content": "It's\n<b>\xa0\\d</b>"}]),
        ("page_content='It's\n\"a\"'", {"page_content": 'It\'s\n"a"'}),
        ("page_content='a' metadata={'n': -1}", {"page_content": "a", "metadata": {"n": -1}}),
    ],
)
def test_documents_are_read(text: str, expected: object) -> None:
    """Documents alone, with scores, in a mapping, with escapes, and as `str` writes a single one."""
    assert read_python_text(text) == expected


def test_value_that_is_not_a_literal_is_its_text() -> None:
    """Metadata can contain dates, enumerations and objects of any library. The text is read nevertheless."""
    at = "datetime.date(2024, 1, 2)"
    for kind in ("<Kind.A: 'a'>", "<object object at 0x7f>"):
        read = read_python_text(f"[Document(metadata={{'at': {at}, 'kind': {kind}}}, page_content='a')]")
        assert read == [{"metadata": {"at": at, "kind": kind}, "page_content": "a"}]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Documents are here.",
        "[1, 2]",
        "[Document(page_content='a'",
        "[" * 5000 + "Document()" + "]" * 5000,
        r"[Document(page_content='\d')]",
        "[Document(page_content='\ud800')]",
        "page_content='a",
        "page_content='a' metadata={'n': }",
        "[Document(page_content='" + "a" * 300_000 + "')]",
    ],
)
def test_other_texts_are_errors(text: str) -> None:
    """A text that is no document, or is cut, or too long, is a ValueError, without a warning of Python's parser."""
    with warnings.catch_warnings(record=True) as shown, pytest.raises(ValueError, match=r"."):
        warnings.simplefilter("always")
        read_python_text(text)
    assert not shown


def test_code_in_the_text_does_not_run() -> None:
    """The text comes from the application's data: it is parsed, never evaluated."""
    assert read_python_text("[Document(page_content=1 / 0)]") == [{"page_content": "1 / 0"}]
