"""`sink_from`: from what a user writes to a sink."""

from __future__ import annotations

import importlib.metadata
import sys

import pytest

from ragstone.errors import ConfigurationError, MissingExtraError
from ragstone.sinks import JsonlSink, OtlpSink, sink_from


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch):
    for signal in ("", "LOGS_"):
        for name in ("ENDPOINT", "PROTOCOL"):
            monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_{signal}{name}", raising=False)


def test_jsonl(tmp_path):
    """The part after the first colon is the path, later colons included."""
    sink = sink_from(f"jsonl:{tmp_path}/a:b.jsonl")
    assert isinstance(sink, JsonlSink)
    assert sink.name == f"jsonl:{tmp_path}/a:b.jsonl"


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("otlp", "otlp:localhost:4318"),
        ("otlp:http://collector:4318", "otlp:collector:4318"),
        ("otlp:https://user:hunter2@collector/x?key=hunter2", "otlp:collector:443"),
        ("otlp:http://[::1]:4318/v1/logs", "otlp:[::1]:4318"),
    ],
)
def test_otlp(spec, name):
    """The endpoint is the argument; the name has host and port and no credentials."""
    sink = sink_from(spec)
    assert isinstance(sink, OtlpSink)
    assert sink.name == name


def test_a_sink_is_returned_as_it_is(tmp_path):
    """An object with the Protocol's members needs no specification."""
    sink = JsonlSink(tmp_path / "out.jsonl")
    assert sink_from(sink) is sink


def test_an_unknown_name_lists_the_known(tmp_path):
    """The message names what there is, and not the argument, which may be secret."""
    with pytest.raises(ConfigurationError, match=r"'splunk'.*jsonl, .*otlp, ") as caught:
        sink_from("splunk:https://token@host")
    assert "token" not in str(caught.value)


@pytest.mark.parametrize("spec", ["jsonl", "jsonl:"])
def test_jsonl_needs_a_path(spec):
    """Without a path the message says how to write it."""
    with pytest.raises(ConfigurationError, match="'jsonl:PATH'"):
        sink_from(spec)


@pytest.mark.parametrize("url", ["collector:4318", "ftp://collector", "http://", "http://host:port"])
def test_an_endpoint_that_is_no_url(url):
    """What cannot be an OTLP/HTTP endpoint is refused at once."""
    with pytest.raises(ConfigurationError, match="'http://host:4318'"):
        sink_from(f"otlp:{url}")


def test_grpc_in_the_environment(monkeypatch):
    """An environment made for gRPC would send us to the wrong port; an explicit endpoint overrules it."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with pytest.raises(ConfigurationError, match="grpc"):
        sink_from("otlp")
    assert sink_from("otlp:http://collector:4318").name == "otlp:collector:4318"


def test_a_missing_extra_has_its_install_line(monkeypatch):
    """Without the exporter the message says what to install."""
    monkeypatch.delitem(sys.modules, "ragstone.sinks._otlp_channel", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http._log_exporter", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'ragstone\[otlp\]'"):
        sink_from("otlp")


@pytest.mark.parametrize("thing", [None, 3, print])
def test_something_else_is_refused(thing):
    """Neither a specification nor a sink."""
    with pytest.raises(ConfigurationError, match="must be a sink"):
        sink_from(thing)


def test_entry_points_of_others_are_found(monkeypatch):
    """A package of someone else adds a destination, and what it makes is checked."""
    entries = importlib.metadata.EntryPoints(
        [importlib.metadata.EntryPoint(name="mine", value="builtins:str", group="ragstone.sinks")]
    )
    monkeypatch.setattr("ragstone.sinks._protocol.entry_points", lambda group: entries.select(group=group))
    with pytest.raises(ConfigurationError, match=r"entry point 'mine'.*got 'hello'"):
        sink_from("mine:hello")
