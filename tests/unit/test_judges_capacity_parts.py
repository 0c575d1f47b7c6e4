"""The parts of a capacity, told the time: the window, the buckets, the breaker, what is read off a request."""

from __future__ import annotations

import math

import pytest

from ragstone.judges._http.bodies import estimated_tokens
from ragstone.judges._limits.flow_control import CircuitBreaker, ConcurrencyWindow, FailedAttempt, TokenBucket


def window(*, upper=64):
    """A window that allows up to `upper`."""
    made = ConcurrencyWindow()
    made.upper = upper
    return made


def answer(win, n, *, at=10.0, latency_s=1.0, full=True, kind=64):
    """Tell a window of n replies that came at one time."""
    for _ in range(n):
        win.answered(kind, at - latency_s, at, full=full, in_flight=win.limit)


def run(win, latency_s, *, n=600):
    """Keep a window full, with the latency for so many in flight, and return the window after each of the last replies."""
    now, in_flight, limits = 1.0, [], []
    for _ in range(n):
        while len(in_flight) < win.limit:
            in_flight.append((now, len(in_flight) + 1))
        # The first of a queue is answered next.
        at, number = in_flight[0]
        now = max(now, at + latency_s(number))
        full = len(in_flight) >= win.limit
        in_flight.pop(0)
        win.answered(64, at, now, full=full, in_flight=number)
        limits.append(win.limit)
    return limits[n // 3 :]


# The window -------------------------------------------------------------------------------------------------------


def test_grows_fast_until_the_first_trouble_then_by_one_a_round():
    """16, 32; after a time-out half of that, and then one more for each window of replies."""
    win = window()
    answer(win, 16)
    assert 32 == win.limit
    win.overloaded(9.0, 11.0)
    assert 16 == win.limit
    answer(win, 16, at=20.0)
    assert 16 == win.limit
    answer(win, 1, at=20.0)
    assert 17 == win.limit


def test_never_above_what_the_users_allow():
    """Ten is ten, from the start and after a thousand replies; a decrease starts from there."""
    win = window(upper=10)
    answer(win, 1000)
    assert 10 == win.limit
    win.overloaded(9.0, 11.0)
    assert 5 == win.limit


def test_no_growth_where_it_is_not_used():
    """Replies while there was room say nothing about more."""
    win = window()
    answer(win, 100, full=False)
    assert 16 == win.limit


def test_one_decrease_a_round_trip():
    """Sixteen requests that were sent together fail together: that is one sign, not sixteen."""
    win = window(upper=16)
    for _ in range(16):
        win.overloaded(9.0, 10.0)
    assert 8 == win.limit
    win.overloaded(10.5, 11.0)
    assert 4 == win.limit
    for n in range(10):
        win.overloaded(20.0 + n, 20.5 + n)
    assert 1 == win.limit


def test_shrinks_to_what_a_queue_serves():
    """Requests that only wait for each other become few: 2 or 3 for a server of one at a time, 4 to 16 for one of four."""
    serial = run(window(), lambda in_flight: 3.0 * in_flight)
    assert {2, 3} == set(serial)
    four = run(window(), lambda in_flight: 3.0 * max(1, in_flight / 4))
    assert 4 <= min(four) < max(four) <= 16


def test_grows_while_the_throughput_grows():
    """A latency that is constant, or increases less than the requests in flight, does not keep the window small."""
    assert 64 == min(run(window(), lambda _: 3.0))
    assert 64 == max(run(window(), lambda in_flight: 1.0 + in_flight / 16))


def test_a_slow_kind_is_not_a_queue():
    """Long replies that begin when more are in flight are not compared with short ones."""
    win = window()
    answer(win, 1, latency_s=1.0, kind=1)
    answer(win, 100, latency_s=30.0, kind=512, at=100.0)
    assert 64 == win.limit


def test_pause_and_slow_start():
    """After a refusal nothing for the time asked; then one, one, two, four, each when the one before met no refusal."""
    win = window(upper=16)
    win.refused(9.99, 10.0, wait_s=2.0, n_admitted=0, wait_requested=True)
    assert pytest.approx(1.5) == win.wait_s(10.5)
    now, sent = 12.0, []
    for _ in range(4):
        assert 0 == win.wait_s(now)
        n = 0
        while win.wait_s(now) == 0:
            win.sent(now)
            n += 1
            if n > 100:
                break
        sent.append(n)
        now += win.wait_s(now) + 1e-9
    # The window was halved to 8, which ends the ramp.
    assert [1, 1, 2, 4] == sent


def test_reply_ends_a_step_early():
    """What was answered was not refused: no waiting for the rest of the grace."""
    win = window()
    win.refused(9.0, 10.0, wait_s=1.0, n_admitted=0, wait_requested=True)
    win.sent(11.0)
    assert win.wait_s(11.001) > 0
    win.answered(64, 11.0, 11.002, full=True, in_flight=1)
    assert 0 == win.wait_s(11.002)


def test_refusals_leave_what_the_endpoint_holds():
    """Thirty slow requests are in: a refusal does not cut the window to half of them."""
    win = window()
    answer(win, 16)
    win.refused(20.0, 20.01, wait_s=1.0, n_admitted=30, wait_requested=False)
    assert 30 == win.limit
    win.refused(30.0, 30.01, wait_s=1.0, n_admitted=3, wait_requested=False)
    assert 15 == win.limit


# Budgets ----------------------------------------------------------------------------------------------------------


def test_bucket_keeps_to_its_budget():
    """600 a minute for ten minutes, asked for as fast as may be: not one too many, and few too few."""
    bucket, now, n = TokenBucket(burst_s=1.0), 0.0, 0
    bucket.set(600, now)
    while now < 600:
        wait_s = bucket.wait_s(1, now)
        if wait_s:
            now += wait_s
        else:
            bucket.take(1, now)
            n += 1
    assert 0.97 * 6000 <= n <= 6000 + 10


def test_bucket_lends_to_the_large_and_corrects():
    """What is larger than the bucket goes when all is full, and is paid off; what was taken too much comes back."""
    bucket = TokenBucket(burst_s=10.0)
    bucket.set(600, 0.0)
    assert 0 == bucket.wait_s(1000, 0.0)
    bucket.take(1000, 0.0)
    assert pytest.approx((1000 - 100 + 1) / 9.8) == bucket.wait_s(1, 0.0)
    bucket.take(-950, 0.0)
    assert 0 == bucket.wait_s(50, 0.0)


def test_no_budget_no_wait():
    """None limits nothing."""
    bucket = TokenBucket(burst_s=1.0)
    bucket.take(1e9, 0.0)
    assert 0 == bucket.wait_s(1e9, 0.0)


# The breaker ------------------------------------------------------------------------------------------------------


def test_outage_is_failures_in_a_row():
    """Four, an answer, four: none. Five: one, counted from the first of them."""
    breaker = CircuitBreaker()

    def fail(now):
        breaker.failed(now, FailedAttempt("HTTP 502"), probe=False, probe_s=1.0)

    for now in range(4):
        fail(float(now))
    assert not breaker.answered(sent_at=math.inf)
    for now in range(4):
        fail(10.0 + now)
    assert not breaker.open
    fail(14.0)
    assert (True, 20.0, 15.0) == (breaker.open, breaker.outage_duration_s(30.0), breaker.next_probe_at)
    assert "HTTP 502" in breaker.message(30.0, 5.0)
    assert breaker.answered(sent_at=math.inf)
    assert (False, 0.0) == (breaker.open, breaker.outage_duration_s(31.0))


def test_an_old_reply_does_not_end_a_row_of_failures():
    """The endpoint received that request before the first failure, so it may be down since then."""
    breaker = CircuitBreaker()
    breaker.failed(10.0, FailedAttempt("HTTP 502"), probe=False, probe_s=1.0)
    assert not breaker.answered(sent_at=9.0)
    for now in range(4):
        breaker.failed(11.0 + now, FailedAttempt("HTTP 502"), probe=False, probe_s=1.0)
    assert breaker.open


# Requests ---------------------------------------------------------------------------------------------------------


def body(user, *, system="S", **more):
    """A chat request."""
    return {
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
        "max_tokens": 10,
    } | more


def test_tokens_are_estimated():
    """Four characters a token, and every reply at its longest; token ids are counted."""
    assert pytest.approx(101 / 4 + 10) == estimated_tokens(body("x" * 100))
    assert pytest.approx(101 / 4 + 50) == estimated_tokens(body("x" * 100, n=5))
    assert 7 == estimated_tokens({"prompt": [[1, 2, 3], [4, 5]], "max_tokens": 2})
    assert 5 == estimated_tokens({"prompt": "x" * 20})
