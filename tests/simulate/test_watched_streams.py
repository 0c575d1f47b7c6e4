"""Whole streams of the product, from the baseline to the follow-up, in the situations that must not and must alarm."""

from __future__ import annotations

import numpy as np
import pytest

from alarm_streams import DAY_S, QUARTER_DAYS, Traffic
from watch_simulation import run_stream

SESSION = 1800.0
N = 60


def quarterly(runs, *, per=15):
    """Return alarms per quarter of 15 streams, and its standard error."""
    alarms = sum(len(run.alarms) for run in runs)
    quarters = sum((run.change_day is not None) * QUARTER_DAYS for run in runs) / QUARTER_DAYS / per
    return alarms / quarters, np.sqrt(max(alarms, 1)) / quarters


@pytest.mark.parametrize("icc", [0.2, 0.3, 0.5])
@pytest.mark.parametrize("sampled", [1.0, 0.1])
def test_quiet(icc, sampled):
    """Without a change, with nights and weekends that are worse by 2 points: at most one alarm a quarter over 15 streams."""
    rng = np.random.default_rng(21)
    scored = 1000 if sampled == 1 else 250
    traffic = Traffic(icc=icc, sampled=sampled, wander=0.02, scored_a_day=scored)
    runs = [run_stream(traffic, rng, days=QUARTER_DAYS, n_active=15) for _ in range(N)]
    rate, se = quarterly(runs)
    print(f"\n| quiet, ICC {icc}, {sampled:.0%} sampled, {N} streams | {rate:.2f} ± {se:.2f} |")
    assert rate <= 1 + 2 * se


@pytest.mark.parametrize("drop", [0.05, 0.1, 0.2])
@pytest.mark.parametrize("scored", [100, 300, 1000, 10_000])
def test_change_is_dated_and_sized(drop, scored):
    """Delay, coverage of the interval of starts, of the size at the alarm and of the follow-up."""
    rng, runs = np.random.default_rng(22), []
    for _ in range(N if scored > 1000 else 4 * N):
        run = run_stream(
            Traffic(scored_a_day=scored),
            rng,
            days=90 if scored < 300 else 60,
            loss=lambda day: drop + 0 * day,
            stop_at_alarm=True,
        )
        runs.append(run)
    found = [(r, a) for r in runs for a in r.alarms[:1] if a.raised_at / DAY_S > r.change_day]
    gap, step = SESSION / DAY_S, 1 / Traffic(scored_a_day=scored).units_a_day
    since = [
        a.since_first / DAY_S + gap <= r.change_day + 2 * step and r.change_day - 2 * step <= a.since_last / DAY_S + gap
        for r, a in found
    ]
    width = np.median([(a.since_last - a.since_first) / DAY_S for _, a in found])
    size = [a.low <= drop <= a.high for _, a in found]
    last = [a.follow_up for _, a in found if a.follow_up]
    later = [f.low <= drop <= f.high for f in last]
    delays = np.array([r.delay for r in runs])
    print(
        f"\n| {scored} a day, {drop:.0%} | {np.median(delays):.2f} ({np.quantile(delays, 0.9):.2f}) | {np.mean(since):.0%} ({width:.2f} d) | "
        f"{np.mean(size):.0%}, bias {100 * (np.mean([a.drop for _, a in found]) - drop):+.1f} | {np.mean(later):.0%}, bias "
        f"{100 * (np.mean([f.drop for f in last]) - drop):+.1f} | {len(found)} |"
    )
    assert np.mean(since) >= 0.88
    assert np.mean(later) >= 0.88
    # Measured 93% over all rows. At the moment of the alarm, chance has made the drop larger: nominal 95% is not reached.
    assert np.mean(size) >= 0.9 - 3 * np.sqrt(0.9 * 0.1 / len(size))


FIELDS = {"release": 2, "retriever": 2, "language": 3, "tag:topic": 5}
"""Slices of a request: twelve values of four fields."""


@pytest.mark.parametrize("shared", [False, True])
def test_uniform_drop_names_few_slices(shared):
    """Of alarms with a drop everywhere, at most one in twenty names a slice, also if the fields are related."""
    rng = np.random.default_rng(23)

    def labels(i):
        mixed = np.random.default_rng(i)
        one = int(mixed.integers(60))
        return {name: f"v{(one if shared else int(mixed.integers(60))) % n}" for name, n in FIELDS.items()}

    named = []
    for _ in range(6 * N):
        run = run_stream(Traffic(), rng, days=30, loss=lambda day: 0.1 + 0 * day, labels=labels, stop_at_alarm=True)
        named += [bool(a.slices) for a in run.alarms[:1] if a.n_slices]
    share, se = np.mean(named), np.sqrt(np.mean(named) * (1 - np.mean(named)) / len(named))
    kind = "related" if shared else "independent"
    print(
        f"\n| uniform drop of 10 points, 12 {kind} slices, {len(named)} alarms | a slice is named in {share:.1%} ± {se:.1%} |"
    )
    assert share <= 0.05 + 2 * se


def test_drop_of_one_topic_is_named():
    """A drop in one of five topics names it, and with it rarely another field."""
    rng = np.random.default_rng(28)
    right = wrong = total = 0
    for _ in range(N):
        run = run_stream(
            Traffic(), rng, days=30, labels=lambda i: {"tag:topic": f"v{i % 5}", "language": f"v{i // 5 % 3}"}, only=(5, 0.3),
            stop_at_alarm=True,
        )  # fmt: skip
        for alarm in run.alarms[:1]:
            if alarm.follow_up and alarm.raised_at / DAY_S > run.change_day:
                names = {s.name for s in alarm.slices}
                total, right, wrong = (
                    total + 1,
                    right + ("tag:topic=v0" in names),
                    wrong + bool(names - {"tag:topic=v0"}),
                )
    print(
        f"\n| drop of 30 points in one of five topics, {total} alarms | named {right / total:.0%}, another {wrong / total:.0%} |"
    )
    assert right / total >= 0.95
    assert wrong / total <= 0.1


@pytest.mark.parametrize("scored", [300, 1000])
def test_sampling_changed_on_day_21(scored):
    """From day 21 on, low scores are scored with 50% instead of 10%: no alarm in a quarter."""
    rng = np.random.default_rng(29)
    p = lambda since, x: (0.5 if x < 0.6 else 0.1) if since >= 0 else 0.1  # noqa: E731
    traffic = Traffic(size=1, icc=0.0, scored_a_day=10 * scored)
    runs = [run_stream(traffic, rng, days=QUARTER_DAYS, p=p, n_active=15, change_day=21.0) for _ in range(N // 2)]
    alarms = sum(len(run.alarms) for run in runs)
    print(f"\n| sampling changed on day 21, about {scored} scored a day, {len(runs)} streams | {alarms} alarms |")
    assert alarms <= 1


def test_low_scores_sampled_more():
    """Low scores are scored with 50%, others with 10%, from the start or from day 21 on: weights keep it quiet."""
    rng = np.random.default_rng(24)
    traffic = Traffic(size=1, icc=0.0, scored_a_day=1000)
    unequal = lambda since, x: 0.5 if x < 0.6 else 0.1  # noqa: E731
    later = lambda since, x: (0.5 if x < 0.6 else 0.1) if since >= 0 else 0.1  # noqa: E731
    for name, p in (("from the start", unequal), ("changed after the baseline", later)):
        runs = [run_stream(traffic, rng, days=QUARTER_DAYS, p=p, n_active=15) for _ in range(N // 2)]
        rate, se = quarterly(runs)
        print(f"\n| low scores sampled with 50% instead of 10%, {name} | {rate:.2f} ± {se:.2f} |")
        assert rate <= 1 + 2 * se
    found = [
        run_stream(traffic, rng, days=30, p=later, loss=lambda d: 0.1 + 0 * d, stop_at_alarm=True).delay
        for _ in range(N // 2)
    ]
    print(f"\n| the same with a drop of 10 points | found after {np.median(found):.2f} days |")
    assert np.median(found) < 5


def test_failures_of_good_answers():
    """Failures rise from 3 to 10% of good answers: the failures alarm, the scores do in few streams."""
    rng = np.random.default_rng(25)
    fail = lambda since, x: (0.10 if x >= 0.8 else 0.03) if since >= 0 else 0.03  # noqa: E731
    traffic = Traffic(icc=0.0, size=1, scored_a_day=1000)
    quality = [run_stream(traffic, rng, days=30, fail=fail).alarms for _ in range(N)]
    failing = [run_stream(traffic, rng, days=30, fail=fail, kind="failures").delay for _ in range(N)]
    wrong = np.mean([bool(alarms) for alarms in quality])
    print(
        f"\n| failures 3 to 10% of good answers | quality alarms in {wrong:.0%} of streams, failures after {np.median(failing):.2f} days |"
    )
    assert wrong <= 0.1
    assert np.isfinite(failing).all()


def test_recovery_and_drift():
    """A drop for ten days is one alarm and recovers; a slow drift is found on its way."""
    rng = np.random.default_rng(26)
    for drop in (0.05, 0.1, 0.2):
        runs = [
            run_stream(Traffic(), rng, days=42, loss=lambda d, drop=drop: np.where(d < 10, drop, 0.0))
            for _ in range(N // 2)
        ]
        alarms = [sum(e == "alarm" for e, _ in run.events) for run in runs]
        back = [
            min((day - run.change_day - 10 for e, day in run.events if e == "recovered"), default=np.inf)
            for run in runs
        ]
        print(
            f"\n| drop of {drop:.0%} for 10 days | {np.mean(alarms):.2f} alarms, recovered after {np.median(back):.2f} days |"
        )
        assert np.mean(alarms) <= 1.2
    drift = [
        run_stream(Traffic(), rng, days=30, loss=lambda d: 0.1 * np.minimum(d / 14, 1), stop_at_alarm=True).delay
        for _ in range(N // 2)
    ]
    print(f"\n| drift of 10 points over 14 days | alarm after {np.median(drift):.1f} days |")
    assert np.median(drift) < 14


@pytest.mark.parametrize("reuse", [1, 5, 10])
def test_session_ids_reused_for_weeks(reuse):
    """A session id that comes back every day for some days: its units resemble each other."""
    from alarm_streams import false_alarms_at_the_reference

    class Reused(Traffic):
        def sessions(self, rng, n, loss):
            # Each of 20 units of a day is one of 20 users; a user stays for `reuse` days and copies the score of the last visit.
            turn = self.memory
            slot = turn["i"] % 20
            turn["i"] += 1
            fresh, k = super().sessions(rng, n, loss)
            old = turn.get(slot)
            keep = (rng.random(n) < 0.3) & (rng.random(n) >= 1 / reuse)
            x = fresh if old is None else np.where(keep, old, fresh)
            turn[slot] = x
            return x, k

    traffic = Reused(scored_a_day=100)
    object.__setattr__(traffic, "memory", {"i": 0})
    rate = false_alarms_at_the_reference(traffic, np.random.default_rng(27), n_streams=9000, quarters=1)
    print(f"\n| session ids used on {reuse} days, correlation .3 between visits | {rate:.2f} at the reference |")
    # The promise does not cover such streams, and `ragstone watch` says so.
    assert (rate <= 1) == (reuse == 1)
