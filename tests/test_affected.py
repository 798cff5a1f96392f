"""`make test ROOM=theory` runs the tests of the rooms that use the theory, and no tests of the rooms before it."""

from pathlib import Path

import pytest

from tests.affected import main, rooms_affected, what_to_run
from tests.test_layers import ROOMS


def test_a_change_affects_the_rooms_that_import_it() -> None:
    affected = rooms_affected("theory")
    assert {"theory", "run", "pages", "cli"} <= affected
    assert affected.isdisjoint({"scenario", "availability", "simulation"})
    assert rooms_affected("common") == set(ROOMS)


def test_tests_of_no_room_are_always_run() -> None:
    found = what_to_run("traces")
    assert {Path("tests/traces"), Path("tests/fuzz"), Path("tests/test_layers.py")} <= set(found)
    assert Path("tests/simulation") not in found


def test_an_unknown_room_is_refused() -> None:
    with pytest.raises(SystemExit, match="'nowhere' is no room of fedsim; there are: common, scenario"):
        main("nowhere")
