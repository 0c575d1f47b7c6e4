"""Who may read the live page: hosts, tokens, origins, and the address that it is served at."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web

from live_store import make_store
from ragstone._util.addresses import allowed_hosts, is_loopback
from ragstone.errors import ConfigurationError, StoreError
from ragstone.experiments import TimeRange
from ragstone.live import serve
from ragstone.live._guard import Guard
from ragstone.live._server import _address
from served_app import client_of

TOKEN = "a-token-of-24-characters"


def guarded(guard: Guard) -> web.Application:
    """An application behind a guard."""

    async def echo(request: web.Request) -> web.Response:
        return web.Response(text=f"{request.method} ok")

    app = web.Application()
    app.router.add_route("*", "/", echo)
    return guard.protect(app)


def asked(
    *,
    host: str = "127.0.0.1",
    token: str | None = None,
    others: tuple[str, ...] = (),
    method: str = "GET",
    url: str = "http://localhost:8484/",
    **request: Any,
) -> httpx.Response:
    """The response to one request for an address."""
    guard = Guard(hosts=allowed_hosts(host, others), any_address=not is_loopback(host), token=token)
    name, _, rest = url.removeprefix("http://").partition("/")

    async def ask() -> httpx.Response:
        async with client_of(guarded(guard), host=name) as client:
            return await client.request(method, f"/{rest}", **request)

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("host", "url", "status"),
    [
        ("127.0.0.1", "http://localhost:8484/", 200),
        ("127.0.0.1", "http://127.0.0.1:8484/", 200),
        ("127.0.0.1", "http://[::1]:8484/", 200),
        ("127.0.0.1", "http://LocalHost/", 200),
        ("127.0.0.1", "http://evil.example:8484/", 403),
        ("127.0.0.1", "http://localhost.evil.example/", 403),
        ("127.0.0.1", "http://192.168.0.7:8484/", 403),
        ("0.0.0.0", "http://192.168.0.7:8484/", 200),  # noqa: S104
        ("0.0.0.0", "http://evil.example/", 403),  # noqa: S104
        ("0.0.0.0", f"http://{socket.gethostname()}/", 200),  # noqa: S104
        ("box.example", "http://box.example/", 200),
    ],
)
def test_hosts(host: str, url: str, status: int):
    """A name that somebody else can point to this machine is refused, also if it looks like ours."""
    response = asked(host=host, url=url)
    assert status == response.status_code
    assert ("--allow-host" in response.text) == (status == 403)


def test_other_names_are_allowed_by_option():
    """For a proxy in front of the server."""
    assert 200 == asked(others=("Quality.example",), url="http://quality.example/").status_code


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://localhost:8484"}, 200),
        ({"origin": "https://localhost:8484"}, 200),
        ({"origin": "http://localhost:9999"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({}, 403),
    ],
)
def test_only_pages_of_the_server_write(headers: dict[str, str], status: int):
    """A request that is not a GET needs the origin of the page."""
    assert status == asked(method="POST", headers=headers).status_code


def test_other_sites_cannot_use_it_in_the_background():
    """They can link to it; then a person sees the page."""
    refused = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert 403 == asked(headers=refused).status_code
    assert 200 == asked(headers=refused | {"sec-fetch-mode": "navigate"}).status_code


def test_the_token_is_sent_once_and_then_a_cookie():
    """The cookie is not the token, scripts cannot read it, and the address loses the token."""
    first = asked(token=TOKEN, url=f"http://localhost:8484/?token={TOKEN}")
    assert 303 == first.status_code
    assert "/" == first.headers["location"]
    cookie = first.headers["set-cookie"]
    assert cookie.startswith("ragstone_8484=")
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert TOKEN not in cookie


def test_the_cookie_opens_the_page_of_this_process_only():
    """A cookie of another process, another port or somebody's invention does not."""
    guards = [Guard(hosts=allowed_hosts("127.0.0.1", ()), any_address=False, token=TOKEN) for _ in range(2)]

    async def ask() -> list[int]:
        codes = []
        headers: dict[str, str] = {}
        for guard in (guards[0], guards[0], guards[1]):
            async with client_of(guarded(guard), host="localhost:8484") as client:
                response = await client.get("/" if headers else f"/?token={TOKEN}", headers=headers)
                codes.append(response.status_code)
                headers = headers or {"Cookie": response.headers["set-cookie"].partition(";")[0]}
        return codes

    assert [303, 200, 401] == asyncio.run(ask())


@pytest.mark.parametrize("path", ["//evil.example/", "///evil.example/", "/\\evil.example/", "/\\\\evil.example/"])
def test_the_address_without_the_token_stays_on_this_server(path: str):
    """Whatever path the link had."""
    response = asked(token=TOKEN, url=f"http://localhost:8484{path}?token={TOKEN}")
    assert 303 == response.status_code
    # Browsers read a backslash as a slash.
    assert not response.headers["location"].replace("\\", "/").startswith("//")


def test_a_shared_link_keeps_its_filters():
    """The token alone leaves the address."""
    query = "where=release%3D%222.4%22%26&sort=-time"
    response = asked(token=TOKEN, url=f"http://localhost:8484/?{query}&token={TOKEN}")
    target = httpx.URL(response.headers["Location"])
    assert (303, "", "/") == (response.status_code, target.host, target.path)
    assert {"where": 'release="2.4"&', "sort": "-time"} == dict(target.params)


@pytest.mark.parametrize("given", ["", "?token=", "?token=wrong", f"?token={TOKEN}x", "?token=%C3%A4%00"])
def test_a_wrong_token_is_refused(given: str):
    """With one message, which does not contain it."""
    response = asked(token=TOKEN, url=f"http://localhost:8484/{given}")
    assert 401 == response.status_code
    assert TOKEN not in response.text
    assert "ragstone view" in response.text


def test_every_response_has_the_headers():
    """Nothing is stored, framed, sniffed or read by other sites, also if the request is refused."""
    for response in (asked(), asked(url="http://evil.example/"), asked(token=TOKEN)):
        assert "no-store" == response.headers["cache-control"]
        assert "nosniff" == response.headers["x-content-type-options"]
        assert "same-origin" == response.headers["cross-origin-resource-policy"]
        assert "frame-ancestors 'none'" in response.headers["content-security-policy"]


def never(_: str) -> None:
    """The server must not start."""
    pytest.fail("it listens")


def test_an_open_address_needs_a_token(tmp_path: Path):
    """And the message names the way out."""
    store = TimeRange(make_store(tmp_path / "s.db", 1))
    with pytest.raises(ConfigurationError, match="--token auto"):
        serve(store, host="0.0.0.0", on_ready=never)  # noqa: S104
    with pytest.raises(ConfigurationError, match="at least 16 characters, got 5"):
        serve(store, token="short", on_ready=never)


def test_a_port_in_use(tmp_path: Path):
    """Names the port and a free way."""
    store = TimeRange(make_store(tmp_path / "s.db", 1))
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(
            ConfigurationError, match=rf"cannot listen on 127\.0\.0\.1:{port}: .*--listen HOST:PORT. Port 0 "
        ):
            serve(store, port=port, on_ready=never)


def test_a_missing_store(tmp_path: Path):
    """Nothing is served."""
    with pytest.raises(StoreError, match="store not found"):
        serve(TimeRange(tmp_path / "none.db"), on_ready=never)


def test_addresses():
    """As a person opens them."""
    assert "http://127.0.0.1:8484/" == _address("127.0.0.1", 8484, None)
    assert "http://[::1]:1/?token=a%2Fb" == _address("::1", 1, "a/b")
    assert f"http://{socket.gethostname()}:1/" == _address("0.0.0.0", 1, None)  # noqa: S104
