"""The objective that mechanisms are optimized for, with its gradient, and the cache of the results on disk."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from fedsim.common.arrays import Floats
from fedsim.common.errors import RunError
from fedsim.common.files import cache_home, write_text
from fedsim.common.json_files import checksum, read_object
from fedsim.common.later import optimize
from fedsim.privacy.bounds import ParticipationBounds
from fedsim.privacy.sensitivity import correlation, inverse, product, shifted_sum, worst_response

Objective: TypeAlias = Literal["rms", "max"]

_ORDER = 40  # of the norm that stands for a largest value
_VERSION = 1  # of the searches: results of an older one are not used


def objective_of(coefficients: Floats, bounds: ParticipationBounds, objective: Objective) -> tuple[float, Floats]:
    """Return ln(sensitivity^2 error^2), and its derivatives by the coefficients (m,).

    With h = 1 / c and g the running sums of h, error^2 = sum_j w_j g_j^2; dg = -(h * g) * dc, so that the derivative by
    c_m is minus the correlation of 2 w g with h * g. The sensitivity is the norm of a sum of shifted copies of c, and
    its derivative is the same sum taken backwards. Of clients with bounds of their own a norm of high order over their
    sensitivities stands for the largest.
    """
    n, of_clients = bounds.rounds, bounds.of_clients
    responses = [worst_response(coefficients, each) for each in of_clients]
    spreads = np.array([float(response @ response) for response in responses])
    shares = (spreads / spreads.max()) ** (_ORDER - 1)
    spread = float(spreads.max() * np.sum((spreads / spreads.max()) ** _ORDER) ** (1 / _ORDER))
    shares *= (spreads.max() / spread) ** (_ORDER - 1)
    by_spread = sum(
        2.0 * share * shifted_sum(response[::-1], each)[::-1]
        for share, response, each in zip(shares.tolist(), responses, of_clients, strict=True)
    )
    h = inverse(coefficients, n)
    g = np.cumsum(h)
    weight = np.ones(n) if objective == "max" else np.arange(n, 0, -1) / n
    squared = float(weight @ (g * g))
    by_error = -correlation(2.0 * weight * g, product(h, g, n))
    slope = by_spread / spread + by_error / squared
    return float(np.log(spread) + np.log(squared)), slope[: len(coefficients)]


def minimize_loss(
    loss: Callable[[Floats], tuple[float, Floats]], start: Floats, limits: list[tuple[float, float]], steps: int
) -> Any:
    """Return what L-BFGS-B finds from a start: its ``x``, and the loss ``fun`` there."""
    options = {"maxiter": steps, "maxcor": 20, "ftol": 1e-12, "gtol": 1e-8}
    return optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=limits, options=options)  # type: ignore[call-overload]


def cached(question: tuple[Any, ...], answer: Callable[[], Floats]) -> Floats:
    """Return the answer, finite numbers (m,), from the disk if the same question has been answered before.

    The question is everything that the answer depends on, as JSON values. Answers are kept in ``fedsim/mechanisms`` in
    the user's folder for caches, if there is one and it can be written.
    """
    text = json.dumps([_VERSION, *question])
    if (home := cache_home()) is None:
        return answer()
    file = home / "fedsim" / "mechanisms" / f"{question[0]}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
    if (stored := _read(file, text)) is not None:
        return stored
    values = answer()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        content = {"question": text, "values": values.tolist()}
        write_text(file, json.dumps({**content, "checksum": checksum(content)}))
    except (OSError, RunError):
        pass  # it is computed again the next time
    return values


def _read(file: Path, question: str) -> Floats | None:
    """Return the numbers of a file; None if it does not answer this question, or is damaged."""
    try:
        stored = read_object(file)
        fits = stored.pop("checksum") == checksum(stored) and stored["question"] == question
        values = np.array(stored["values"], dtype=np.float64)
        return values if fits and values.ndim == 1 and np.isfinite(values).all() else None
    except (RunError, ValueError, TypeError, KeyError):
        return None
