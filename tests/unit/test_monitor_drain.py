"""`Monitor.drain` while somebody else has the store."""

from __future__ import annotations

from ragstone.monitor import Monitor


def test_a_store_that_is_being_set_up_is_waited_for(tmp_path):
    """For a moment the file exists and is empty; that is neither an error nor the end of the waiting."""
    (tmp_path / "s.db").touch()
    with Monitor(judge="lexical", store=tmp_path / "s.db", role="capture") as monitor:
        assert monitor.drain(0.1) is False
