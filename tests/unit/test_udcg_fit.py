"""Learning UDCG's weights: the solver's problem, folds over questions, and what is left out."""

from __future__ import annotations

import random
import sys

import numpy as np
import pytest

from ragstone.errors import ConfigurationError, DataError, MissingExtraError
from ragstone.metrics import UdcgTheta
from ragstone_lab import fit_udcg
from ragstone_lab._udcg.complete import RatedContext
from ragstone_lab._udcg.rows import PassageRating
from ragstone_lab._udcg.svm import choose_c, cross_validated, design_of, solve


def passage(text, relevance, p):
    return {"text": text, "relevance": relevance, "metadata": {"udcg": {"p_abstain": p}}}


def world(n_questions, *, k=3, alpha=(3.0, 1.0, 0.2), beta=(0.3, 1.0, 0.3), noise=0.0, seed=0):
    """Rows whose grades follow from weights by position."""
    rng = random.Random(seed)
    rows = []
    for question in range(n_questions):
        for context in range(8):
            found = [(rng.random() < 0.4, rng.random()) for _ in range(k)]
            linear = sum(
                alpha[i] * (1 - p) if relevant else -beta[i] * (1 - p) for i, (relevant, p) in enumerate(found)
            )
            linear += rng.gauss(0, noise) if noise else 0
            grade = "correct" if linear > 0.8 else "abstain" if linear > 0 else "wrong"
            passages = [passage(f"{question} {context} {i}", int(r), p) for i, (r, p) in enumerate(found)]
            rows.append({"question_id": question, "query": "q", "contexts": passages, "grade": grade})
    return rows


def rated(question, utilities, grade):
    ratings = tuple(
        PassageRating(text=str(i), relevant=u > 0, gain=float(u > 0), utility=u, annotation={})
        for i, u in enumerate(utilities)
    )
    return RatedContext(question=question, id="x", ratings=ratings, grade=("wrong", "abstain", "correct")[grade])


def test_weights_that_made_the_grades_are_found():
    """Direction and order of the weights come back, and beat UDCG where position matters."""
    fit = fit_udcg(world(60), n_resamples=200)
    truth = np.array([3.0, 1.0, 0.2, 0.3, 1.0, 0.3])
    found = np.array([*fit.theta.alpha, *fit.theta.beta])
    cosine = truth @ found / np.sqrt((truth @ truth) * (found @ found))
    assert cosine > 0.97
    assert fit.correlation.low > fit.plain.high
    assert fit.gain.low > 0
    assert 60 == fit.gain.n
    assert fit.converged


def test_the_solver_solves_the_stated_problem():
    """|w|^2 / 2 + C / questions * sum of hinges, minimized by a general solver too."""
    from scipy.optimize import minimize

    rng = np.random.default_rng(4)
    contexts = [rated(str(q), rng.uniform(-1, 1, 2), int(rng.integers(0, 3))) for q in range(6) for _ in range(4)]
    design = design_of(contexts)
    teaching = [q for q in range(len(design.questions)) if design.has_different_grades(q)]
    differences = np.concatenate([design.differences[q] for q in teaching])
    c = 3.0

    def objective(w):
        return w @ w / 2 + c / len(teaching) * np.maximum(0, 1 - differences @ w).sum()

    weights, converged = solve(design, teaching, c, seed=0)
    best = min(
        minimize(objective, start, method="Nelder-Mead", options={"maxiter": 20_000, "fatol": 1e-12, "xatol": 1e-9}).fun
        for start in (np.zeros(4), weights)
    )
    assert converged
    assert objective(weights) <= best * (1 + 1e-3)


def test_one_pair_is_enough_to_learn():
    """The solver wants two classes; one pair stands for both."""
    design = design_of([rated("a", [0.9], 2), rated("a", [-0.5], 0)])
    weights, _ = solve(design, [0], 1.0, seed=0)
    # w = C * (x_i - x_j) while the margin is not reached; here it is reached: |x| = (0.9, 0.5), w = x / |x|^2.
    assert [0.9 / 1.06, 0.5 / 1.06] == pytest.approx(weights, abs=1e-3)


def test_held_out_questions_teach_nothing():
    """A question's scores do not change with its own grades."""
    rng = np.random.default_rng(0)
    contexts = [rated(str(q), rng.uniform(-1, 1, 3), int(rng.integers(0, 3))) for q in range(12) for _ in range(5)]
    contexts = [
        c if c.question != "7" else rated("7", [r.utility for r in c.ratings], i % 3) for i, c in enumerate(contexts)
    ]
    turned = [c if c.question != "7" else rated("7", [r.utility for r in c.ratings], 2 - c.rank) for c in contexts]
    own = [i for i, c in enumerate(contexts) if c.question == "7"]
    before, after = cross_validated(design_of(contexts)), cross_validated(design_of(turned))
    assert before[own].tolist() == after[own].tolist()
    others = [i for i in range(len(contexts)) if i not in own]
    assert before[others].tolist() != after[others].tolist()
    assert not np.isnan(before).any()


def test_nothing_is_learned_on_noise():
    """Grades that have nothing to do with the passages: the held-out correlation is around 0, unlike the fitted one."""
    rng = np.random.default_rng(1)
    contexts = [rated(str(q), rng.uniform(-1, 1, 5), int(rng.integers(0, 3))) for q in range(60) for _ in range(8)]
    design = design_of(contexts)
    held_out = cross_validated(design)
    questions = range(len(design.questions))
    assert abs(np.mean([design.correlation(q, held_out) for q in questions])) < 0.1


def test_c_is_chosen_by_held_out_questions():
    """All candidates are tried, and the smallest of the best is taken."""
    rng = np.random.default_rng(2)
    contexts = [
        rated(str(q), (u := rng.uniform(-1, 1, 2)), int(u[0] > 0) + int(u[0] > 0.5))
        for q in range(20)
        for _ in range(6)
    ]
    c, scores = choose_c(design_of(contexts), range(20), (0.01, 1.0, 100.0), folds=5, seed=0)
    assert {0.01, 1.0, 100.0} == set(scores)
    assert scores[c] == pytest.approx(max(scores.values()))


def test_same_seed_same_fit():
    """Folds, solver and bootstrap come from the seed."""
    rows = world(12, noise=0.5)
    assert fit_udcg(rows, seed=3).to_dict() == fit_udcg(rows, seed=3).to_dict()
    assert fit_udcg(rows, seed=3).to_dict() != fit_udcg(rows, seed=4).to_dict()


def test_rows_of_another_length_are_left_out_and_counted():
    """Weights are for one number of passages: the most frequent."""
    rows = world(10)
    rows += [row | {"contexts": row["contexts"][:2]} for row in rows[:5]]
    rows += [row | {"contexts": []} for row in rows[:2]]
    fit = fit_udcg(rows, n_resamples=50)
    assert (3, 80, {"no passages": 2, "not 3 passages": 5}) == (fit.theta.k, fit.n_contexts, fit.left_out)
    assert "excluded, not 3 passages: 5" in str(fit)


def test_a_fit_can_be_saved_and_used(tmp_path):
    """The file says how the weights came about."""
    fit = fit_udcg(world(10), svm_c=(0.1, 10.0), n_resamples=50)
    fit.theta.save(tmp_path / "theta.json")
    found = UdcgTheta.load(tmp_path / "theta.json")
    assert (fit.theta.alpha, fit.theta.beta) == (found.alpha, found.beta)
    assert {"0.1", "10"} == set(found.fit["by_c"])
    assert fit.c in (0.1, 10.0)
    assert fit.correlation.value == found.fit["spearman_held_out"][0]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (world(1), "1 of 1 questions"),
        ([row | {"grade": "wrong"} for row in world(3)], "0 of 3 questions"),
        ([], "does not contain rows"),
        ([row | {"contexts": []} for row in world(2)], "none of 16 rows has passages"),
        ([row | {"grade": "good"} for row in world(2)], "'correct' \\(2, A\\), 'abstain' \\(1, C"),
        ([{"contexts": ["a"], "grade": "abstain"}], "neither a question_id nor a query"),
    ],
)
def test_data_that_cannot_teach_is_refused(rows, words):
    """The message counts what there is."""
    with pytest.raises(DataError, match=words):
        fit_udcg(rows)


@pytest.mark.parametrize("grid", [(), (0.0,), (-1.0,), (float("nan"),), (float("inf"),)])
def test_grid_must_be_positive(grid):
    """Before anything is asked."""
    with pytest.raises(ConfigurationError, match="svm_c"):
        fit_udcg(world(3), svm_c=grid)


def test_missing_scikit_learn_is_told_first(monkeypatch):
    """The install line, before anything is spent."""
    monkeypatch.setitem(sys.modules, "sklearn.svm", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'ragstone-lab\[fit\]'"):
        fit_udcg([])


def test_missing_utilities_are_never_guessed(monkeypatch):
    """No one is named to ask: an error that counts the rows, and says what to do."""
    monkeypatch.delenv("RAGSTONE_JUDGE", raising=False)
    monkeypatch.delenv("RAGSTONE_READER", raising=False)
    rows = world(3)
    rows[0] = rows[0] | {"contexts": ["bare", "bare too", "bare as well"]}
    rows[1] = {name: value for name, value in rows[1].items() if name != "grade"}
    with pytest.raises(ConfigurationError, match="2 of 24 rows lack"):
        fit_udcg(rows)


def test_features_of_variants():
    """Utilities, only those of relevant passages, or only whether passages are relevant."""
    contexts = [rated("q", (0.8, -0.3), 2), rated("q", (-0.5, 0.1), 0)]
    assert [[0.8, 0, 0, -0.3], [0, 0.1, -0.5, 0]] == design_of(contexts).x.tolist()
    assert [[0.8, 0], [0, 0.1]] == design_of(contexts, "relevance_only").x.tolist()
    assert [[1, 0], [0, 1]] == design_of(contexts, "binary").x.tolist()


def test_each_weight_has_its_error():
    """The intervals are as wide as weights vary between data sets, and belong to their weights."""
    options = {"svm_c": [1.0], "n_resamples": 200}
    fit = fit_udcg(world(30, noise=1.0), **options)
    assert [*fit.theta.alpha, *fit.theta.beta] == [one.value for one in (*fit.alpha, *fit.beta)]
    others = [fit_udcg(world(30, noise=1.0, seed=seed), **options | {"n_resamples": 1}) for seed in range(1, 16)]
    spread = np.std([[*other.theta.alpha, *other.theta.beta] for other in others], axis=0, ddof=1)
    widths = np.array([one.high - one.low for one in (*fit.alpha, *fit.beta)])
    assert 0.75 < np.mean(widths) / (2 * 1.96 * np.mean(spread)) < 1.4
    assert all(one.low < one.value < one.high and 30 == one.n for one in (*fit.alpha, *fit.beta))
    first = fit.alpha[0]
    assert f"{first.value:.3f} [{first.low:.3f}, {first.high:.3f}]" in str(fit)
    assert "distraction [95% CI]" in str(fit)
    assert [[one.low, one.high] for one in fit.beta] == fit.to_dict()["beta_intervals"]
    assert [first.low, first.high] == fit.to_dict()["alpha_intervals"][0]


@pytest.mark.parametrize(("n", "n_intervals"), [(9, 0), (10, 3)])
def test_few_questions_leave_weights_without_an_interval(n, n_intervals):
    """The bootstrap needs 10 questions."""
    fit = fit_udcg(world(n), svm_c=[1.0], n_resamples=20)
    assert n == fit.n_questions
    assert n_intervals == len(fit.alpha) == len(fit.beta) == len(fit.to_dict()["alpha_intervals"])
    assert ("95% CI" in str(fit).splitlines()[2]) == (n_intervals > 0)
