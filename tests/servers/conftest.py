"""Real servers that outcomes are delivered to, each started once for all tests of this room, in processes of their own."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

import pytest

from postgres_server import serve_postgres
from server_programs import executable, free_port, launch, serve, stop
from tls_brokers import make_certificate


@pytest.fixture(scope="session")
def program():
    """The function that finds a server's program, or skips."""
    return executable


@pytest.fixture(scope="session")
def port():
    """The function that finds a free port."""
    return free_port


@pytest.fixture(scope="session")
def serving():
    """The context manager that runs a server."""
    return serve


@pytest.fixture(scope="session")
def phoenix(tmp_path_factory):
    """The base URL of a Phoenix server."""
    if running := os.environ.get("RAGSTONE_PHOENIX_URL"):
        # For who works on these tests: starting a server takes longer than most of them.
        yield running
        return
    folder = tmp_path_factory.mktemp("phoenix")
    http, grpc = free_port(), free_port()
    environment = {
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(http),
        "PHOENIX_GRPC_PORT": str(grpc),
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
    }
    url = f"http://127.0.0.1:{http}"
    command = [executable("RAGSTONE_PHOENIX", "phoenix"), "serve"]
    with serve(command, ready=f"{url}/healthz", log=folder / "server.log", environment=environment):
        yield url


@pytest.fixture(scope="session")
def mlflow(tmp_path_factory):
    """The base URL of an MLflow server."""
    if running := os.environ.get("RAGSTONE_MLFLOW_URL"):
        # For who works on these tests: starting a server takes longer than most of them.
        yield running
        return
    folder = tmp_path_factory.mktemp("mlflow")
    url = f"http://127.0.0.1:{(http := free_port())}"
    command = [
        *(executable("RAGSTONE_MLFLOW", "mlflow"), "server", "--host", "127.0.0.1", "--port", http, "--workers", "1"),
        *("--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--default-artifact-root", folder / "artifacts"),
    ]
    environment = {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        # Half a gigabyte of processes that run nothing here.
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }
    with serve(command, ready=f"{url}/health", log=folder / "server.log", environment=environment, cwd=folder):
        yield url


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server."""
    with serve_postgres() as server:
        yield server


@pytest.fixture
def database(postgres):
    """The URL of an empty database."""
    return postgres.new_database()


class Broker:
    """A message broker that tests may kill and start again; it listens on loopback alone.

    Args:
        folder: Where its data goes.
        options: Further options of its program.
    """

    def __init__(self, folder, *options):
        self._folder, self.port, self._options = Path(folder), free_port(), options
        self._process = None

    def start(self):
        """Start, and wait until it is ready."""
        self._process = launch(
            [*self.command(self._folder), *self._options], ready=self.is_ready, log=self._folder / "log"
        )

    start_again = start

    def kill(self):
        """Kill -9 the server."""
        self._process.kill()
        self._process.wait()

    def stop(self):
        """Stop the server."""
        stop(self._process)


class Redis(Broker):
    """A Redis server that keeps what it confirms."""

    def command(self, folder):
        """The program with its arguments."""
        return [
            *(
                executable("RAGSTONE_REDIS", "redis-server"),
                "--port",
                self.port,
                "--bind",
                "127.0.0.1",
                "--dir",
                folder,
            ),
            *("--save", "", "--appendonly", "yes", "--appendfsync", "always"),
        ]

    def is_ready(self):
        """Whether it answers."""
        import redis

        try:
            with self.client() as client:
                return client.ping()
        except redis.AuthenticationError:
            return True
        except redis.RedisError:
            return False

    def client(self):
        """A client of redis-py."""
        import redis

        return redis.Redis(port=self.port, protocol=2)

    def url(self, name="app", options=""):
        """The URL of a queue."""
        return f"redis://127.0.0.1:{self.port}/{name}{options}"


@contextlib.contextmanager
def starting(kind, folder):
    """The function that starts brokers, with options of their program. All are stopped at the end of the block."""
    name = kind.__name__.lower()
    pytest.importorskip(name, reason=f"needs the extra {name!r}")
    with contextlib.ExitStack() as started:

        def start(*options):
            data = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder))
            server = kind(data, *options)
            server.start()
            started.callback(server.stop)
            return server

        yield start


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory):
    """A Redis server for all tests."""
    with starting(Redis, tmp_path_factory.mktemp("redis")) as start:
        yield start()


@pytest.fixture
def start_redis(tmp_path):
    """The function that starts a Redis server of the test's own."""
    with starting(Redis, tmp_path) as start:
        yield start


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """The files of a certificate of 127.0.0.1."""
    executable("RAGSTONE_OPENSSL", "openssl")
    return make_certificate(tmp_path_factory.mktemp("certificate"))
