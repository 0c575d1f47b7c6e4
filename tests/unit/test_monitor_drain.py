"""`Monitor.drain` while there is no store to look at yet."""

from __future__ import annotations

from ragstone.monitor import Monitor
from ragstone.requests import TraceDraft


def test_a_store_that_nobody_has_made_is_waited_for(tmp_path):
    """Before the owner has made its file there is nothing to read; that is no error."""
    with Monitor(judge="lexical", store=tmp_path / "s.db", scoring="none") as monitor:
        assert monitor.flush(60)
        assert monitor.drain(0.2) is False


def test_a_store_that_is_being_set_up_is_waited_for(tmp_path):
    """For a moment the file exists and is empty; what was captured is pending all the same."""
    (tmp_path / "s.db").touch()
    with Monitor(judge="lexical", store=tmp_path / "s.db", scoring="none") as monitor:
        assert monitor.record(TraceDraft(query="why?", response="so."))
        assert monitor.flush(60)
        assert monitor.drain(0.2) is False
