"""What users of Phoenix and MLflow see of outcomes, in a browser. `nox -s servers` keeps the pictures in .nox/reports."""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ragstone.schema import AnswerCause

pytestmark = pytest.mark.servers

LIMIT_MS = 120_000
CAUSE = AnswerCause(
    name="unsupported_claims",
    title="The answer makes unsupported claims",
    why="3 of 8 claims have no support in the passages.",
    next="Instruct the model to answer from the passages only, and check its claims.",
)


@pytest.fixture
def page():
    """A window of Chromium that is wide enough for both tools."""
    sync_api = pytest.importorskip("playwright.sync_api")
    path = os.environ.get("RAGSTONE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("needs Chromium (apt-get install chromium), or its path in RAGSTONE_CHROMIUM")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser.new_context(viewport={"width": 1900, "height": 1000}).new_page()
        browser.close()


@pytest.fixture
def keep(page):
    """Keeps a picture, if there is a place for it."""

    def save(name: str) -> None:
        folder = Path(__file__).parents[3] / ".nox" / "reports"
        if folder.is_dir():
            page.screenshot(path=folder / f"{name}.png")

    return save


@pytest.fixture
def span(server, deliveries):
    """The span of a wrong answer whose outcomes were delivered with their reasons, and then its cause.

    Requested before the browser, which has a loop.
    """
    (sent,) = server.sent(1)
    *others, last = deliveries(sent)

    async def run():
        sink = server.sink(suffix="+text")
        try:
            assert not await sink.write(others)
            assert not await sink.write([replace(last, cause=CAUSE)])
        finally:
            await sink.aclose()

    asyncio.run(run())
    return sent


@pytest.mark.parametrize("server", ["phoenix"], indirect=True)
def test_phoenix_shows_the_cause_first(server, span, page, keep):
    """Among the annotations of a span the cause is first, and the pointer over another shows interval and judge."""
    assert span.context.is_valid
    projects = server.get("/v1/projects", limit=1000)["data"]
    (project,) = [each["id"] for each in projects if each["name"] == server.project]
    page.goto(f"{server.url}/projects/{project}/spans", timeout=LIMIT_MS)
    page.get_by_text("request 0").first.click(timeout=LIMIT_MS)
    # The list behind the opened span has the same annotations. This text is only in the span, once it is loaded.
    page.get_by_text("This span has no attributes").wait_for(timeout=LIMIT_MS)
    shown = page.get_by_text("_ragstone.cause").locator("visible=true").last
    shown.wait_for(timeout=LIMIT_MS)
    assert page.get_by_text("unsupported claims", exact=True).locator("visible=true").count() >= 2
    others = page.get_by_text("accuracy", exact=True).locator("visible=true").last
    assert shown.bounding_box()["x"] < others.bounding_box()["x"]
    keep("phoenix")
    shown.hover()
    page.get_by_text(CAUSE.why).locator("visible=true").first.wait_for(timeout=LIMIT_MS)


@pytest.mark.parametrize("server", ["mlflow"], indirect=True)
def test_mlflow_shows_the_cause_first(server, span, page, keep):
    """The last assessment comes first. A metric that does not apply is a value, a failure is an error, and a click shows why."""
    traces = f"{server.url}/#/experiments/{server.experiment}/traces"
    page.goto(traces, timeout=LIMIT_MS)
    page.get_by_text("request 0").or_(page.get_by_text("ago")).first.wait_for(timeout=LIMIT_MS)
    page.goto(f"{traces}?selectedEvaluationId=tr-{span.context.trace_id:032x}", timeout=LIMIT_MS)
    pane = page.get_by_test_id("assessments-pane")
    page.get_by_role("button", name="Assess").or_(pane).first.wait_for(timeout=LIMIT_MS)
    if not pane.is_visible():
        page.get_by_role("button", name="Assess").first.click(timeout=LIMIT_MS)
    pane.get_by_text("not applicable").first.wait_for(timeout=LIMIT_MS)
    assert pane.get_by_text("Error", exact=True).first.is_visible()
    text = pane.inner_text()
    named = sorted(
        (text.index(name), name) for name in ("ragstone.cause", "accuracy", "coverage", "faithfulness", "ndcg")
    )
    assert named[0][1] == "ragstone.cause"
    for value in ("unsupported claims", "0.625"):
        # The arrow before a value shows its rationale.
        shown = pane.get_by_role("status").filter(has_text=value).first
        shown.locator("xpath=preceding-sibling::button").click(timeout=LIMIT_MS)
    pane.get_by_text(CAUSE.why).first.wait_for(timeout=LIMIT_MS)
    pane.get_by_text("0.625 [0.5, 0.75] (90% wilson)").first.wait_for(timeout=LIMIT_MS)
    keep("mlflow")
