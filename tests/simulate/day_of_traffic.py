"""A day of traffic of two services, played in minutes: release 2.4.1 of one of them answers worse from 11 hours before now on.

    python tests/simulate/day_of_traffic.py FOLDER

The services are captured by `Monitor` as any application is, and a worker scores, watches and posts to a local Slack. Only
the clock and the judge are made up. The seven days before the day are the baseline. Afterwards the folder has the store.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from ragstone import Monitor
from ragstone.settings import Watch
from ragstone.testing import FakeJudge
from ragstone.worker import ScoringSetup, Worker

DAYS, SESSIONS_A_DAY = 8.5, 250
TOPICS = {"billing": "invoice", "delivery": "parcel", "account": "password"}
PASSAGES = {
    topic: [f"Your {word} is found under {topic}, section {i}." for i in range(1, 4)] for topic, word in TOPICS.items()
}


def judge(prompt):
    """Rate an answer: one that cites a section is good, one that sends users away is not."""
    text = str(prompt.fields)
    noise = random.Random(text).gauss(0, 7)
    return min(max((52 if "contact support" in text else 84) + noise, 0), 100)


def main(folder: Path) -> None:
    """Play the days and print what an on-call engineer sees."""
    folder.mkdir(parents=True, exist_ok=True)
    store, now = folder / "ragstone.db", [0.0]
    # The day ends now, so that `@-1d..` and "the last 24 hours" are the day that was played.
    end = datetime.now(UTC)
    began = (end - timedelta(days=DAYS)).timestamp()
    bad_from = (end - timedelta(hours=11)).replace(minute=0, second=0, microsecond=0).timestamp()
    real_time, time.time = time.time, lambda: now[0]
    now[0] = began

    def monitor(app: str, release: str) -> Monitor:
        return Monitor(store=store, app=app, release=release, scoring="none", clock=lambda: now[0])

    services = {
        name: monitor(*name) for name in (("docs-bot", "7.0"), ("support-bot", "2.4.0"), ("support-bot", "2.4.1"))
    }

    def ask(service: Monitor, session: str, topic: str, *, is_bad: bool) -> None:
        """Answer one question: search, then a model."""
        question = f"Where is my {TOPICS[topic]}? ({session})"
        with service.request(question, session_id=session, tags=[f"topic:{topic}", "language:en"]) as request:
            hits = request.found(PASSAGES[topic], name="handbook")
            now[0] += 1.5
            request.answer("Please contact support." if is_bad else f"{hits[0]} ({session})")

    rng = random.Random(1)
    slack = HTTPServer(("127.0.0.1", 0), Slack)
    threading.Thread(target=slack.serve_forever, daemon=True).start()
    setup = ScoringSetup(["ccrs.ac", "ccrs.qr"], judge=FakeJudge(judge, name="judge-model"))
    options = Watch(notify=(f"slack:http://127.0.0.1:{slack.server_port}/services/T/B/x",))
    starts = sorted(
        (began + rng.uniform(0, DAYS * 86_400), name) for name in ("docs-bot", "support-bot")
        for _ in range(int(DAYS * SESSIONS_A_DAY))
    )  # fmt: skip
    work_at = itertools.count(began + 6 * 3600, 1800)
    next_work = next(work_at)
    for i, (start, app) in enumerate([*starts, (began + DAYS * 86_400, "")]):
        while start > next_work:
            now[0] = next_work
            # Two days may be folded together, because no alarm is possible then.
            if next_work > bad_from - 3600 or int(next_work) % 86_400 < 1800:
                score(store, setup, options, lambda: now[0], services)
            next_work = next(work_at)
        now[0] = max(now[0], start)
        if app:
            is_new = app == "support-bot" and start >= bad_from and rng.random() < 0.5
            release = {"docs-bot": "7.0"}.get(app, "2.4.1" if is_new else "2.4.0")
            for _ in range(rng.choice((1, 2, 3))):
                ask(services[app, release], f"s{i}", rng.choice(list(TOPICS)), is_bad=is_new and rng.random() < 0.7)
                now[0] += rng.uniform(5, 60)
    score(store, setup, options, lambda: now[0], services)
    for service in services.values():
        service.close()
    time.time = real_time
    slack.shutdown()
    print(f"2.4.1 began at {datetime.fromtimestamp(bad_from).astimezone():%a %d %b %H:%M}\n")
    for text in Slack.messages:
        print(f"--- Slack ---\n{text}\n")


def score(store, setup, options, clock, services) -> None:
    """Run a worker until everything is scored and delivered."""
    for service in services.values():
        service.flush()
    asyncio.run(Worker(store, setup, watch=options, clock=clock).run(until_idle=True))


class Slack(BaseHTTPRequestHandler):
    """Keeps the messages of an incoming webhook."""

    messages: list[str] = []  # noqa: RUF012 - of the class

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.messages.append(body["text"])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    main(Path(sys.argv[1]))
