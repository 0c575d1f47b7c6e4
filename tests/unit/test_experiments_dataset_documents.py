"""What a data set is made from: documents, spans, questions, and the journal of answers."""

from __future__ import annotations

import resource

import pytest

from ragstone.errors import ConfigurationError, DataError, StoreError
from ragstone_lab._dataset.documents import Document, SpanIndex, read_documents, sections_of, spans_of
from ragstone_lab._dataset.prompts import distinct_questions
from ragstone_lab._journal import Journal

HARBOUR = "The lighthouse of Northport was built in 1884. It is 31 metres tall.\n\nFerries leave at seven and at noon."
MARKET = "The market of Northport is held on Fridays. It sells fish and bread."


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with two documents, and the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "harbour.md").write_text(HARBOUR)
    (tmp_path / "docs" / "market.txt").write_text(MARKET)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.txt", b"abc\0def", "NUL bytes"),
        ("a.txt", "Straße".encode("latin-1"), "not UTF-8"),
        ("a.txt", b" \n ", "is empty"),
        ("a.txt", b"x" * 101, "101 bytes"),
        ("a.pdf", b"%PDF", "unknown type"),
        ("a.jsonl", b"{", "line 1 of .* is not valid JSON"),
        ("a.jsonl", b'["text"]', "must be an object"),
        ("a.jsonl", b'{"id": 1, "text": "x"}\n{"id": 1, "text": "y"}', "two documents"),
        ("a.jsonl", b'{"id": 1, "text": "x", "documents": "y"}', "list of names"),
    ],
)
def test_documents_that_cannot_be_read(tmp_path, name, data, message):
    """What was named is an error; in a folder it is left out, and nothing readable is left."""
    (tmp_path / name).write_bytes(data)
    with pytest.raises((DataError, ConfigurationError), match=message):
        read_documents([tmp_path / name], max_bytes=100)
    with pytest.raises(ConfigurationError, match="no document in"):
        read_documents([tmp_path], max_bytes=100)


def test_a_folder_leaves_out_what_it_cannot_read_and_what_is_hidden(tmp_path):
    """The first is told, the second and links that lead away are skipped."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "secret.txt").write_text("not yours")
    (tmp_path / "docs" / "good.md").write_text("words")
    (tmp_path / "docs" / "bad.md").write_bytes(b"\xff")
    (tmp_path / "docs" / ".hidden.md").write_text("hidden")
    (tmp_path / "docs" / "away.txt").symlink_to(tmp_path / "secret.txt")
    library = read_documents([tmp_path / "docs"])
    assert ["words"] == [document.text for document in library.documents]
    assert 1 == len(library.left_out)
    assert "bad.md" in library.left_out[0]


def test_spans_end_with_sentences_and_are_cut_where_there_is_none():
    """About 200 words; a text without an end is cut at 2000 characters."""
    spans = spans_of(Document(name="d", text="One two three four. " * 200))
    assert {"."} == {span.text[-1] for span in spans}
    assert all(150 <= len(span.text.split()) <= 200 for span in spans)
    wall = spans_of(Document(name="d", text="x" * 5000), words=1)
    assert [2000, 2000, 1000] == [len(span.text) for span in wall]


def test_a_text_without_spaces_makes_no_prompt_without_end():
    """It is measured by its characters: sections stay as short as those of other texts."""
    spans = spans_of(Document(name="d", text="x" * 200_000))
    assert max(len(span.text) for span in spans) <= 4000
    assert all(sum(len(span.text) for span in section) <= 16_000 for section in sections_of(spans))


def test_a_quotation_mark_stays_with_its_sentence():
    """It is behind the full stop, and belongs to what was said."""
    spans = spans_of(Document(name="d", text='"Go home." They went.'), words=2)
    assert ['"Go home."', "They went."] == [span.text for span in spans]


def test_the_nearest_passages_share_rare_words():
    """Own ones first, then by words in common; without one a span is not in the pool."""
    texts = ["common words here", "common lighthouse", "common words there", "nothing"]
    spans = [spans_of(Document(name=f"d{i}", text=text))[0] for i, text in enumerate(texts)]
    index = SpanIndex(spans)
    found = index.most_similar("the common lighthouse words", 3, own=[spans[3]])
    assert ["d3", "d1", "d0"] == [span.document for span in found]
    assert not index.most_similar("quite other", 9)


def test_a_byte_order_mark_is_no_text(tmp_path):
    """Offsets begin behind it."""
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfWords.")
    assert "Words." == read_documents([tmp_path]).documents[0].text


@pytest.mark.parametrize(
    ("questions", "expected"),
    [
        (["Who came?", "who  came", " WHO came? "], 1),
        (["What happened in 2019?", "What happened in 2020?"], 2),
        (["What was the revenue of the northern branch in winter?", "What was the revenue of the southern branch in winter?"], 2),
        ([f"{' '.join(f'word{chr(c)}' for c in range(97, 120))} in {year}?" for year in (2019, 2020)], 2),
        (["?", " "], 0),
    ],
)  # fmt: skip
def test_questions_that_repeat_each_other_are_one(questions, expected):
    """Case, spaces and punctuation make no other question; a number or a name does."""
    assert expected == len(distinct_questions(questions))


def test_a_journal_knows_what_it_was_told(tmp_path):
    """At once, and after it was opened again; a plan is kept where it differs."""
    with Journal(tmp_path / "j.jsonl") as journal:
        journal.append("a", [1])
        journal.record_run({"judge": "x"})
        journal.record_run({"judge": "x"})
        assert "a" in journal.answers
        assert [1] == journal.answers["a"]
    assert 2 == len((tmp_path / "j.jsonl").read_text().splitlines())
    with Journal(tmp_path / "j.jsonl") as journal:
        assert ([1], {"judge": "x"}) == (journal.answers["a"], journal.plan)
        assert "b" not in journal.answers


def test_a_full_disk_leaves_no_half_line(tmp_path):
    """What could not be written whole is taken back, so that the journal stays readable."""
    path = tmp_path / "j.jsonl"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Journal(path) as journal:
        journal.append("a", 1)
        size = path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 5, limits[1]))
        try:
            with pytest.raises(StoreError, match="cannot be read or written: File too large"):
                journal.append("b", 2)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert size == path.stat().st_size
        journal.append("c", 3)
    with Journal(tmp_path / "j.jsonl") as journal:
        assert ["a", "c"] == [key for key in "abc" if key in journal.answers]
