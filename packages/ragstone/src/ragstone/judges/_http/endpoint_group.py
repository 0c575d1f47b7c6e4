"""Several endpoints that serve the same model: the load is spread, and an endpoint that is down is left out."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from ragstone.errors import ConfigurationError, JudgeUnavailableError
from ragstone.judges._http.bodies import hash_prefix
from ragstone.judges._http.endpoint import Controls, Endpoint
from ragstone.judges._http.errors import RequestRefusedError
from ragstone.judges._http.replies import model_names
from ragstone.judges._limits.gate import ClientLimits
from ragstone.judges._model import AsyncOnce, PerLoop

_logger = logging.getLogger("ragstone")

_POLL_S: Final = 0.2
_SAME_MODEL: Final = "All endpoints of a list must serve the same model"


def split_urls(text: str) -> list[str]:
    """Return the URLs of a comma-separated list.

    Raises:
        ConfigurationError: If a part is not an http(s) URL, or a URL occurs twice.
    """
    parts = [part.strip() for part in re.split(r",(?=\s*\w+:)", text)]
    for part in parts[1:]:
        if not part.startswith(("http://", "https://")):
            raise ConfigurationError(
                f"a list of endpoints consists of URLs that serve the same model ('http://a:8000/v1,http://b:8000/v1'), got {part!r}"
            )
    return parts


class EndpointGroup:
    """Sends each request to one of several endpoints, and to another one if that is down.

    Prompts with the same beginning go to the same endpoint, whose prefix cache contains it: of the first two endpoints in
    an order that the beginning determines, the first, unless its requests have to wait and the other is less busy. An endpoint that is down gets no requests.
    Once a second, a request for its list of models checks if it is back. The first endpoint names the group, so its
    identity does not depend on the number of endpoints.

    Raises:
        ConfigurationError: If an endpoint occurs twice.
    """

    def __init__(self, endpoints: Sequence[Endpoint], share: ClientLimits) -> None:
        self._all = tuple(endpoints)
        self._first = first = self._all[0]
        self.base_url, self.public_url, self.host = first.base_url, first.public_url, first.host
        self.how_to_set, self.setup_lock = first.how_to_set, first.setup_lock
        self._share = share
        urls = [endpoint.base_url for endpoint in self._all]
        if repeated := next((e.public_url for e in self._all if urls.count(e.base_url) > 1), None):
            raise ConfigurationError(f"the list of endpoints contains {repeated} twice. Name each endpoint once")
        self._excluded: set[Endpoint] = set()
        """Endpoints that came back with another model."""
        self._model: object = None
        self._same_model = AsyncOnce(self._check_models)
        self._checks: PerLoop[dict[Endpoint, asyncio.Task[None]]] = PerLoop(dict)

    async def request(
        self,
        method: Literal["GET", "POST"],
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        counted: bool = True,
        controls: Controls | None = None,
    ) -> dict[str, Any]:
        """Send one request to one of the endpoints, and return the JSON object of the reply (see `Endpoint.request`).

        Raises:
            ConfigurationError: If `path` is "/models", and the endpoints serve different models.
            RequestRefusedError: If an endpoint refuses the request.
            JudgeUnavailableError: If no endpoint replies.
        """
        if path == "/models":
            return await self._common_models()
        give_up_at = asyncio.get_running_loop().time() + self._share.max_wait_s
        n_failures = 0
        while True:
            self._check_absent()
            candidates = self._candidates(body or {})
            if not candidates:
                await self._wait_for_any()
                continue
            # A retry goes to the next endpoint.
            endpoint = candidates[n_failures % len(candidates)]
            try:
                return await endpoint.request(method, path, body, counted=counted, once=True, controls=controls)
            except JudgeUnavailableError as error:
                if endpoint.capacity.pause_s() > 0:
                    # Status 429: the endpoint is the last candidate until its pause ends.
                    if asyncio.get_running_loop().time() > give_up_at:
                        raise
                    continue
                n_failures += 1
                if n_failures >= (self._share.max_retries + 1) * len(self._all):
                    raise
                if n_failures % len(candidates) == 0:
                    await asyncio.sleep(endpoint.retry_wait_s(error, n_failures // len(candidates)))

    def _candidates(self, body: Mapping[str, Any]) -> list[Endpoint]:
        """Return the endpoints that are up, in the order in which to try them."""
        up = [endpoint for endpoint in self._all if endpoint not in self._excluded and not endpoint.capacity.is_open]
        prefix = hash_prefix(body)
        up.sort(key=lambda endpoint: hashlib.sha256(f"{prefix} {endpoint.base_url}".encode()).digest())
        up.sort(key=lambda endpoint: endpoint.capacity.pause_s() > 0)
        if len(up) > 1 and not up[1].capacity.pause_s() and max(1.0, up[1].capacity.load) < up[0].capacity.load:
            up[0], up[1] = up[1], up[0]
        return up

    # Endpoints that are down --------------------------------------------------------------------------------------

    def _check_absent(self) -> None:
        """Start a check of each endpoint that is down, unless one is running or not yet due."""
        checks = self._checks.get()
        for endpoint in self._all:
            if endpoint.capacity.probe_due and (endpoint not in checks or checks[endpoint].done()):
                checks[endpoint] = asyncio.ensure_future(self._check(endpoint))

    async def _check(self, endpoint: Endpoint) -> None:
        try:
            models = model_names(await endpoint.request("GET", "/models", once=True))
        except (RequestRefusedError, JudgeUnavailableError):
            # A refusal is a reply too: the endpoint is up.
            return
        if models and self._model is not None and self._model not in models:
            self._excluded.add(endpoint)
            _logger.warning(
                "%s is back and serves %s instead of %s. It gets no more requests",
                *(endpoint.public_url, ", ".join(sorted(models)[:5]), self._model),
            )
        else:
            self._excluded.discard(endpoint)

    async def _wait_for_any(self) -> None:
        """Wait until an endpoint is back.

        Raises:
            JudgeUnavailableError: If all of them have been down for longer than `max_outage_s`.
        """
        outages = [endpoint.outage() for endpoint in self._all if endpoint not in self._excluded]
        failures = [error for error in outages if error is not None]
        if len(failures) == len(outages):
            reasons = "; ".join(map(str, failures)) or f"All of them serve other models than {self._model!r}"
            kind = failures[0].kind if failures else None
            raise JudgeUnavailableError(f"none of {len(self._all)} endpoints replies. {reasons}", kind=kind)
        with self._first.waiting_outside():
            await asyncio.sleep(_POLL_S)

    # Models -------------------------------------------------------------------------------------------------------

    async def _common_models(self) -> dict[str, Any]:
        """Return the list of the models that all endpoints serve. Endpoints that are down are checked when they are back."""
        listed = await self._listed()
        if not listed:
            return await self._first.request("GET", "/models")
        common = set.intersection(*listed.values())
        if not common and any(listed.values()):
            raise ConfigurationError(f"{_describe(listed)}. {_SAME_MODEL}")
        return {"data": [{"id": name} for name in sorted(common)]}

    async def check_model(self, model: str | None) -> None:
        """Check once that all endpoints serve a model. An endpoint that is down is checked when it is back.

        Raises:
            ConfigurationError: If one of them lists other models.
        """
        self._model = model
        await self._same_model.get()

    async def _check_models(self) -> bool:
        """Check that no endpoint lacks the model that another one lists. Some servers do not list their models."""
        listed = {endpoint: names for endpoint, names in (await self._listed()).items() if names}
        others = {endpoint: names for endpoint, names in listed.items() if self._model not in names}
        if others and len(others) < len(listed):
            raise ConfigurationError(f"{_describe(others)}, and another endpoint serves {self._model!r}. {_SAME_MODEL}")
        return True

    async def _listed(self) -> dict[Endpoint, set[str]]:
        """Return the models of each endpoint that replies. One that does not list them has an empty set."""

        async def names(endpoint: Endpoint) -> set[str] | None:
            try:
                return set(model_names(await endpoint.request("GET", "/models", once=True)))
            except RequestRefusedError:
                return set()
            except JudgeUnavailableError:
                return None

        found = await asyncio.gather(*map(names, self._all))
        return {endpoint: each for endpoint, each in zip(self._all, found, strict=True) if each is not None}

    async def aclose(self) -> None:
        """Close the clients of the running event loop."""
        checks = self._checks.get()
        tasks = list(checks.values())
        checks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for endpoint in self._all:
            await endpoint.aclose()


def _describe(listed: Mapping[Endpoint, set[str]]) -> str:
    return ", ".join(
        f"{e.public_url} serves {' and '.join(sorted(names)[:5]) or 'no model'}" for e, names in listed.items()
    )
