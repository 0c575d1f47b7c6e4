"""App, release, environment and tags: from the monitor, from variables, from OpenTelemetry; to the store and its readers."""

from __future__ import annotations

import pytest

from ragstone import Monitor
from ragstone.capture import Application, Converter
from ragstone.errors import ConfigurationError
from ragstone.requests import TraceDraft, link_span
from ragstone.schema import spool_entry_adapter
from ragstone.settings import Lengths
from ragstone.store import open_store

VARIABLES = (
    "RAGSTONE_APP", "RAGSTONE_APP_RELEASE", "RAGSTONE_APP_ENVIRONMENT", "RAGSTONE_APP_TAGS", "OTEL_SERVICE_NAME",
    "OTEL_RESOURCE_ATTRIBUTES",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def captured(draft: TraceDraft, application: Application):
    """What is stored of a draft."""
    converter = Converter(sample_rate=1.0, redact=None, lengths=Lengths(), application=application)
    return spool_entry_adapter.validate_json(converter.line(draft)[1]).trace


def labels(trace) -> tuple[str | None, str | None, str | None]:
    return trace.app, trace.release, trace.environment


class TestPrecedence:
    """A stated value, then the request's own, then OpenTelemetry's variables."""

    def test_a_stated_value_applies_to_every_request(self, monkeypatch):
        """An argument of the monitor wins over the span and over variables."""
        monkeypatch.setenv("RAGSTONE_APP", "variable")
        draft = TraceDraft(app="span", release="1", environment="a")

        trace = captured(draft, Application.from_settings(app="bot", release="2", environment="b"))

        assert ("bot", "2", "b") == labels(trace)

    def test_variables_state_what_arguments_do_not(self, monkeypatch, tmp_path):
        """An empty variable states nothing; tags are separated by commas."""
        monkeypatch.setenv("RAGSTONE_APP", "variable")
        monkeypatch.setenv("RAGSTONE_APP_ENVIRONMENT", "")
        monkeypatch.setenv("RAGSTONE_APP_TAGS", "beta, , eu")

        stated = {}
        monkeypatch.setattr(Application, "from_settings", lambda **values: stated.update(values) or Application())
        Monitor(store=tmp_path / "a.db", release="2").close()

        assert {"app": "variable", "release": "2", "environment": None, "tags": ("beta", "eu")} == stated

    def test_a_span_is_preferred_to_opentelemetry_s_variables(self, monkeypatch):
        """One process can run several tracer providers; values in variables are percent-encoded."""
        monkeypatch.setenv("OTEL_SERVICE_NAME", "process")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.version=1.0,deployment.environment.name=pre%2Dprod,x")
        application = Application.from_settings()

        assert ("process", "1.0", "pre-prod") == labels(captured(TraceDraft(), application))
        assert ("span", "3", "pre-prod") == labels(captured(TraceDraft(app="span", release="3"), application))

    def test_a_name_that_the_sdk_invented_is_no_name(self, monkeypatch):
        """`unknown_service:python` would join all unnamed services."""
        monkeypatch.setenv("OTEL_SERVICE_NAME", "unknown_service:python")

        assert (None, None, None) == labels(captured(TraceDraft(), Application.from_settings()))

    def test_the_resource_of_the_current_span_names_the_application(self):
        """Read from a real tracer provider, without replacing what the draft has."""
        resources = pytest.importorskip("opentelemetry.sdk.resources")
        trace = pytest.importorskip("opentelemetry.sdk.trace")
        resource = resources.Resource({"service.name": "bot", "service.version": "9", "deployment.environment": "eu"})
        draft = TraceDraft(release="own")

        with trace.TracerProvider(resource=resource).get_tracer("t").start_as_current_span("s") as span:
            link_span(draft, span)

        assert ("bot", "own", "eu") == (draft.app, draft.release, draft.environment)


def test_tags_of_the_application_come_first_and_once():
    """Tags of the monitor and of the request are one list."""
    trace = captured(TraceDraft(tags=["eu", "vip"]), Application.from_settings(tags=["beta", "eu", "beta"]))

    assert ("beta", "eu", "vip") == trace.tags


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"app": ""}, "app.name must be a text of 1 to 200 characters"),
        ({"app": 7}, "app.name must be .* got 7"),
        ({"release": "x" * 201}, "app.release must be"),
        ({"environment": "  "}, "app.environment must be"),
        ({"tags": "beta"}, "app.tags must be a list of texts"),
        ({"tags": ["a", 3]}, "app.tags must be .* got .'a', 3."),
    ],
)
def test_a_value_that_cannot_be_a_label_is_refused(settings, words):
    """Before anything is captured, with the value and the rule."""
    with pytest.raises(ConfigurationError, match=words):
        Monitor(**settings)


def test_a_store_finds_requests_by_application(tmp_path):
    """From two monitors into one store, and to what sinks receive."""
    path = str(tmp_path / "s.db")
    for app in ("search", "chat"):
        with Monitor(
            judge="lexical", metrics="ccrs.cc", store=path, app=app, release="2", environment="test"
        ) as monitor:
            monitor.record(TraceDraft(trace_id=app, query="How tall?", response="31 m."))
    with open_store(path, mode="read") as store:
        assert {"search": "search", "chat": "chat"} == store.traces.request_labels("app")
        assert {"search": "2", "chat": "2"} == store.traces.request_labels("release")
        assert {"search": "test", "chat": "test"} == store.traces.request_labels("environment")


def test_two_applications_have_their_own_prometheus_labels(tmp_path):
    """The span name, which all services of a framework share, is not the application."""
    registry = pytest.importorskip("prometheus_client").CollectorRegistry()
    from ragstone.sinks import PrometheusSink

    for app in ("search", "chat"):
        with Monitor(
            judge="lexical", metrics="ccrs.cc", store=tmp_path / f"{app}.db", app=app,
            sinks=[PrometheusSink(registry)],
        ) as monitor:  # fmt: skip
            monitor.record(TraceDraft(name="RunnableSequence", query="How tall?", response="31 m.", contexts=[]))
            assert monitor.drain()
            found = {
                s.labels["app"] for f in registry.collect() for s in f.samples if s.name == "ragstone_outcomes_total"
            }
            assert {app} == found
