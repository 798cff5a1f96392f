"""The method that `auto` picks, the public names, and the JSON object of one result."""

import json
import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import ArrayLike

import fedsim.theory
from fedsim.common.errors import ChainError
from fedsim.theory import Stationary, answer, closed_form, exact, mean_field, monte_carlo, stationary

WEIGHTS = np.array([0.5, 1.0, 2.0, 0.3, 1.5, 0.7])


@pytest.mark.long
@pytest.mark.parametrize(
    ("weights", "separation", "cohort", "law", "method"),
    [
        (WEIGHTS, 2, 1, "midzuno", "closed-form"),
        (WEIGHTS, [1, 1, 1, 1, 1, 1], 2, "midzuno", "closed-form"),
        (WEIGHTS, 1, 2, "groups", "closed-form"),
        (WEIGHTS, 1, 2, "uniform", "closed-form"),
        (WEIGHTS, [2, 2, 1, 0, 1, 2], 2, "cyclic", "closed-form"),
        (WEIGHTS, 2, 1, "successive", "closed-form"),
        (WEIGHTS, 1, 2, "successive", "exact"),
        (WEIGHTS, 1, 2, "bernoulli", "exact"),
        (WEIGHTS, [0, 1, 2, 1, 0, 0], 2, "midzuno", "exact"),
        (WEIGHTS, [0, 1, 2, 1, 0, 0], 2, "uniform", "exact"),
        (np.arange(1.0, 1001.0), np.arange(1000) % 9, 10, "midzuno", "mean-field"),
        (np.arange(1.0, 1001.0), 9, 10, "successive", "mean-field"),
        (10.0 ** -np.arange(0.0, 4.0, 0.2), np.arange(20) % 8, 1, "midzuno", "monte-carlo"),
    ],
)
def test_auto_picks_the_best_method(
    weights: ArrayLike, separation: ArrayLike, cohort: int, law: str, method: str
) -> None:
    result = stationary(weights, separation, cohort, law)
    assert result.method == method
    assert result.pi.sum() == pytest.approx(1.0, abs=1e-12)
    assert (result.error_bound is None) == (method == "monte-carlo")
    assert (result.standard_error is None) == (method != "monte-carlo")


@pytest.mark.parametrize(
    "function", [closed_form, exact, mean_field, pytest.param(monte_carlo, marks=pytest.mark.long)]
)
def test_a_method_that_is_named_is_the_one_used(function: Callable[..., Stationary]) -> None:
    method = function.__name__.replace("_", "-")
    result = stationary(WEIGHTS, 2, 1, method=method)
    assert result.method == method
    np.testing.assert_array_equal(result.pi, function(WEIGHTS, 2, 1).pi)


@pytest.mark.long
def test_another_seed_is_another_sample() -> None:
    assert (
        stationary(WEIGHTS, 2, method="monte-carlo", seed=1).pi != stationary(WEIGHTS, 2, method="monte-carlo").pi
    ).any()


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(ChainError, match="no method 'oracle': choose one of auto, closed-form"):
        stationary(WEIGHTS, 2, method="oracle")


def test_a_chain_that_stalls_is_not_answered_by_another_method() -> None:
    with pytest.raises(ChainError, match="stalls"):
        stationary(np.ones(4), [0, 2, 1, 1], 2)


@pytest.mark.parametrize(
    "method", ["closed-form", "exact", "mean-field", pytest.param("monte-carlo", marks=pytest.mark.long)]
)
def test_json_of_one_result(method: str) -> None:
    result = stationary(WEIGHTS, 1, 2, method=method)
    text = json.dumps(answer(result), allow_nan=False)
    back = json.loads(text)
    assert list(back)[:2] == ["separation", "method"]
    assert {"clients", "cohort", "pi", "l1_uniform", "tv_uniform", "standard_error", "error_bound", "law"} <= set(back)
    assert (back["separation"], back["method"], back["clients"], back["cohort"]) == (1, method, 6, 2)
    assert math.fsum(back["pi"]) == pytest.approx(1.0)
    assert back["tv_uniform"] == back["l1_uniform"] / 2.0


def test_json_has_one_separation_per_client_and_no_infinity() -> None:
    assert answer(exact(WEIGHTS, [0, 1, 2, 1, 0, 0], 2))["separation"] == [0, 1, 2, 1, 0, 0]
    unseen = monte_carlo([1.0, 1.0, 1e-12], 0, replicas=4, rounds=25)
    assert answer(unseen)["ratio"] is None
    json.dumps(answer(unseen), allow_nan=False)


def test_public_names() -> None:
    assert sorted(fedsim.theory.__all__) == [
        "CHAIN_LAWS",
        "Convergence",
        "Fluctuation",
        "METHODS",
        "Mixing",
        "RunningFrequencies",
        "Stationary",
        "answer",
        "asymptotic_variance",
        "best_prior",
        "closed_form",
        "convergence",
        "distances",
        "exact",
        "largest_separation",
        "mean_field",
        "mean_model",
        "mixing",
        "monte_carlo",
        "rounds_for_all",
        "rounds_needed",
        "running_frequencies",
        "smallest_separation",
        "stationary",
    ]


def test_an_answer_is_told_in_a_line_however_many_clients_there_are() -> None:
    assert repr(stationary(np.arange(1, 100_001), 0, 5)).count("\n") == 0
    assert repr(stationary([1, 2, 3, 4, 5], 1, 2)) == (
        "Stationary(clients=5, cohort=2, law='midzuno', method='closed-form', tv_uniform=0.027451, ratio=1.19565)"
    )
