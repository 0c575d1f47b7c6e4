"""Who may use the live page: hosts, tokens and origins of requests, and the headers of all responses."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from ragstone._util.addresses import is_equal, is_ip_address, name_in

_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_POLICY: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""Content security policy of responses that do not set their own."""
_READS: Final = frozenset({"GET", "HEAD"})


class Guard:
    """Refuses requests that do not come from the page itself or from a person who knows the token.

    - The header `Host` must name an allowed host. Otherwise a web site could let its own name point to this machine and
      read the page through a visitor's browser (DNS rebinding). On an open address, any IP address is allowed too,
      because rebinding needs a name.
    - With a token: the first request has it in its address, and the response sets a cookie and removes it from the
      address. The cookie is a random value of this process, and not the token.
    - A request that writes must come from a page of this server (header `Origin`).
    """

    def __init__(self, *, hosts: frozenset[str], any_address: bool, token: str | None) -> None:
        self._hosts = hosts
        self._any_address = any_address
        self._token = token
        self._session = secrets.token_urlsafe(32)

    def protect(self, app: web.Application) -> web.Application:
        """Check each request to an application, and return the application."""

        @web.middleware
        async def check(
            request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
        ) -> web.StreamResponse:
            refusal = self._refusal(request)
            return await handler(request) if refusal is None else refusal

        async def add_headers(_: web.Request, response: web.StreamResponse) -> None:
            for name, value in {**_HEADERS, "Content-Security-Policy": _POLICY}.items():
                response.headers.setdefault(name, value)

        app.middlewares.append(check)
        app.on_response_prepare.append(add_headers)
        return app

    def _refusal(self, request: web.Request) -> web.Response | None:
        """Return why a request is not answered, or None if it is."""
        host = request.headers.get("Host", "")
        name = name_in(host)
        if name.lower() not in self._hosts and not (self._any_address and is_ip_address(name)):
            text = f"This server does not answer requests for the host {name[:200]!r}. Allow it with: --allow-host NAME"
            return web.Response(text=text, status=403)
        site, mode = request.headers.get("Sec-Fetch-Site", "none"), request.headers.get("Sec-Fetch-Mode", "navigate")
        if site not in ("none", "same-origin") and mode != "navigate":
            return web.Response(text="Pages of other sites may not use this server.", status=403)
        if request.method not in _READS and urlsplit(request.headers.get("Origin", "")).netloc != host:
            return web.Response(text="Only pages of this server may change something (header Origin).", status=403)
        return self._check_token(request, host)

    def _check_token(self, request: web.Request, host: str) -> web.Response | None:
        if self._token is None:
            return None
        # Cookies do not belong to a port, so two servers of one machine need different names.
        cookie = f"ragstone_{''.join(c for c in host.rpartition(':')[2] if c.isdecimal()) or 80}"
        if is_equal(request.cookies.get(cookie, ""), self._session):
            return None
        if is_equal(request.query.get("token", ""), self._token):
            # Browsers read a backslash as a slash, and two of them begin the name of a host.
            path = request.rel_url.raw_path.replace("\\", "/").lstrip("/")
            rest = request.rel_url.without_query_params("token").raw_query_string
            response = web.Response(status=303, headers={"Location": f"/{path}{rest and '?'}{rest}"})
            response.set_cookie(cookie, self._session, httponly=True, samesite="Strict", path="/")
            return response
        text = "This page needs the token. Open the address that `ragstone view` printed: it ends in ?token=..."
        return web.Response(text=text, status=401)
