"""A PostgreSQL server from the programs of this machine."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from server_programs import START_LIMIT_S, executable, free_port


class Postgres:
    """A PostgreSQL server that tests may stop and start; it listens on loopback alone.

    Args:
        folder: Where its data goes.
        port: Where it listens.
    """

    password = "s3cret-of-the-server"

    def __init__(self, folder, port):
        found = executable("RAGSTONE_PG_CTL", "pg_ctl", folders=sorted(Path("/usr/lib/postgresql").glob("*/bin")))
        self._programs = Path(found).resolve().parent
        self._folder, self._data, self._port = Path(folder), Path(folder) / "data", port
        self._user = None
        if os.geteuid() == 0:
            # It refuses to run as root.
            self._user = "postgres" if any(u.pw_name == "postgres" for u in pwd.getpwall()) else "nobody"
            shutil.chown(folder, self._user)
        secret = self._folder / "password"
        secret.write_text(self.password)
        secret.chmod(0o644)
        self._run("initdb", "-D", self._data, "-U", "admin", f"--pwfile={secret}", "-A", "scram-sha-256", "-E", "UTF8",
                  "--no-sync", "--locale=C.UTF-8")  # fmt: skip
        self._databases = 0

    def _run(self, name, *arguments):
        log = self._folder / "log"
        with log.open("ab") as output:
            command = [str(self._programs / name), *map(str, arguments)]
            done = subprocess.run(
                command, cwd=self._folder, user=self._user, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                check=False,
            )  # fmt: skip
        if done.returncode:
            pytest.fail(f"{name} failed: {log.read_text()[-4000:]}")

    def start(self):
        """Start, and wait until it is ready."""
        options = f"-c listen_addresses=127.0.0.1 -p {self._port} -k {self._folder} -c fsync=off -c max_connections=50"
        self._run("pg_ctl", "start", "-w", "-t", START_LIMIT_S, "-D", self._data, "-o", options)

    def kill(self):
        """Kill -9 the process that the others are children of."""
        postmaster = int((self._data / "postmaster.pid").read_text().split()[0])
        os.kill(postmaster, signal.SIGKILL)

    def start_again(self):
        """Start after a kill, when its children have ended."""
        deadline = time.monotonic() + START_LIMIT_S
        while True:
            try:
                self.start()
            except pytest.fail.Exception:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
            else:
                return

    def stop(self):
        """End all connections and stop."""
        self._run("pg_ctl", "stop", "-w", "-m", "fast", "-D", self._data)

    @contextlib.contextmanager
    def frozen(self):
        """Stop all its processes without ending a connection, and let them run again at the end of the block."""
        parent = int((self._data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        # The parent first, so that it starts no others.
        processes = [parent, *map(int, children)]
        for each in processes:
            os.kill(each, signal.SIGSTOP)
        try:
            yield
        finally:
            for each in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each, signal.SIGCONT)

    def url(self, database="postgres"):
        """The URL of a database, with its password."""
        return f"postgresql://admin:{self.password}@127.0.0.1:{self._port}/{database}"

    def new_database(self, options=""):
        """Make an empty database, with options of CREATE DATABASE; its URL."""
        import psycopg

        self._databases += 1
        name = f"test_{self._databases}"
        with psycopg.connect(self.url(), autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {name} {options}")
        return self.url(name)


@contextlib.contextmanager
def serve_postgres():
    """A new server, or no test without its programs."""
    pytest.importorskip("psycopg", reason="needs the extra 'postgres'")
    # pytest's own folders are closed to other users.
    with tempfile.TemporaryDirectory(prefix="ragstone-postgres-") as folder:
        server = Postgres(folder, free_port())
        server.start()
        try:
            yield server
        finally:
            server.stop()
