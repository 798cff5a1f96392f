"""The server's uplink, which the uploads of a round share: closed forms, a fluid bound, and small steps of time."""

import numpy as np
import pytest

from fedsim.common.arrays import Floats
from fedsim.common.errors import ScenarioError
from fedsim.population import build_population
from fedsim.population.uplink import shared
from fedsim.run.preflight import notes_of, preflight
from fedsim.run.scaled import scale_down
from fedsim.scenario import Scenario
from fedsim.theory.prediction import theory_or_why_not
from tests.conftest import Write

EVER = np.inf


def phases(starts: Floats, alone: Floats) -> Floats:
    """Return phases of which the upload begins at some instants and takes so long alone."""
    return np.array([starts / 4, starts - starts / 4, alone])


def small_steps(starts: Floats, alone: Floats, bits: Floats, leaves: Floats, capacity: float, step: float) -> Floats:
    """Return what each has sent at the end, by steps of time in which everyone gets its fair share."""
    sent, now = np.zeros(len(bits)), 0.0
    while ((sent < bits) & (now < leaves)).any():
        running = np.flatnonzero((starts <= now) & (sent < bits) & (now < leaves))
        low, high = 0.0, capacity  # the level at which the uplink is full, by halving
        for _ in range(40):
            level = (low + high) / 2
            full = np.minimum(bits[running] / alone[running], level).sum() > capacity
            low, high = (low, level) if full else (level, high)
        sent[running] += step * np.minimum(bits[running] / alone[running], high)
        now += step
    return np.minimum(sent, bits)


def test_equal_uploads_end_together() -> None:
    """Uploads of n clients with b bits each that begin together take n b / C."""
    took, sent = shared(phases(np.full(40, 7.0), np.full(40, 2.0)), np.full(40, 4e6), np.full(40, EVER), 1e7)
    assert took == pytest.approx(40 * 4e6 / 1e7)
    assert sent.tolist() == [4e6] * 40


def test_unequal_uploads_end_by_their_sizes() -> None:
    """Processor sharing: the k-th smallest ends sum_(j <= k) (n - j + 1) (b_j - b_(j-1)) / C after the beginning."""
    bits = np.array([5.0, 1.0, 3.0, 10.0]) * 1e6
    took, _ = shared(phases(np.zeros(4), np.full(4, 1e-3)), bits, np.full(4, EVER), 1e6)
    assert took == pytest.approx([4 + 6 + 4, 4, 4 + 6, 4 + 6 + 4 + 5])


def test_a_slow_link_leaves_the_rest_to_the_others() -> None:
    """One of 1 bit a second, and two that share the other 9 of 10."""
    took, _ = shared(phases(np.zeros(3), np.array([90.0, 1.0, 1.0])), np.full(3, 90.0), np.full(3, EVER), 10.0)
    assert took == pytest.approx([90.0, 20.0, 20.0])


def test_who_leaves_gives_its_part_back() -> None:
    """Two share 10 bits a second until one is gone after 4 s; it has sent 20 bits."""
    took, sent = shared(phases(np.zeros(2), np.ones(2)), np.full(2, 50.0), np.array([4.0, EVER]), 10.0)
    assert took == pytest.approx([4.0, 7.0])
    assert sent == pytest.approx([20.0, 50.0])


@pytest.mark.parametrize("seed", range(12))
def test_any_round(seed: int) -> None:
    """What is sent is that of small steps of time; nobody is faster than alone, and nothing than the fluid bound."""
    draws = np.random.default_rng(seed)
    many, step = int(draws.integers(1, 9)), 0.02
    starts, alone, bits = draws.uniform(0, 20, many), draws.uniform(0.5, 10, many), draws.uniform(1, 50, many)
    leaves, capacity = draws.choice([EVER, EVER, 5.0, 11.0], many), float(draws.uniform(5, 60))
    took, sent = shared(phases(starts, alone), bits, leaves, capacity)
    # The steps notice a change of who shares up to a step late, when a few have begun or ended at most.
    most = 4 * step * min(capacity, float((bits / alone).max()))
    assert sent == pytest.approx(small_steps(starts, alone, bits, leaves, capacity, step), abs=most)
    whole = leaves == EVER
    assert (took[whole] >= alone[whole] * (1 - 1e-12)).all()
    assert (sent[whole] == bits[whole]).all()
    if whole.all():
        assert (starts + took).max() >= starts.min() + bits.sum() / capacity
    wide, _ = shared(phases(starts, alone), bits, leaves, 1e9)
    assert wide[whole].tolist() == alone[whole].tolist()


def test_a_busy_uplink_carries_all_it_can() -> None:
    """While more is wanted than it can carry, no round ends before or after sum b / C; then the bound is exact."""
    draws = np.random.default_rng(5)
    starts, bits = draws.uniform(0, 3, 300), draws.uniform(1, 9, 300)
    starts[0] = 0.0
    took, _ = shared(phases(starts, np.full(300, 1e-6)), bits, np.full(300, EVER), 100.0)
    assert (starts + took).max() == pytest.approx(bits.sum() / 100.0, rel=1e-9)


SESSION = "{model: 1MB, samples: 100, device: raspberry-pi-4, link: {down: 8Mbps, up: 4Mbps}}"


def loaded(write: Write, *overrides: str, session: str = SESSION) -> Scenario:
    text = f"stop: {{rounds: 5}}\npopulation:\n  - devices: 400\n    session: {session}\nserver:\n  cohort: 20\n"
    return Scenario.load(write(text + "  uplink: 10Mbps\n"), overrides)


def test_no_theory_covers_it(write: Write) -> None:
    case = loaded(write)
    notes = notes_of(preflight(case))
    assert "caution: Theory does not hold here: the uploads of a round slow each other (server.uplink)." in notes
    assert "server.uplink" in str(theory_or_why_not(case, build_population(case)))


def test_a_smaller_federation_has_a_smaller_uplink(write: Write) -> None:
    assert scale_down(loaded(write), 4).scenario.server.uplink == 2.5e6


@pytest.mark.parametrize(
    ("overrides", "session", "said"),
    [
        (
            ["server.mode=buffered", "server.concurrency=5", "server.buffer=2"],
            SESSION,
            "case.fedsim.yaml:7:3: error: server.uplink: is for mode: sync; the uploads of a buffered server would",
        ),
        ([], "{train: 60s}", "server.uplink is of sessions from work, and no group has one"),
        (["server.uplink=10"], SESSION, "server.uplink: must have a unit, such as 800kbps, 20Mbps, 1Gbps, not 10"),
    ],
)
def test_mistakes(write: Write, overrides: list[str], session: str, said: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        loaded(write, *overrides, session=session)
    assert said in str(caught.value)
