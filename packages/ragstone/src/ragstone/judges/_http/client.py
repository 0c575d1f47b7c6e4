"""Client of one OpenAI-compatible endpoint, with its model name, dialect and reply cache."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from ragstone.errors import ConfigurationError, JudgeError
from ragstone.judges._cache.replies import CachedReplies, cache_bypassed
from ragstone.judges._http.bodies import reply_length
from ragstone.judges._http.dialect import Dialect, controls_of, kind_of
from ragstone.judges._http.endpoint import Controls, Endpoint
from ragstone.judges._http.errors import RequestRefusedError
from ragstone.judges._http.reasoning import is_cut, measure_reasoning, sign_of_reasoning
from ragstone.judges._http.replies import completions, token_ids
from ragstone.judges._http.turns import FirstOfKind
from ragstone.judges._model import ChatRequest, Completion
from ragstone.judges._render import Message

_TEMPLATE_FIELDS: Final = ("chat_template", "chat_template_kwargs")
"""Fields that affect the tokens of a conversation, also when it is tokenized separately."""
_UNUSUAL_REFUSALS: Final = (403, 404, 405, 406, 415)
"""Statuses with which some gateways refuse a field. Most requests get them for another reason."""
_TRIAL: Final[list[Message]] = [
    {"role": "system", "content": "You follow instructions exactly."},
    {"role": "user", "content": "Reply with the word yes."},
]
"""A short conversation with the roles of all others, to learn what the endpoint refuses."""


class ChatClient:
    """Sends chat requests to an endpoint, and adapts their format to its refusals."""

    def __init__(
        self, endpoint: Endpoint, *, model: str | None, extra_body: Mapping[str, Any] | None, cached: CachedReplies
    ) -> None:
        self._endpoint = endpoint
        self._model = model
        self._extra_body = dict(extra_body or {})
        self._cached = cached
        self.dialect = Dialect()
        """Request format for this endpoint, as detected so far."""
        self._first = FirstOfKind()
        self._refusals: dict[object, tuple[str, dict[str, Any]]] = {}
        """Arguments of the refusal for each kind of request that is refused. An error would keep its frames."""
        self._tried: set[str] = set()
        """Kinds of requests for which `settle` ran."""
        self._settings: tuple[object, Mapping[str, object]] | None = None
        self._recalled = False
        self._kept: Dialect | None = None
        """What the reply cache contains about the endpoint."""

    @property
    def name(self) -> str:
        """Model and host. Final when the model is known (given, or detected by `prepare()`)."""
        return f"{self._model or 'the served model'} at {self._endpoint.host}"

    @property
    def settings(self) -> Mapping[str, object]:
        """Endpoint, model and the fields added to every request. The same object until one of them changes."""
        variant = (self._model, self.dialect.disables_thinking)
        if self._settings is None or self._settings[0] != variant:
            extra = {**({"enable_thinking": False} if self.dialect.disables_thinking else {}), **self._extra_body}
            settings = {"endpoint": self._endpoint.public_url, "model": self._model, "extra_body": extra}
            self._settings = (variant, MappingProxyType(settings))
        return self._settings[1]

    @property
    def reasoning_tokens(self) -> int:
        """Tokens added to the length limit of replies, because the model reasons before it answers. 0 if it does not."""
        return self.dialect.reasoning_tokens

    def omitted(self, sampling: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the parameters that the endpoint refuses in requests with these sampling settings."""
        return tuple(sorted(self.dialect.omits(sampling)))

    async def settle(self, sampling: Mapping[str, Any]) -> None:
        """Learn with a short request what the endpoint refuses with these sampling settings, and whether it reasons.

        A result is kept in the reply cache for a day, and then needs no request. Errors are ignored: the first request
        learns what could not be learned here.
        """
        await self.prepare()
        kind = kind_of(sampling)
        if kind in self._tried:
            return
        async with self._endpoint.setup.get():
            await self._recall()
            if kind in self._tried:
                return
            self._tried.add(kind)
            with suppress(JudgeError), cache_bypassed():
                sign = await measure_reasoning(
                    lambda size: self.chat(_TRIAL, max_tokens=size, sampling=sampling, grow=False)
                )
                if sign is not None:
                    self.learn_reasoning(sign)
                await self._keep()

    def learn_reasoning(self, sign: str) -> None:
        """Allow tokens for reasoning in all later requests."""
        self._adapt(self.dialect.with_reasoning(sign))

    def _adapt(self, dialect: Dialect) -> None:
        """Use another dialect. Requests of each kind go one by one again, until one was accepted in it."""
        self.dialect = dialect
        self._first.reset()

    def forget(self) -> None:
        """Forget all that was learned about the endpoint, so that it is measured again."""
        self.dialect, self._tried, self._kept, self._refusals = Dialect(), set(), None, {}
        self._recalled = True
        self._first.reset()

    async def _recall(self) -> None:
        """Read from the reply cache, once, what another process learned."""
        if self._recalled:
            return
        self._recalled = True
        noted = await self._cached.note(self._about)
        with suppress(ValueError, KeyError, TypeError):
            if noted is not None:
                known = json.loads(noted)
                self.dialect = Dialect.from_json(known["dialect"])
                self._tried |= set(known["kinds"])
                self._kept = self.dialect

    async def _keep(self) -> None:
        """Write to the reply cache what was learned."""
        self._kept = self.dialect
        noted = json.dumps({"dialect": self.dialect.to_json(), "kinds": sorted(self._tried)})
        await self._cached.put_note(self._about, noted)

    @property
    def _about(self) -> dict[str, Any]:
        return {"model": self._model, "extra_body": self._extra_body}

    async def prepare(self) -> None:
        """Detect the served model, unless one was given. Otherwise the first request does this."""
        if self._model is not None:
            return
        async with self._endpoint.setup.get():
            if self._model is None:
                self._model = await self._served_model()

    async def _served_model(self) -> str:
        url = self._endpoint.public_url
        try:
            listing = await self._endpoint.request("GET", "/models")
        except RequestRefusedError as refused:
            if refused.status != 404:
                raise
            raise ConfigurationError(
                f"{url} does not list models (HTTP 404). Check the URL (it usually ends in /v1) or name the model with "
                f"{self._endpoint.how_to_set('model')}"
            ) from None
        cards = listing.get("data") or ()
        names = [str(card["id"]) for card in cards if isinstance(card, dict) and "id" in card]
        if len(names) != 1:
            served = ", ".join(sorted(names)[:20]) or "none"
            raise ConfigurationError(
                f"{url} serves {len(names)} models ({served}). Choose one with {self._endpoint.how_to_set('model')}"
            )
        return names[0]

    async def complete(self, request: ChatRequest) -> tuple[Completion, ...]:
        """Return `request.n` replies, from one request if the endpoint supports that, else from several."""
        fields: dict[str, Any] = {"n": request.n} if request.n > 1 else {}
        if request.top_logprobs:
            fields |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        reply = await self.chat(
            request.messages, max_tokens=request.max_tokens, sampling=request.sampling, fields=fields
        )
        replies = completions(reply)
        if len(replies) < request.n:
            sampling = dict(request.sampling)
            if "seed" in sampling:
                # With the same seed the next request would return the same replies.
                sampling["seed"] += len(replies)
            return (*replies, *await self.complete(replace(request, n=request.n - len(replies), sampling=sampling)))
        return replies[: request.n]

    async def chat(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        sampling: Mapping[str, Any] | None = None,
        fields: Mapping[str, Any] | None = None,
        room: bool = True,
        grow: bool = True,
    ) -> dict[str, Any]:
        """Return one chat completion as the endpoint sends it. `fields` are added to the request's body unchanged.

        `max_tokens` limits the answer. With `room`, a model that reasons first gets more tokens for this, and with
        `grow`, a reply that was cut within its reasoning is requested again with them. Parameters of `sampling` that
        the endpoint refuses are omitted.
        """
        await self.prepare()
        await self._recall()
        wanted = dict(sampling or {})
        extra = {**self._extra_body, **(fields or {})}

        def body_now() -> dict[str, Any]:
            return self.dialect.body(
                model=str(self._model),
                messages=messages,
                max_tokens=max_tokens,
                sampling=wanted,
                fields=extra,
                room=room,
            )

        # With the values of the fields, because a server may accept some schemas only.
        kind, plain = ((kind_of(wanted), messages[0]["role"], str(added)) for added in (extra, self._extra_body))
        async with self._first.turn(kind):
            if kind in self._refusals:
                message, arguments = self._refusals[kind]
                raise RequestRefusedError(message, **arguments)
            while True:
                body = body_now()
                is_settled = self._first.is_settled(kind)
                optional = body.keys() & (fields or {}).keys() - self._extra_body.keys()
                sampled = None if self._first.is_settled(plain) else wanted
                controls = None if is_settled else controls_of(body, optional, sampled)
                send = partial(self._endpoint.request, "POST", "/chat/completions", body, controls=controls)
                try:
                    completion = await self._cached.reply("/chat/completions", body, send)
                except RequestRefusedError as refused:
                    # Another request may have learned it in the meantime.
                    if body == body_now():
                        if refused.status in _UNUSUAL_REFUSALS and optional and not is_settled:
                            *_, (refused.param, control) = controls_of(body, optional, None).items()
                            # Fails as well if the reason is another one.
                            await self._endpoint.request("POST", "/chat/completions", control)
                            refused.isolated = True
                        if (adapted := self.dialect.adapted(refused, wanted, extra, room=room)) is None:
                            if refused.isolated:
                                names = ("status", "param", "text", "isolated")
                                self._refusals[kind] = str(refused), {name: getattr(refused, name) for name in names}
                            raise
                        self._adapt(adapted)
                    continue
                self._first.settle(kind)
                sign = sign_of_reasoning(completion, max_tokens) if room and grow and is_cut(completion) else None
                if sign is None or reply_length(body) > max_tokens:
                    break
                self.learn_reasoning(sign)
        if self.dialect not in (self._kept, Dialect()):
            await self._keep()
        return completion

    async def post(self, path: str, body: Mapping[str, Any], *, inference: bool = True) -> dict[str, Any]:
        """Send one request to another path of the endpoint, with the model's name.

        Args:
            path: Path below the base URL ("/completions"), or with two slashes ("//tokenize") below the server's root.
            body: Its fields. `model` is added.
            inference: Whether the model runs for the request, so that it counts as a call.
        """
        await self.prepare()
        body = {"model": self._model, **body}
        controls = self._controls(path, body)
        send = partial(self._endpoint.request, "POST", path, body, counted=inference, controls=controls)
        reply = await self._cached.reply(path, body, send) if inference else await send()
        self._first.settle((path, frozenset(body)))
        return reply

    async def get(self, path: str) -> dict[str, Any]:
        """Return the JSON at a path. With two slashes ("//version") the path is below the server's root."""
        return await self._endpoint.request("GET", path, controls=self._controls(path))

    def _controls(self, path: str, body: Collection[str] = ()) -> Controls:
        """Return a short chat request to compare with, until the endpoint has accepted a request with these fields."""
        trial = self.dialect.body(model=str(self._model), messages=_TRIAL, max_tokens=16, sampling={}, room=False)
        return {} if self._first.is_settled((path, frozenset(body))) else {path: trial}

    async def tokenized(self, messages: Sequence[Message], **fields: Any) -> list[int]:
        """Return the token ids of a conversation, with the endpoint's chat template (vLLM's `/tokenize`)."""
        extra = self._extra_body
        template: dict[str, Any] = {name: extra[name] for name in _TEMPLATE_FIELDS if name in extra}
        while True:
            body: dict[str, Any] = {"messages": self.dialect.written(messages), **template, **fields}
            try:
                return token_ids(await self.post("//tokenize", body, inference=False))
            except RequestRefusedError as refused:
                if (adapted := self.dialect.adapted(refused, {})) is None:
                    raise
                self._adapt(adapted)

    async def aclose(self) -> None:
        """Close the connections of the running event loop. May be called twice. A later request opens new connections."""
        await self._endpoint.aclose()
