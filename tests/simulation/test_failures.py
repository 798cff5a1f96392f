"""Sessions that fail by themselves: the same in both engines, at the rate that is given, and the device stays."""

from typing import Any

import polars as pl
import pytest

from fedsim import Scenario, simulate
from fedsim.scenario.document import Document

SERVERS: dict[str, dict[str, Any]] = {
    "sync": {"cohort": 6, "over_select": 1.5, "deadline": "4m", "pause": "1m"},
    "buffered": {"mode": "buffered", "concurrency": 6, "buffer": 4, "deadline": "4m"},
}


def scenario(engine: str, server: str, fails: float | None = 6.0, **more: Any) -> Scenario:
    session: dict[str, Any] = {
        "download": "0s",
        "train": {"kind": "lognormal", "median": "2m", "sigma": 0.6},
        "upload": "0s",
    }
    group = {"devices": 40, "session": session | ({} if fails is None else {"fails": {"per_hour": fails}}), **more}
    calm = {"devices": 10, "name": "calm", "session": session}
    data = {"stop": {"duration": "20h"}, "population": [group, calm], "server": SERVERS[server], "engine": engine}
    return Scenario.of_document(Document(data))


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize(
    "more", [{}, {"availability": {"kind": "renewal", "on": "20m", "off": "10m"}, "separation": 1}]
)
def test_both_engines_write_the_same(server: str, more: dict[str, Any]) -> None:
    one, other = (simulate(scenario(engine, server, **more)) for engine in ("process", "vectorized"))
    assert one.participations.equals(other.participations)
    assert one.rounds.equals(other.rounds)


def test_the_rate_is_the_one_that_is_given() -> None:
    """Of devices that are always there all drop-outs are failures: within four standard errors of 6 in an hour."""
    run = simulate(scenario("auto", "sync"))
    sessions = run.participations.with_columns(length_s=pl.col("ended_s") - pl.col("selected_s")).filter(
        pl.col("client") < 40
    )
    count, hours = sessions.filter(outcome="dropped").height, float(sessions["length_s"].sum()) / 3600
    assert abs(count / hours - 6.0) < 4 * count**0.5 / hours
    assert run.participations.filter(pl.col("client") >= 40, pl.col("outcome") == "dropped").is_empty()


def test_lengths_are_those_of_a_run_without_failures() -> None:
    """In the first round, whose draws and cohort are the same."""
    one, other = (simulate(scenario("auto", "sync", fails)).participations.filter(round=0) for fails in (1e-3, None))
    assert one.equals(other)


def test_a_device_whose_session_failed_is_selected_again() -> None:
    """It is always there, and with a fleet of one cohort it must come in the next round."""
    run = simulate(scenario("auto", "sync", 3600.0).with_values({"server.cohort": 33, "stop": {"rounds": 20}}))
    dropped = run.participations.filter(outcome="dropped", round=3)["client"]
    assert len(dropped) > 0
    assert {*dropped} <= {*run.participations.filter(round=4)["client"]}
