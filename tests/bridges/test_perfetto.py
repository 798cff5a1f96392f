"""Export as a trace: what a viewer needs, and nothing that it would choke on."""

import json
from pathlib import Path

import pytest

from fedsim.bridges.exports import export_perfetto
from fedsim.run.simulate import simulate
from tests.conftest import Load

RENEWAL = "population.0.availability={kind: renewal, on: 5m, off: 5m}"


def test_every_round_and_session_is_a_slice(small: Load, tmp_path: Path) -> None:
    result = simulate(small(RENEWAL, "records={transitions: [0, 1]}"))
    assert export_perfetto(result.save(tmp_path / "run"), tmp_path / "trace.json") == 0
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    sessions = [event for event in slices if "client" in event["args"]]
    assert len(sessions) == len(result.participations)
    first = result.participations.row(0, named=True)
    assert (sessions[0]["ts"], sessions[0]["tid"]) == (first["selected_s"] * 1e6, first["client"])
    assert sessions[0]["dur"] == pytest.approx((first["ended_s"] - first["selected_s"]) * 1e6)
    rounds = [event for event in slices if "reported" in event["args"]]
    assert len(rounds) == result.rounds["selected_s"].drop_nulls().len()
    assert {"server", "everyone", "client 0: available"} <= {event["args"].get("name") for event in events}
    assert result.transitions is not None
    held = [event for event in slices if event["name"] == "available"]
    assert abs(len(held) - len(result.transitions.filter("on"))) <= 2
    assert all(event["dur"] >= 0 for event in slices)
