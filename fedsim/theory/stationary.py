"""The best answer to a question, and its form as JSON."""

from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedsim.common.errors import CannotAnswerError, ChainError
from fedsim.selection.rules import MIDZUNO
from fedsim.theory.closed_form import closed_form, has_closed_form
from fedsim.theory.exact import exact
from fedsim.theory.mean_field import mean_field
from fedsim.theory.monte_carlo import monte_carlo
from fedsim.theory.question import AnyRule, Stationary, ask

METHODS = ("auto", "closed-form", "exact", "mean-field", "monte-carlo")

EXACT_UP_TO = 20_000
"""States that the method ``auto`` enumerates."""
_IN_JSON = (
    *("separation", "method", "clients", "cohort", "law", "pi", "pull", "l1_uniform", "tv_uniform", "ratio"),
    *("error_bound", "standard_error", "period", "caveats"),
)
_GOOD_ENOUGH = 0.02  # relative error that `auto` accepts of the mean field


def stationary(
    weights: ArrayLike,
    separation: ArrayLike,
    cohort: int = 1,
    law: AnyRule = MIDZUNO,
    method: str = "auto",
    *,
    seed: int = 0,
) -> Stationary:
    """Stationary participation of every client, by the best method or by the one that is named, and its error.

    `weights`, (N,), are positive, and only their ratios matter; the `separation`, in rounds, is one common R or (N,)
    one R_i per client; a `cohort` is B clients per round; the `law` is a rule of selection, or the name of a
    built-in one. The `method` is one of `METHODS`; ``auto`` takes the closed form where there is
    one; else exact up to 20,000 states; else the mean field if it expects a relative error of at most 2 %; else Monte
    Carlo, which alone has a `seed`.

    Raises a `ChainError` if the question makes no sense, or the method that is named cannot answer it.
    """
    if method not in METHODS:
        raise ChainError(f"there is no method {method!r}: choose one of {', '.join(METHODS)}")
    if method == "auto":
        with suppress(CannotAnswerError):
            best = without_draws(weights, separation, cohort, law)
            if best.method != "mean-field" or (best.error_bound is not None and best.error_bound <= _GOOD_ENOUGH):
                return best
    elif method != "monte-carlo":
        of_method = {"closed-form": closed_form, "exact": exact, "mean-field": mean_field}[method]
        return of_method(weights, separation, cohort, law)
    return monte_carlo(weights, separation, cohort, law, seed=seed)


def without_draws(weights: ArrayLike, separation: ArrayLike, cohort: int = 1, rule: AnyRule = MIDZUNO) -> Stationary:
    """Return the answer of the closed form, else of up to 20,000 states, else of the mean field, however good it is."""
    question = ask(weights, separation, cohort, rule, constant=True)
    if question.rule.says("constant") or has_closed_form(question):
        return closed_form(weights, separation, cohort, rule)
    try:
        return exact(weights, separation, cohort, rule, limit=EXACT_UP_TO)
    except CannotAnswerError:
        return mean_field(weights, separation, cohort, rule)


def answer(result: Stationary) -> dict[str, Any]:
    """Return any result of this package as the object that ``fedsim chain`` prints: strict JSON, no NaN or infinity.

    ``separation`` is an integer, or one per client; ``ratio``, of the largest pi to the smallest, is null when that is
    infinite; ``pull`` is null where it is pi; ``error_bound`` is null for Monte Carlo and ``standard_error`` for all
    others; ``period`` is null unless computed; ``caveats`` are sentences.
    """
    plain = {
        name: each.tolist() if isinstance(each := getattr(result, name), np.ndarray) else each for name in _IN_JSON
    }
    return plain | {"ratio": result.ratio if result.pi.min() > 0.0 else None, "caveats": list(result.caveats)}
