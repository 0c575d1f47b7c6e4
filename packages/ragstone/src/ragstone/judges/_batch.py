"""Requests in files for a batch API: one run writes what it cannot answer yet, and a later run reads the results."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from ragstone._util.filelock import FileLock
from ragstone._util.files import open_private
from ragstone._util.plural import count
from ragstone._util.variables import assigned
from ragstone.errors import ConfigurationError, DataError, JudgeError, StoreError
from ragstone.judges._cache.replies import is_repeatable
from ragstone.judges._http.transport import MAX_REPLY_BYTES, Reply

_MAX_REQUESTS: Final = 50_000
_MAX_BYTES: Final = 100_000_000
"""Limits of one file. OpenAI accepts 50,000 requests and 200 MB."""
_MAX_LINE: Final = 4 * MAX_REPLY_BYTES
"""Bytes of a line of results. Escapes can make a reply several times longer."""
_REQUESTS: Final = re.compile(r"requests-(\d{4,})-.*\.jsonl")
_SENT: Final = "sent-at-once.jsonl"
_ID: Final = re.compile(r"[0-9a-f]{64}(?:-\d+)?")
_TEMPORARY: Final = (408, 409, 425, 429)


class PostponedError(JudgeError):
    """The request is in a file for a batch API, and its result is not there yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFile:
    """A file of requests for one model, in the format of OpenAI's batch API."""

    path: Path
    url: str
    """URL of the endpoint that the requests are for."""
    model: str
    n_requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """What a run wrote for a batch API, and what it read from the results."""

    folder: Path
    files: tuple[BatchFile, ...]
    """Files that this run wrote."""
    n_written: int
    """Requests in these files."""
    n_waiting: int
    """Requests of earlier runs that are needed and have no result yet."""
    n_results: int
    """Results in the folder, without those that failed."""
    n_failed: int
    """Results that failed for a temporary reason, such as a batch that expired. Their requests are written again."""
    failure: str | None
    """Reason of the first of them."""
    n_ignored: int
    """Lines of the files of results that are not results of requests of Ragstone."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            **asdict(self),
            "folder": str(self.folder),
            "files": [{**asdict(file), "path": str(file.path)} for file in self.files],
        }

    @property
    def n_open(self) -> int:
        """Requests that this run needs and that have no result yet."""
        return self.n_written + self.n_waiting

    def describe_open(self, waiting: str) -> str:
        """Say what to do so that these requests get results."""
        folder = shlex.quote(str(self.folder))
        if not self.n_written:
            return (
                f"{waiting} for the results of {count(self.n_waiting, 'request')} of an earlier run. Put them into {folder} as a "
                "file *.jsonl, and run the same command again."
            )
        files = "this file" if len(self.files) == 1 else f"these {len(self.files)} files"
        return (
            f"{waiting} for the results of {count(self.n_open, 'request')}. Run {files} as a batch, put the results into {folder} "
            "as a file *.jsonl, and run the same command again."
        )


class BatchPendingError(JudgeError):
    """Samples wait for results of a batch API, so the run did not end with a result.

    Attributes:
        report: The files that were written, and the numbers of requests and results.
    """

    def __init__(self, message: str, *, report: BatchReport) -> None:
        super().__init__(message)
        self.report = report


class RequestBatch:
    """A folder with requests for a batch API and their results. One process at a time uses it.

    Files `requests-NUMBER-MODEL.jsonl` contain requests. All other files `*.jsonl` are results, in the format of OpenAI's
    batch API, which vLLM's `run-batch` writes too. A request has an id that depends only on its content, so a result
    serves any run that needs the same request. A request is written again only after its result says that it failed.

    Args:
        folder: The folder, which is created if it does not exist.

    Raises:
        ConfigurationError: If the folder cannot be used, or another process uses it.
        DataError: If a file of requests is damaged, or a file of results contains no result.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        if not os.fspath(folder):
            raise ConfigurationError("the batch folder is an empty text. Name a folder, or omit it")
        self.folder = Path(folder)
        self._n_written: Counter[str] = Counter()
        """By id: how often a request is in the files of earlier runs."""
        self._n_failed: Counter[str] = Counter()
        self._results: dict[str, tuple[IO[bytes], int]] = {}
        """By id: the file and the position of its line."""
        self._open_files: list[IO[bytes]] = []
        self._writers: dict[tuple[str, str], _Writer] = {}
        self._files: list[BatchFile] = []
        self._new: set[str] = set()
        self._waiting: set[str] = set()
        self._n_ignored = 0
        self._failure: str | None = None
        self._number = 0
        self._sent: IO[bytes] | None = None
        self._error: OSError | None = None
        """Why the folder cannot be read or written since then. Nothing more is written."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = FileLock(self.folder / ".lock")
            if not self._lock.acquire():
                raise ConfigurationError(
                    f"the batch folder {str(self.folder)!r} is used by process {self._lock.owner()}. Wait for it, or use another folder"
                )
            try:
                self._read_folder()
            except BaseException:
                self._close_files()
                raise
        except OSError as error:
            raise ConfigurationError(
                f"the batch folder {str(self.folder)!r} cannot be used: {error.strerror or error}. Name a folder that can be written"
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the files of this run their names, also after an error: each of their requests is complete.

        Raises:
            StoreError: If a request or a reply could not be written, or a result could not be read. What this run wrote into a
                file without a name is removed.
        """
        try:
            for key in list(self._writers):
                self._finish(key)
        finally:
            self._close_files()
        if self._error is not None:
            raise StoreError(
                f"the batch folder {str(self.folder)!r} cannot be read or written: {self._error.strerror or self._error}. Requests "
                "are missing in it, and what needs them is not scored. Free space or name another folder, and run the same "
                "command again"
            ) from self._error

    @property
    def report(self) -> BatchReport:
        """What was written and read. Final after `close`."""
        return BatchReport(
            folder=self.folder,
            files=tuple(self._files),
            n_written=len(self._new),
            n_waiting=len(self._waiting),
            n_results=len(self._results),
            n_failed=sum(self._n_failed.values()),
            failure=self._failure,
            n_ignored=self._n_ignored,
        )

    def result(self, id_: str) -> Reply | None:
        """Return the result of a request, or None if there is none yet, or it cannot be read (see `close`)."""
        place = self._results.get(id_)
        if place is None:
            return None
        file, position = place
        try:
            file.seek(position)
            line = file.readline()
        except OSError as error:
            self._error = self._error or error
            return None
        response = _response_of(_json_of(line))
        # The file may have changed since its lines were read.
        return None if response is None else Reply(response[0], {}, json.dumps(response[1]).encode())

    def is_written(self, id_: str) -> bool:
        """Return whether a request is in a file, without a result so far, even a failed one."""
        if id_ in self._new:
            return True
        is_waiting = self._n_written[id_] > self._n_failed[id_]
        if is_waiting:
            self._waiting.add(id_)
        return is_waiting

    def write(self, id_: str, url: str, path: str, body: Mapping[str, Any]) -> None:
        """Write a request, unless an earlier one could not be written. An error is raised by `close`."""
        if self._error is not None:
            return
        request = {"custom_id": id_, "method": "POST", "url": f"/v1{path}", "body": body}
        line = json.dumps(request, separators=(",", ":")).encode() + b"\n"
        model = str(body.get("model"))
        key = (url, model)
        try:
            writer = self._writers.get(key)
            if writer is not None and (writer.n == _MAX_REQUESTS or writer.n_bytes + len(line) > _MAX_BYTES):
                self._finish(key)
                writer = None
            if writer is None:
                self._number += 1
                name = f"requests-{self._number:04d}-{re.sub(r'[^A-Za-z0-9._]+', '-', model)[:60]}.jsonl"
                writer = self._writers[key] = _Writer(self.folder / name)
            writer.write(line)
        except OSError as error:
            self._error = error
        self._new.add(id_)

    def keep(self, id_: str, reply: Mapping[str, Any]) -> None:
        """Keep the reply to a request that was sent, as a result for later runs. An error is raised by `close`."""
        if self._error is not None:
            return
        result = {"custom_id": id_, "response": {"status_code": 200, "body": reply}}
        try:
            if self._sent is None:
                # Without a buffer, so that nothing is left to be written when it is closed.
                self._sent = open(self.folder / _SENT, "ab", buffering=0, opener=open_private)  # noqa: SIM115 - mode 0600
                self._open_files.append(self._sent)
            line = json.dumps(result, separators=(",", ":")).encode() + b"\n"
            if self._sent.write(line) != len(line):  # the next run cuts the rest of the line
                self._error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self._error = error

    def _finish(self, key: tuple[str, str]) -> None:
        writer = self._writers.pop(key)
        if self._error is None:
            try:
                writer.close()
            except OSError as error:
                self._error = error
        if self._error is not None:
            writer.discard()
            return
        url, model = key
        self._files.append(BatchFile(path=writer.path, url=url, model=model, n_requests=writer.n))

    def _close_files(self) -> None:
        for file in self._open_files:
            file.close()
        self._lock.release()

    def _read_folder(self) -> None:
        for partial in self.folder.glob(".requests-*.partial"):
            # Of a run that was killed before it reported the file.
            partial.unlink()
        for path in sorted(self.folder.glob("*.jsonl")):
            named = _REQUESTS.fullmatch(path.name)
            if named is None:
                self._read_results(path)
            else:
                self._number = max(self._number, int(named[1]))
                self._read_requests(path)

    def _read_requests(self, path: Path) -> None:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                id_ = _id_of(_json_of(line))
                if id_ is None:
                    raise DataError(
                        f"{path}, line {number} is not a request that Ragstone wrote. Move the file away. Its "
                        "requests without a result are then written again"
                    )
                self._n_written[id_] += 1

    def _read_results(self, path: Path) -> None:
        file = path.open("rb")
        self._open_files.append(file)
        n_found = n_lines = position = 0
        while line := file.readline(_MAX_LINE):
            if path.name == _SENT and not line.endswith(b"\n"):
                # A full disk or a kill cut it. The next line would become part of it.
                os.truncate(path, position)
                break
            start, position = position, position + len(line)
            if not line.strip():
                continue
            n_lines += 1
            n_found += self._read_result(_json_of(line), file, start)
        self._n_ignored += n_lines - n_found
        if n_lines and not n_found:
            raise DataError(
                f"{path} does not contain a result of a request that Ragstone wrote: each line needs a custom_id of a file "
                "requests-*.jsonl, and a response. Move the file away if it is something else"
            )

    def _read_result(self, found: Any, file: IO[bytes], position: int) -> bool:
        id_ = _id_of(found)
        if id_ is None:
            return False
        if (response := _response_of(found)) is not None:
            status, body = response
            if status // 100 == 2 and isinstance(body, dict) and body.get("choices"):
                self._results[id_] = (file, position)
                return True
            if 300 <= status < 500 and status not in _TEMPORARY:
                self._results.setdefault(id_, (file, position))
                return True
            reason = f"HTTP {status}" if status // 100 != 2 else "a reply without choices"
        elif found.get("error"):
            reason = json.dumps(found["error"])[:200]
        else:
            return False
        self._n_failed[id_] += 1
        self._failure = self._failure or reason
        return True


class _Writer:
    """A file of requests, which gets its name when it is complete."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.n = self.n_bytes = 0
        self._partial = path.with_name(f".{path.name}.partial")
        self._file = open(self._partial, "wb", opener=open_private)  # noqa: SIM115 - mode 0600

    def write(self, line: bytes) -> None:
        self._file.write(line)
        self.n += 1
        self.n_bytes += len(line)

    def close(self) -> None:
        with self._file:
            self._file.flush()
            os.fsync(self._file.fileno())
        self._partial.replace(self.path)

    def discard(self) -> None:
        """Remove the file, of which the last line may be cut. It does not have its name yet."""
        with suppress(OSError):
            self._file.close()
        self._partial.unlink(missing_ok=True)


@dataclass(slots=True)
class BatchedRequests:
    """Requests of one sample."""

    batch: RequestBatch
    n_postponed: int = 0
    """Requests without a result. A sample is scored when there are none."""
    _seen: Counter[str] = field(default_factory=Counter)

    def id_of(self, path: str, body: Mapping[str, Any]) -> str:
        """Return the id of the next request of this sample with this content.

        Equal requests have one id if their replies are equal (see `is_repeatable`), and otherwise different ones.
        """
        identity = json.dumps([path, body], sort_keys=True, default=repr)
        digest = hashlib.sha256(identity.encode()).hexdigest()
        if is_repeatable(body):
            return digest
        self._seen[digest] += 1
        return digest if self._seen[digest] == 1 else f"{digest}-{self._seen[digest]}"


_batch: ContextVar[RequestBatch | None] = ContextVar("ragstone_request_batch", default=None)
_requests: ContextVar[BatchedRequests | None] = ContextVar("ragstone_batched_requests", default=None)
_at_once: ContextVar[bool] = ContextVar("ragstone_sent_at_once", default=False)


def requests_in_batches(batch: RequestBatch | None) -> AbstractContextManager[RequestBatch | None]:
    """Answer requests of samples that are scored in the block from a batch, or write them to it. None changes nothing."""
    return assigned(_batch, batch)


def requests_of_sample() -> AbstractContextManager[BatchedRequests | None]:
    """Use the batch of the block of `requests_in_batches` around the caller, if there is one, for one sample."""
    batch = _batch.get()
    return assigned(_requests, None if batch is None else BatchedRequests(batch))


def sent_at_once(*, is_sent: bool) -> AbstractContextManager[bool]:
    """Send a request of the block that would be written to a batch, if `is_sent`."""
    return assigned(_at_once, is_sent)


def is_sent_at_once() -> bool:
    """Return whether the caller is inside a block of `sent_at_once(True)`."""
    return _at_once.get()


def batched_requests() -> BatchedRequests | None:
    """Return the requests of the sample for which the caller works, if they go to a batch."""
    return _requests.get()


def _json_of(line: bytes) -> Any:
    with suppress(ValueError, RecursionError):
        return json.loads(line)
    return None


def _response_of(found: Any) -> tuple[int, Any] | None:
    """Return the status and the body of a result. vLLM writes the body of an error in the place of other errors."""
    response = found.get("response") if isinstance(found, dict) else None
    status = response.get("status_code") if isinstance(response, dict) else None
    if not isinstance(response, dict) or type(status) is not int:
        return None
    return status, found.get("error") if response.get("body") is None else response["body"]


def _id_of(found: Any) -> str | None:
    id_ = found.get("custom_id") if isinstance(found, dict) else None
    return id_ if isinstance(id_, str) and _ID.fullmatch(id_) else None
