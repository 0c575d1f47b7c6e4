"""Applications, workers, scoring processes and their servers are killed at random moments, or servers are restarted: the books agree.

`RAGSTONE_KILLS=100 nox -s servers -- -m long -k kills` runs every combination. A few kills of some run with the other tests of servers.
"""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace

import psycopg
import pytest

from kills import MANY_KILLS, Deployment, kill_and_check, runs
from waiting import wait_until

pytestmark = [pytest.mark.servers, pytest.mark.timeout(300 + 60 * MANY_KILLS)]


class Backend:
    """A process of PostgreSQL that serves one connection. If it is killed, the server ends all others and recovers."""

    def __init__(self, database):
        self._database = database

    def _ask(self, statement):
        """Ask the database itself. None while it is away."""
        try:
            with psycopg.connect(self._database, autocommit=True, connect_timeout=5) as db:
                return db.execute(statement).fetchall()
        except psycopg.Error:
            return None

    def kill(self):
        """Kill -9 the process of the connection that was used last."""
        query = (
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'ragstone' ORDER BY state_change DESC LIMIT 1"
        )
        for (pid,) in self._ask(query) or ():
            os.kill(pid, signal.SIGKILL)

    def start_again(self):
        """Wait until the server has recovered."""
        wait_until(lambda: self._ask("SELECT 1") is not None)


ALL = ("application", "owner", "child", "owner and child", "broker", "database")
COMBINATIONS = {
    # Store and broker, how requests are scored, victims, and the number of kills of the short run.
    "postgresql": (None, {"workers": 2}, ("owner", "backend", "database"), 3),
    "postgresql-processes": (None, {"workers": 2, "processes": 2}, ("owner and child", "child", "owner", "backend", "database"), 0),
    "postgresql-monitor": (None, {"scoring": "process"}, ("child", "application", "owner and child", "database"), 0),
    "redis-file": ("redis", {}, ("broker", "owner", "application"), 3),
    "redis-file-processes": ("redis", {"processes": 2}, ("broker", "child", "owner", "owner and child", "application"), 0),
    "redis-postgresql": ("redis", {"workers": 2, "processes": 2}, ALL, 0),
    # Servers that end in order: they refuse new connections, and end or serve those that exist.
    "postgresql-restarts": (None, {"workers": 2}, ("stop of the database",), 3),
    "redis-postgresql-restarts": ("redis", {"workers": 2}, ("stop of the broker", "stop of the database"), 4),
}  # fmt: skip


@pytest.mark.parametrize(("name", "n_kills"), runs({name: quick for name, (*_, quick) in COMBINATIONS.items()}))
def test_books_after_kills(name, n_kills, request, tmp_path):
    """Each acknowledged request has one outcome for each metric in the store and in each sink, and counters equal a recount."""
    broker, options, victims, _ = COMBINATIONS[name]
    store, servers, url = str(tmp_path / "s.db"), {}, None
    if "postgresql" in name:
        store = request.getfixturevalue("database")
        servers = {"database": request.getfixturevalue("postgres"), "backend": Backend(store)}
    if broker is not None:
        servers["broker"] = request.getfixturevalue(f"start_{broker}")()
        url = servers["broker"].url()
    for server_name in servers.keys() & {"broker", "database"}:
        server = servers[server_name]
        servers[f"stop of the {server_name}"] = SimpleNamespace(kill=server.stop, start_again=server.start_again)
    kill_and_check(Deployment(store, tmp_path, broker=url, servers=servers, **options), victims, n_kills)
