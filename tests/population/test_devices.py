"""Classes of devices, sessions from work, and memory that keeps devices out."""

import numpy as np
import pytest

from fedsim.common.errors import ScenarioError
from fedsim.common.keyed import Purpose, stream
from fedsim.population import build_population, check_feasible
from fedsim.population.sessions import longest_sessions, session_phases
from fedsim.run.preflight import notes_of, preflight
from fedsim.scenario import Scenario
from fedsim.scenario.devices import DEVICE_CLASSES, PLACES
from fedsim.theory.prediction import theory_or_why_not
from tests.conftest import Write

LINK = "link: {down: 8Mbps, up: 4Mbps}"
WORK = f"model: 1MB, samples: 100, {LINK}"


def loaded(write: Write, session: str, *overrides: str) -> Scenario:
    text = f"stop: {{rounds: 5}}\npopulation:\n  - {{devices: 400, session: {{{session}}}}}\nserver: {{cohort: 1}}\n"
    return Scenario.load(write(text), overrides)


def complaint(write: Write, session: str, *overrides: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        build_population(loaded(write, session, *overrides))
    return str(caught.value)


def test_twenty_classes_have_figures_in_order() -> None:
    assert len(DEVICE_CLASSES) >= 16
    for each in DEVICE_CLASSES:
        assert 0.008 < each.step_s < 0.5, each
        assert 5e8 <= each.memory <= 16e9
        assert min(each.down_w, each.train_w, each.up_w) > 0


def test_training_takes_samples_times_cost_times_the_class(write: Write) -> None:
    made = build_population(loaded(write, f"{WORK}, cost: 2, device: {{jetson-nano: 1, raspberry-pi-4: 3}}"))
    assert made.device is not None
    assert made.device.dtype == np.int8
    assert made.train_s is not None
    steps = {PLACES[name]: DEVICE_CLASSES[PLACES[name]].step_s for name in ("jetson-nano", "raspberry-pi-4")}
    assert made.train_s == pytest.approx([200 * steps[each] for each in made.device.tolist()])
    # A fair share is off by more than 4 standard deviations once in 16,000 seeds.
    assert (made.device == PLACES["raspberry-pi-4"]).mean() == pytest.approx(0.75, abs=4 * np.sqrt(0.75 * 0.25 / 400))


def test_a_column_names_classes(write: Write) -> None:
    source = f"{WORK}, device: {{kind: column, file: fleet.csv, column: phone}}"
    folder = write("stop: {rounds: 1}\n").parent
    (folder / "fleet.csv").write_text("phone\n" + "jetson-nano\niphone-5s\n" * 200)
    made = build_population(loaded(write, source))
    assert made.device is not None
    assert made.device[:2].tolist() == [PLACES["jetson-nano"], PLACES["iphone-5s"]]
    (folder / "fleet.csv").write_text("phone\n" + "jetson-nano\n" * 399 + "iphone\n")
    said = "column 'phone' of 'fleet.csv': value 399: unknown class of devices 'iphone'; did you mean 'iphone-5s'?"
    assert f"session.device: {said}" in complaint(write, source)


def test_each_device_has_the_link_of_its_row(write: Write) -> None:
    """In every session; its other group draws a speed for each."""
    links = ", ".join(f"{way}: {{kind: column, file: links.csv, column: {way}}}" for way in ("down", "up"))
    own = f"  - {{devices: 3, session: {{model: 1MB, samples: 100, device: jetson-nano, link: {{{links}}}}}}}\n"
    law = f"  - {{devices: 2, session: {{{WORK}, device: jetson-nano}}}}\n"
    path = write(f"stop: {{rounds: 5}}\npopulation:\n{own}{law}server: {{cohort: 1}}\n")
    (path.parent / "links.csv").write_text("down,up\n8e6,1e6\n4e6,2e6\n2e6,4e6\n")
    scenario = Scenario.load(path)
    made = build_population(scenario)
    phases = session_phases(scenario, made, stream(0, 0, Purpose.SESSION))
    for number in (0, 7):
        down, _, up = phases(np.arange(5), number)
        assert down.tolist() == [1.0, 2.0, 4.0, 1.0, 1.0]
        assert up.tolist() == [8.0, 4.0, 2.0, 2.0, 2.0]
    assert made.train_s is not None
    assert longest_sessions(scenario, made, 1e-9) == pytest.approx(made.train_s + np.array([9, 6, 6, 3, 3]))
    assert "links of their own" in str(theory_or_why_not(scenario, made))
    (path.parent / "links.csv").write_text("down,up\n8e6,1e6\n4e6,2e6\n")
    with pytest.raises(ScenarioError, match=r":3:\d+: error: population\[0\].session.link.down: column 'down'"):
        build_population(scenario)


def test_memory_keeps_devices_out_for_good(write: Write) -> None:
    case = loaded(write, f"{WORK}, device: {{iphone-5s: 1, kirin-970: 1}}, needs: 2GB")
    made = build_population(case)
    assert made.device is not None
    small = made.device == PLACES["iphone-5s"]
    assert made.barred.tolist() == np.flatnonzero(small).tolist()
    (note,) = [each for each in notes_of(preflight(case)) if "session.needs" in each and "of 400" in each]
    assert note.startswith(f"caution: {small.sum()} of 400 devices have less memory than session.needs")
    wide = case.with_values({"server.cohort": 390})
    (mistake,) = check_feasible(wide, made)
    assert f"the population has {400 - small.sum()} that may take part" in mistake.message


@pytest.mark.parametrize(
    "more", ["", "privacy: {epsilon: 8, delta: 1e-6, mechanism: banded}", "server: {cohort: 4, selection: poisson}"]
)
def test_somebody_must_be_left_in(write: Write, more: str) -> None:
    server = "" if "server" in more else "server: {cohort: 4}"
    groups = "[{devices: 30, left_out: true}, {devices: 20, left_out: true, separation: 2}]"
    file = write(f"stop: {{rounds: 20}}\npopulation: {groups}\n{server}\n{more}\n")
    with pytest.raises(ScenarioError, match=r"2:\d+: error: population\[0\].left_out: every group is left out") as told:
        preflight(Scenario.load(file))
    assert len(told.value.mistakes) == 1


def test_a_share_of_the_sessions_goes_over_the_network_at_work(write: Write) -> None:
    """Both ways of a session go over one network; the share is off by 4 standard deviations once in 16,000 seeds."""
    link = "link: {down: 8Mbps, up: 4Mbps, work: {share: 0.3, down: 2Mbps, up: 1Mbps}}"
    case = loaded(write, f"model: 1MB, samples: 100, {link}, device: jetson-nano")
    made = build_population(case)
    phases = session_phases(case, made, stream(1, 0, Purpose.SESSION))
    lengths = np.concatenate([phases(np.arange(400), number) for number in range(50)], axis=1)
    assert set(zip(lengths[0].tolist(), lengths[2].tolist(), strict=True)) == {(1.0, 2.0), (4.0, 8.0)}
    assert (lengths[0] == 4.0).mean() == pytest.approx(0.3, abs=4 * np.sqrt(0.3 * 0.7 / 20_000))
    assert "two networks" in str(theory_or_why_not(case, made))


TIMES = "is of a session in plain times; this one follows from work"
SPEEDS = "model: 1MB, samples: 1, device: iphone-5s, link: {down: DOWN, up: 1Mbps}"
MISTAKES = {
    f"{WORK}, device: iphone-6": "session.device: unknown class of devices 'iphone-6'; did you mean 'iphone-5s'?",
    f"{WORK}, device: iphone-5s, train: 60s": f"session.train: {TIMES}",
    f"{WORK}, device: iphone-5s, needs: 2GB": "needs: no device of the group has so much memory: the largest has 1GB",
    "model: 5, device: iphone-5s": "session.model: must have a unit, such as 500kB, 5MB, 3GiB, not 5",
    "model: 0MB, device: iphone-5s": "session.model: must be above 0",
    f"{WORK}, device: {{iphone-5s: 0}}": "session.device.iphone-5s: must be above 0",
    SPEEDS.replace("DOWN", "20"): "session.link.down: must have a unit, such as",
    SPEEDS.replace("DOWN", "{kind: uniform, low: 2Mbps, high: 1Mbps}"): "low is 2000000bps, above high, 1000000bps",
    "model: 1MB, device: iphone-5s": "session.samples: is required",
}


@pytest.mark.parametrize("session", MISTAKES)
def test_mistakes_are_told_with_their_place(write: Write, session: str) -> None:
    said = complaint(write, session)
    assert MISTAKES[session] in said
    assert "case.fedsim.yaml:3:" in said


def test_prices_want_work(write: Write) -> None:
    assert "prices are of sessions from work, and no group has one" in complaint(
        write, "train: 60s", "prices.gigabyte=1"
    )


def test_units_are_written_as_they_are_read(write: Write) -> None:
    case = loaded(
        write, f"{WORK}, device: iphone-5s, update: 1536KiB, needs: 0.25GB", "prices={gigabyte: 0.05, carbon: 0.4kg}"
    )
    dumped = case.model_dump(mode="json")
    session = dumped["population"][0]["session"]
    assert [session[key] for key in ("model", "update", "needs")] == ["1MB", "1536KiB", "250MB"]
    assert session["link"]["down"] == {"kind": "constant", "value": "8Mbps"}
    assert dumped["prices"]["carbon"] == "400g"
    assert Scenario.model_validate(dumped) == case
