"""Take the pictures of the documentation: run the demo, open its report and its live page in Chromium, keep what they show.

`nox -s pictures` runs this after a change of the page. The pictures are part of the repository. RAGSTONE_PHOENIX and
RAGSTONE_MLFLOW name the programs of both tools, which then show the sample spans with our scores.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from playwright.sync_api import Browser, Page, sync_playwright

from ragstone.demo import sample_file

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
RAGSTONE = str(Path(sys.executable).with_name("ragstone"))
SCHEMES = ("light", "dark")
WRONG_ANSWER = "Is there wireless internet in the saloon?"
"""A question of the sample spans that the model did not answer."""


@contextmanager
def open_page(browser: Browser, url: str, scheme: str, *, width: int = 1280, height: int = 900) -> Iterator[Page]:
    """Open a page in a window of its own, and wait for its table."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector("#all:not([hidden])", timeout=60_000)
    yield page
    context.close()


@contextmanager
def serve_live_page(directory: Path) -> Iterator[str]:
    """Run `ragstone view` of the demo's store on a free port of the loopback interface."""
    command = [RAGSTONE, "view", "ragstone-demo/demo.db", "--listen", "127.0.0.1:0"]
    server = subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        lines = iter(server.stdout.readline, "")  # type: ignore[union-attr]
        yield next(found[0] for line in lines if (found := re.search(r"http://\S+", line)))
    finally:
        server.terminate()
        server.wait()


def take_pictures(browser: Browser, directory: Path) -> None:
    """Write every picture in light and dark."""
    report = (directory / "ragstone-demo" / "report.html").as_uri()
    for scheme in SCHEMES:
        with open_page(browser, report, scheme) as page:
            page.screenshot(path=PICTURES / f"report-{scheme}.png")
        with open_page(browser, report, scheme, width=390, height=760) as page:
            page.screenshot(path=PICTURES / f"phone-{scheme}.png")
    with serve_live_page(directory) as url:
        for scheme in SCHEMES:
            with open_page(browser, url, scheme) as page:
                page.wait_for_selector("#state.live", timeout=60_000)
                page.screenshot(path=PICTURES / f"live-{scheme}.png")
            with open_page(browser, f"{url}?where=release%3D1.1&sort=ccrs.qr", scheme) as page:
                page.wait_for_selector("#selection tbody", timeout=60_000)
                page.locator("#all").evaluate("section => section.scrollIntoView()")
                page.screenshot(path=PICTURES / f"filter-{scheme}.png")


def take_notebook(browser: Browser, directory: Path) -> None:
    """Run the notebook of the tutorial, and write what it shows."""
    from nbconvert import HTMLExporter

    run = directory / "notebook.ipynb"
    subprocess.run([sys.executable, Path(__file__).with_name("notebook.py"), "--check", "--keep", run], check=True)
    for scheme in SCHEMES:
        page = directory / f"notebook-{scheme}.html"
        page.write_text(HTMLExporter(template_name="lab", theme=scheme).from_filename(str(run))[0], encoding="utf-8")
        context = browser.new_context(viewport={"width": 1280, "height": 1000}, color_scheme=scheme)  # type: ignore[arg-type]
        window = context.new_page()
        # The page of a notebook names a server for formulas, of which this one has none.
        window.route(re.compile("^https?:"), lambda route: route.abort())
        window.goto(page.as_uri(), wait_until="domcontentloaded")
        window.get_by_text("before.worst(3)").first.scroll_into_view_if_needed()
        window.mouse.wheel(0, -650)
        window.wait_for_timeout(500)
        window.screenshot(path=PICTURES / f"notebook-{scheme}.png")
        context.close()


@contextmanager
def serve_tool(command: list[str], url: str, environment: dict[str, str], log: Path) -> Iterator[None]:
    """Run the server of a tracing tool until the block ends."""
    with log.open("w") as output:
        server = subprocess.Popen(command, env=os.environ | environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        for _ in range(600):
            if server.poll() is not None:
                raise SystemExit(f"{command[0]} ended: {log.read_text()}")
            with suppress(httpx.TransportError):
                if httpx.get(url).status_code < 500:
                    break
            time.sleep(0.5)
        yield
    finally:
        server.terminate()
        server.wait()


def send_samples(url: str, sink: str, directory: Path, headers: dict[str, str]) -> str:
    """Send the sample spans to a tool as an exporter does, score them, and deliver the scores to the tool.

    Returns:
        The id of the trace that is a wrong answer.
    """
    lines = sample_file("spans").splitlines()[-12:]
    for line in lines:
        message = json.loads(line)
        for span in message["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            for key in {"traceId", "spanId", "parentSpanId"} & span.keys():
                # JSON of OTLP has hexadecimal ids, and JSON of protobuf base64.
                span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
        request = ParseDict(message, ExportTraceServiceRequest())
        headers = {"content-type": "application/x-protobuf"} | headers
        httpx.post(
            f"{url}/v1/traces", content=request.SerializeToString(), headers=headers, timeout=60
        ).raise_for_status()
    spans = directory / "spans.jsonl"
    spans.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    time.sleep(5)  # Phoenix stores spans after it has answered.
    arguments = ["--metrics", "ccrs.cc,ccrs.qr,ccrs.id", "--judge", "lexical", "--store", directory / f"{sink[:5]}.db"]
    subprocess.run([RAGSTONE, "replay", spans, *arguments, "--sink", sink], check=True)
    (wrong,) = (line for line in lines if WRONG_ANSWER in line)
    return str(json.loads(wrong)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"])


def take_tools(browser: Browser, directory: Path) -> None:
    """Write what Phoenix and MLflow show of the sample spans."""
    address = "http://127.0.0.1:{}"
    if program := os.environ.get("RAGSTONE_PHOENIX"):
        port, grpc = free_port(), free_port()
        url = address.format(port)
        settings = {"PHOENIX_PORT": str(port), "PHOENIX_GRPC_PORT": str(grpc), "PHOENIX_WORKING_DIR": str(directory)}
        settings |= {"PHOENIX_TELEMETRY_ENABLED": "false", "PHOENIX_HOST": "127.0.0.1"}
        with serve_tool([program, "serve"], f"{url}/healthz", settings, directory / "phoenix.log"):
            send_samples(url, f"phoenix+text:{url}", directory, {})
            project = httpx.get(f"{url}/v1/projects").json()["data"][0]["id"]
            for scheme in SCHEMES:
                memory = {"arize-phoenix-theme": scheme}
                with tool_page(browser, f"{url}/projects/{project}/spans", scheme, memory) as page:
                    page.get_by_text(WRONG_ANSWER).first.click(timeout=120_000)
                    page.get_by_text("_ragstone.cause").locator("visible=true").first.wait_for(timeout=120_000)
                    page.wait_for_timeout(4_000)
                    pane = {"x": 400, "y": 46, "width": 1200, "height": 660}
                    page.screenshot(path=PICTURES / f"phoenix-{scheme}.png", clip=pane)  # type: ignore[arg-type]
    if program := os.environ.get("RAGSTONE_MLFLOW"):
        port = free_port()
        url = address.format(port)
        command = [program, "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
        command += ["--backend-store-uri", f"sqlite:///{directory}/mlflow.db"]
        settings = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
        with serve_tool(command, f"{url}/health", settings, directory / "mlflow.log"):
            trace_id = send_samples(url, f"mlflow+text:{url}", directory, {"x-mlflow-experiment-id": "0"})
            for scheme in SCHEMES:
                memory = {"_mlflow_dark_mode_toggle_enabled": str(scheme == "dark").lower()}
                traces = f"{url}/#/experiments/0/traces"
                with tool_page(browser, traces, scheme, memory) as page:
                    page.get_by_text("ago").first.wait_for(timeout=120_000)
                    page.goto(f"{traces}?selectedEvaluationId=tr-{trace_id}")
                    pane = page.get_by_test_id("assessments-pane")
                    page.get_by_role("button", name="Assess").or_(pane).first.wait_for(timeout=120_000)
                    if not pane.is_visible():
                        page.get_by_role("button", name="Assess").first.click()
                    cause = pane.get_by_role("status").filter(has_text="abstained").first
                    cause.locator("xpath=preceding-sibling::button").click(timeout=120_000)
                    page.wait_for_timeout(4_000)
                    drawer = {"x": 0, "y": 0, "width": 1120, "height": 660}
                    page.screenshot(path=PICTURES / f"mlflow-{scheme}.png", clip=drawer)  # type: ignore[arg-type]


@contextmanager
def tool_page(browser: Browser, url: str, scheme: str, memory: dict[str, str]) -> Iterator[Page]:
    """Open a page of a tool, with what the tool would remember in the browser, in a window that is wide enough for it."""
    context = browser.new_context(viewport={"width": 1600, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    context.add_init_script(f"Object.assign(localStorage, {json.dumps(memory)})")
    page = context.new_page()
    page.goto(url, timeout=120_000)
    yield page
    context.close()


def free_port() -> int:
    """Return a port of the loopback interface that nothing uses."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


def main() -> None:
    """Take all pictures, or those that the arguments name: report, notebook, tools."""
    chromium = os.environ.get("RAGSTONE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("needs Chromium (apt-get install chromium), or its path in RAGSTONE_CHROMIUM")
    PICTURES.mkdir(exist_ok=True)
    wanted = set(sys.argv[1:]) or {"report", "notebook", "tools"}
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        directory = Path(name)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        if "report" in wanted:
            subprocess.run([RAGSTONE, "demo"], cwd=directory, check=True, capture_output=True)
            take_pictures(browser, directory)
        if "notebook" in wanted:
            take_notebook(browser, directory)
        if "tools" in wanted:
            take_tools(browser, directory)
        browser.close()
    for path in sorted(PICTURES.glob("*.png")):
        print(f"{path.stat().st_size // 1000:5d} kB  {path.name}")


if __name__ == "__main__":
    main()
