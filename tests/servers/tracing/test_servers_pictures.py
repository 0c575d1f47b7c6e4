"""What users of Phoenix and MLflow see of outcomes, in a browser. `nox -s servers` keeps the pictures in .nox/reports."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

pytestmark = pytest.mark.servers

LIMIT_MS = 120_000


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
    sync_api = pytest.importorskip("playwright.sync_api")

    def save(name: str) -> None:
        folder = Path(__file__).parents[3] / ".nox" / "reports"
        if folder.is_dir():
            # Both tools show gray boxes until their answers have arrived. The picture is of what they show then.
            with suppress(sync_api.TimeoutError):
                page.wait_for_load_state("networkidle", timeout=30_000)
            page.screenshot(path=folder / f"{name}.png")

    return save


@pytest.fixture
def span(server, deliveries):
    """The span of a request whose outcomes were delivered with their reasons. Requested before the browser, which has a loop."""
    (sent,) = server.sent(1)

    async def run():
        sink = server.sink(suffix="+text")
        try:
            assert not await sink.write(deliveries(sent))
        finally:
            await sink.aclose()

    asyncio.run(run())
    return sent


@pytest.mark.parametrize("server", ["phoenix"], indirect=True)
def test_phoenix_shows_states(server, span, page, keep):
    """A failure and a metric that does not apply are labels among the scores."""
    assert span.context.is_valid
    projects = server.get("/v1/projects", limit=1000)["data"]
    (project,) = [each["id"] for each in projects if each["name"] == server.project]
    page.goto(f"{server.url}/projects/{project}/spans", timeout=LIMIT_MS)
    page.get_by_text("request 0").first.click(timeout=LIMIT_MS)
    # The first annotations by name are shown without a click.
    # The list behind the span, which is hidden, has the same texts.
    for text in ("not applicable", "failure"):
        page.get_by_text(text, exact=True).locator("visible=true").first.wait_for(timeout=LIMIT_MS)
    keep("phoenix")


@pytest.mark.parametrize("server", ["mlflow"], indirect=True)
def test_mlflow_shows_states(server, span, page, keep):
    """A metric that does not apply is a value, a failure is an error."""
    traces = f"{server.url}/#/experiments/{server.experiment}/traces"
    page.goto(traces, timeout=LIMIT_MS)
    page.get_by_text("request 0").or_(page.get_by_text("ago")).first.wait_for(timeout=LIMIT_MS)
    page.goto(f"{traces}?selectedEvaluationId=tr-{span.context.trace_id:032x}", timeout=LIMIT_MS)
    page.get_by_role("button", name="Assess").first.click(timeout=LIMIT_MS)
    page.get_by_text("not applicable").first.wait_for(timeout=LIMIT_MS)
    assert page.get_by_text("Error", exact=True).first.is_visible()
    keep("mlflow")
