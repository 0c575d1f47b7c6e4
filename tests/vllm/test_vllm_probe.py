"""What the probe finds out about a real vLLM server, and what the doctor says of it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest

from ragstone.judges import OpenAICompatibleModel

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def found(reader_url):
    """The server's capabilities, measured on a server that no one else uses."""
    return asyncio.run(OpenAICompatibleModel(reader_url).capabilities(fresh=True))


def test_the_exact_route(found):
    """Token-id prompts work, any token can be asked for, and the reader's estimator follows."""
    assert ("chain", "exact_sequence") == (found.exact_route, found.estimator)
    assert found.asked_tokens >= 100
    assert found.boundary_clean


def test_log_probabilities(found):
    """Twenty alternatives, and no temperature in them."""
    assert 20 == found.top_logprobs
    assert found.logprobs_raw


def test_replies(found):
    """Constraints are obeyed, several replies come in one request, nothing is reasoned first."""
    assert "regex" in found.structured
    assert found.several_replies
    assert not found.reasons
    assert () == found.refused_parameters


def test_facts(found):
    """What the server says of itself."""
    assert ("tiny-reader", 2048) == (found.model, found.context_length)
    assert "0.32" in found.server


def test_doctor_shows_what_a_reader_can_and_that_it_is_no_judge(reader_url):
    """`ragstone doctor` prints the same for people and as JSON. A model that was trained to read does not judge better than chance."""
    command = [
        sys.executable,
        "-c",
        "from ragstone.cli import main; main()",
        "doctor",
        "--judge",
        reader_url,
        "--reader",
        reader_url,
    ]
    for extra in ([], ["--json"]):
        ended = subprocess.run([*command, *extra], capture_output=True, text=True, check=False, timeout=300)
        assert 3 == ended.returncode, ended.stdout + ended.stderr
        assert "chain" in ended.stdout
        if extra:
            judge, reader = json.loads(ended.stdout)["endpoints"]
            assert (False, False) == (judge["items"]["usable"], "items" in reader)
        else:
            assert 1 == ended.stdout.count("not better than chance")
