"""`read_traces` reads every recording as `ragstone replay` does."""

from __future__ import annotations

from pathlib import Path

import pytest

import ragstone
from ragstone.errors import DataError
from ragstone.replay import plan_replay

RECORDINGS = Path(__file__).parent / "data"


@pytest.mark.parametrize("recording", sorted(RECORDINGS.iterdir()), ids=lambda path: path.name)
def test_each_recording_is_read_as_replay_reads_it(recording):
    """The traces of every format that the tests have a recording of, with and without the name of the format."""
    try:
        plan = plan_replay([str(recording)], "text", max_rehearsed=1)
    except DataError as error:
        refused = str(error)
        plan = None
    if plan is None:
        with pytest.raises(DataError) as also:
            list(ragstone.read_traces([str(recording)]))
        assert refused == str(also.value)
        return
    rejected = []
    traces = list(ragstone.read_traces(str(recording), on_rejected=rejected.append))

    assert (plan.n_traces, sum(file.n_rejected for file in plan.files) + len(plan.skipped)) == (
        len(traces),
        len(rejected),
    )
    named = list(ragstone.read_traces([str(recording)], plan.files[0].format, on_rejected=rejected.append))
    assert [trace.trace_id for trace in traces] == [trace.trace_id for trace in named]
