"""How sessions end, beside a walk through the instants of each."""

import numpy as np
import pytest

from fedsim.common.instants import FOREVER
from fedsim.common.outcomes import CODES, ROUND_OUTCOMES, SESSION_OUTCOMES
from fedsim.simulation.endings import Limits


def walked(instants: list[int], limit: int, beyond: str, *, cuts: bool) -> tuple[int, str]:
    """Go from instant to instant: what ends a session comes before its report, and the server's turn is the last."""
    (report, device, fails), waits = instants, True
    for instant in sorted({*instants, limit}):
        if instant in {device, fails}:
            return instant, "dropped"
        if instant == report:
            return instant, "reported" if waits else beyond
        waits = instant < limit
        if not waits and cuts:
            return instant, beyond
    raise AssertionError


@pytest.mark.parametrize("beyond", ["late", "aborted"])
@pytest.mark.parametrize("cuts", [True, False])
def test_sessions_end_at_the_first_instant_that_ends_them(beyond: str, cuts: bool) -> None:
    instants = np.random.default_rng(5).integers(1, 7, (2000, 3))
    instants[::3, 1] = instants[1::3, 2] = FOREVER
    for limit in (1, 3, 5, FOREVER):
        failure = np.full(len(instants), CODES["dropped"], dtype=np.int8)
        failure[::2] = CODES["failed"]  # as another cause of failures would have it
        report, device, fails = instants.T
        endings = Limits(report, device, fails, failure).endings(limit, beyond, cuts=cuts)  # type: ignore[arg-type]
        one = [walked(each, limit, beyond, cuts=cuts) for each in instants.tolist()]
        for place, (_, device, fails) in list(enumerate(instants.tolist()))[::2]:
            at, outcome = one[place]  # where its device leaves at that instant, that is why
            one[place] = (at, "failed" if outcome == "dropped" and fails == at < device else outcome)
        assert np.stack(endings, axis=1).tolist() == [[at, CODES[outcome]] for at, outcome in one]
    alone = Limits(
        reports := instants[:1, 0], FOREVER, FOREVER
    ).endings()  # one session, of which nothing else is known
    assert (alone.at.tolist(), alone.outcomes.tolist()) == ([int(reports[0])], [CODES["reported"]])


def test_each_outcome_says_what_follows() -> None:
    assert [name for name, each in SESSION_OUTCOMES.items() if each.is_cut] == ["dropped", "aborted"]
    assert {each.remaining for each in ROUND_OUTCOMES.values()} <= SESSION_OUTCOMES.keys()
    assert not SESSION_OUTCOMES["reported"].by_device
