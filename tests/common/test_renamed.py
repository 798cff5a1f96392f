"""Old names of the Python interface work, and say with a `DeprecationWarning` what they are called now."""

from pathlib import Path
from typing import Any

import pytest

import fedsim
from tests.conftest import Load

API: Any = fedsim
"""What is called without regard to its types: an old name has none."""


def test_functions_with_an_old_name_return_lists_as_they_did(small: Load) -> None:
    private = small("privacy={epsilon: 8, delta: 1.0e-8}")
    with pytest.warns(DeprecationWarning, match=r"fedsim\.chain is now fedsim\.participation_theory"):
        chain = API.chain
    with pytest.warns(DeprecationWarning, match=r"fedsim\.promises is now fedsim\.privacy_guarantees") as caught:
        promises = API.promises
    assert Path(caught[0].filename) == Path(__file__)
    for old, new in ((chain, fedsim.participation_theory), (promises, fedsim.privacy_guarantees)):
        (answer,) = one = old(private)
        several = old(private, separation=[0, 2])
        assert type(one) is type(several) is type(new(private, separation=[0, 2]))
        assert type(answer) is type(new(private)) is type(new(private, separation=2))
        assert len(several) == 2
    assert not {"chain", "promises"} & {*dir(fedsim)}


def test_parameters_with_an_old_name_mean_the_new_one(small: Load, tmp_path: Path) -> None:
    fleet = fedsim.live(small("stop.rounds=3", "learning=null"))
    first = next(fleet)
    first.report([1.0] * len(first.reporters))
    with pytest.warns(DeprecationWarning, match=r"LiveFleet\.told is now LiveFleet\.feedback") as caught:
        table = fleet.told
    assert Path(caught[0].filename) == Path(__file__)
    assert table.equals(fleet.feedback)
    with pytest.warns(DeprecationWarning, match=r"live\(told=\) is now live\(feedback=\)") as caught:
        assert next(API.live(fleet.scenario, told=table)).number == 1
    assert Path(caught[0].filename) == Path(__file__)
    with pytest.warns(DeprecationWarning, match=r"sweep\(tell=\) is now sweep\(on_error=\)"):
        API.sweep(small("stop.rounds=3", "sweep={seeds: 1}"), tmp_path / "s", workers=1, executor=THREAD, tell=print)


THREAD = "concurrent.futures:ThreadPoolExecutor"
