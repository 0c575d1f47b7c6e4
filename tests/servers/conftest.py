"""Real servers that outcomes are delivered to, each started once for all tests of this room, in processes of their own."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import httpx
import pytest

from tls_brokers import make_certificate

# Importing themselves takes Phoenix and MLflow a minute and a half on a busy machine with two cores.
START_LIMIT_S = 240
STOP_LIMIT_S = 20


def free_port():
    """A loopback port that no one listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def executable(variable, name, *, folders=()):
    """The program that an environment variable names, or that is on the path or in one of `folders`; else no test."""
    places = os.pathsep.join([*map(str, folders), os.environ.get("PATH", "")])
    found = os.environ.get(variable) or shutil.which(name, path=places)
    if found is None:
        # Where the servers must be tested, a skip would look like success.
        refuse = pytest.fail if os.environ.get("RAGSTONE_REQUIRE_SERVERS") else pytest.skip
        refuse(f"needs {name}: run `nox -s servers`, or let {variable} name the program")
    return found


def healthy(url):
    """Whether a GET is answered with success."""
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(url, timeout=5, trust_env=False).is_success
    return False


def launch(command, *, ready, log, environment=None, cwd=None):
    """Start a server in a process of its own, and return the process when the server has said it is well.

    Args:
        command: Program and arguments.
        ready: The URL that answers with success, or a function that says so.
        log: Where its output goes, and whose end is shown when it does not start.
        environment: Added to ours.
        cwd: Where it runs.
    """
    is_ready = (lambda: healthy(ready)) if isinstance(ready, str) else ready
    with Path(log).open("ab") as output:
        process = subprocess.Popen(
            list(map(str, command)), env=os.environ | (environment or {}), cwd=cwd, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + START_LIMIT_S
        while not is_ready():
            if process.poll() is not None or time.monotonic() > deadline:
                end = Path(log).read_text(errors="replace")[-4000:]
                pytest.fail(f"{command[0]} did not start (exit status {process.poll()}); its log ends:\n{end}")
            time.sleep(0.05)
    except BaseException:
        stop(process)
        raise
    return process


@contextlib.contextmanager
def serve(command, **options):
    """A server that `launch` has started; stopped at the end, with the processes it started."""
    process = launch(command, **options)
    try:
        yield process
    finally:
        stop(process)


def stop(process):
    """Ask a server to stop, then do not ask."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_LIMIT_S)
    # What it started may outlive it: they are a process group of their own.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


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

    def new_database(self):
        """Make an empty database; its URL."""
        import psycopg

        self._databases += 1
        name = f"test_{self._databases}"
        with psycopg.connect(self.url(), autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {name}")
        return self.url(name)


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server."""
    pytest.importorskip("psycopg", reason="needs the extra 'postgres'")
    # pytest's own folders are closed to other users.
    with tempfile.TemporaryDirectory(prefix="ragstone-postgres-") as folder:
        server = Postgres(folder, free_port())
        server.start()
        yield server
        server.stop()


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


class Nats(Broker):
    """A NATS server with JetStream."""

    def command(self, folder):
        """The program with its arguments. Debian has it in a folder of administrators."""
        found = executable("RAGSTONE_NATS", "nats-server", folders=["/usr/sbin"])
        return [found, "-js", "-sd", folder, "-a", "127.0.0.1", "-p", self.port]

    def is_ready(self):
        """Whether it accepts connections."""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def url(self, name="app"):
        """The URL of a queue."""
        return f"nats://127.0.0.1:{self.port}/{name}"


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
def nats_server(tmp_path_factory):
    """A NATS server for all tests."""
    with starting(Nats, tmp_path_factory.mktemp("nats")) as start:
        yield start()


@pytest.fixture
def start_nats(tmp_path):
    """The function that starts a NATS server of the test's own."""
    with starting(Nats, tmp_path) as start:
        yield start


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """The files of a certificate of 127.0.0.1."""
    executable("RAGSTONE_OPENSSL", "openssl")
    return make_certificate(tmp_path_factory.mktemp("certificate"))
