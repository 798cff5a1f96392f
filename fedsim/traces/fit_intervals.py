"""Confidence intervals of a fitted renewal model, by leaving out groups of devices.

Lengths of one device may depend on each other, so devices are what is independent. They are dealt into twenty groups;
the chosen laws are fitted again without each of them, and the spread of what comes of it gives the standard error of
the logarithm of each parameter (the delete-a-group jackknife: Shao and Tu, *The Jackknife and Bootstrap*, 1995, section
2.3). The interval is two-sided, of 95 %, by Student's law with 19 degrees of freedom. That the laws were chosen by the
same data, and that an exponential process may be taken for a Weibull one, is not in it.
"""

from collections.abc import Mapping

import numpy as np

from fedsim.availability.trace.pattern import Pattern
from fedsim.availability.trace.unions import select
from fedsim.traces.fit_renewal import Lengths, fit_kind, lengths_on_and_off

GROUPS = 20
_STUDENT = 2.0930  # the 97.5 % quantile with 19 degrees of freedom

Intervals = dict[str, dict[str, tuple[float, float]]]
"""Ends of the interval by parameter, by ``on`` and ``off``; times in seconds."""


def renewal_intervals(pattern: Pattern, kinds: Mapping[str, str], open_: str) -> Intervals:
    """Return 95 % intervals of the parameters of a renewal model fitted to a trace.

    Parameters
    ----------
    pattern
        The trace that it was fitted to.
    kinds
        Of the laws of ``on`` and ``off``.
    open_
        Which of the two has its mean from the share of time available.

    Returns
    -------
    Empty for a law that cannot be fitted without one of the groups.

    Raises
    ------
    ValueError
        If there are fewer than two devices for each group.
    """
    devices = len(pattern.spans)
    if devices < 2 * GROUPS:
        raise ValueError(f"{devices} devices are too few for intervals; at least {2 * GROUPS} are needed")
    without = [_fitted(pattern, kinds, open_, np.arange(devices) % GROUPS != group) for group in range(GROUPS)]
    found: Intervals = {"on": {}, "off": {}}
    for name in found:
        sources = [each[name] for each in without]
        if any(source is None for source in sources):
            continue
        for parameter in sources[0] or {}:
            logs = np.log([source[parameter] for source in sources if source is not None])
            error = np.sqrt((GROUPS - 1) / GROUPS * ((logs - logs.mean()) ** 2).sum())
            low, high = np.exp(logs.mean() + _STUDENT * error * np.array([-1.0, 1.0]))
            found[name][parameter] = (float(low), float(high))
    return found


def _fitted(
    pattern: Pattern, kinds: Mapping[str, str], open_: str, keep: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> dict[str, dict[str, float] | None]:
    """Return the parameters of both laws, fitted to some of the devices as the model was to all."""
    spans, begin, end = select(pattern.spans, keep), pattern.begin, pattern.begin + pattern.covered
    lengths: dict[str, Lengths] = dict(zip(("on", "off"), lengths_on_and_off(spans, begin, end), strict=True))
    share = float((spans.ends - spans.starts).sum()) / (len(spans) * pattern.covered)
    known = "on" if open_ == "off" else "off"
    first = fit_kind(kinds[known], lengths[known])
    if first is None or not 0.0 < share < 1.0:
        return {"on": None, "off": None}
    ratio = (1 - share) / share if open_ == "off" else share / (1 - share)
    other = fit_kind(kinds[open_], lengths[open_], first.mean * ratio)
    return {known: first.parameters, open_: None if other is None else other.parameters}
