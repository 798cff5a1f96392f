"""Mechanisms: as good as the references, kept on the disk, and one's own through the same door."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import check_grad

from fedsim.common.arrays import Floats
from fedsim.common.errors import PluginError
from fedsim.privacy import MECHANISMS, ParticipationBounds, error, sensitivity
from fedsim.privacy.guarantee import guarantee
from fedsim.privacy.mechanisms.banded import Banded
from fedsim.privacy.mechanisms.blt import Blt
from fedsim.privacy.mechanisms.mechanism import Mechanism, NoiseRows, convolved_rows
from fedsim.privacy.optimized import Objective, cached, objective_of
from fedsim.privacy.sensitivity import inverse
from fedsim.scenario.component import Component
from fedsim.scenario.privacy import Privacy
from tests.privacy.test_sensitivity import toeplitz

THOUSAND, TWO_THOUSAND = ParticipationBounds(1000, 100, 10), ParticipationBounds(2000, 400, 5)


def products(mechanism: Mechanism, bounds: ParticipationBounds) -> tuple[float, float]:
    c = mechanism.coefficients(bounds)
    errors = error(c, bounds.rounds)
    return sensitivity(c, bounds) * errors.max, sensitivity(c, bounds) * errors.rms


@pytest.mark.parametrize("objective", ["rms", "max"])
@pytest.mark.parametrize("bounds", [ParticipationBounds(12, 5), ParticipationBounds(13, 3, 2)])
def test_the_gradient(bounds: ParticipationBounds, objective: Objective) -> None:
    c = np.linspace(1.0, 0.3, 12)

    def value(each: Floats) -> float:
        return objective_of(each, bounds, objective)[0]

    def slope(each: Floats) -> Floats:
        return objective_of(each, bounds, objective)[1]

    wrong = check_grad(value, slope, c)
    assert wrong < 1e-5


@pytest.mark.long
@pytest.mark.parametrize(
    ("mechanism", "bounds", "largest", "mean"),
    [
        (Blt(2, "max"), THOUSAND, 14.953, 12.402),
        (Banded(), THOUSAND, 14.444, 11.573),
        (Banded(), TWO_THOUSAND, 9.278, None),
        pytest.param(Blt(3, "max"), TWO_THOUSAND, 9.451, None, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_as_good_as_the_references(
    mechanism: Mechanism, bounds: ParticipationBounds, largest: float, mean: float | None
) -> None:
    error_of = products(mechanism, bounds)
    assert error_of[0] < 1.02 * largest
    assert mean is None or error_of[1] < 1.02 * mean


def test_independent_noise_costs_the_root_of_the_participations() -> None:
    assert products(MECHANISMS.build("independent", {}), THOUSAND) == pytest.approx((100.0, 70.7460246), rel=1e-8)


@pytest.mark.long
@pytest.mark.parametrize("mechanism", [Banded(), Banded(7, "max"), Blt(2), Blt(1, "max")], ids=str)
@pytest.mark.parametrize(
    "bounds",
    [
        ParticipationBounds(60, 13),
        ParticipationBounds(60, 1, 3),
        ParticipationBounds(60, 1),
        ParticipationBounds(1, 1),
        ParticipationBounds(2, 5),
    ],
    ids=str,
)
def test_optimized_ones_are_no_worse_than_plain_ones(mechanism: Mechanism, bounds: ParticipationBounds) -> None:
    c = mechanism.coefficients(bounds)
    place = 0 if getattr(mechanism, "objective", "") == "max" else 1
    assert c[0] == 1.0
    assert isinstance(mechanism, Banded) or (np.diff(c) <= 1e-12).all()
    assert products(mechanism, bounds)[place] <= products(MECHANISMS.build("independent", {}), bounds)[place] * 1.001


@pytest.mark.long
def test_a_cap_that_binds_wants_more_than_b_bands() -> None:
    bounds = ParticipationBounds(500, 5, 10)
    assert products(Blt(2), bounds)[1] < 0.8 * products(Banded(), bounds)[1]


def test_never_more_bands_than_a_separation_keeps_apart() -> None:
    assert len(Banded(50).coefficients(ParticipationBounds(60, 13))) == 13
    assert len(Banded(4).coefficients(ParticipationBounds(60, 13))) == 4
    assert len(Banded().coefficients(ParticipationBounds(6, 13))) == 6


def test_what_is_found_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = Banded().coefficients(ParticipationBounds(40, 8))
    (file,) = (tmp_path / "fedsim" / "mechanisms").iterdir()
    stored = json.loads(file.read_text())
    assert Banded().coefficients(ParticipationBounds(40, 8)).tolist() == first.tolist()
    file.write_text(json.dumps(stored | {"values": (first[1:] * 0.5).tolist()}))
    assert Banded().coefficients(ParticipationBounds(40, 9)).tolist() != first.tolist()
    assert len(list(file.parent.iterdir())) == 2


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"question": "another", "values": [2]}', '{"values": "x"}', "nul"])
def test_a_file_that_is_no_answer_is_found_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cached(("own", 1), lambda: np.array([1.0]))
    (file,) = (tmp_path / "fedsim" / "mechanisms").iterdir()
    file.write_text(text)
    assert cached(("own", 1), lambda: np.array([3.0])).tolist() == [3.0]
    assert cached(("own", 1), lambda: np.array([4.0])).tolist() == [3.0]


def test_an_answer_of_which_a_digit_has_changed_is_found_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cached(("own", 1), lambda: np.array([1.25]))
    (file,) = (tmp_path / "fedsim" / "mechanisms").iterdir()
    file.write_text(file.read_text().replace("1.25", "1.24"))
    assert cached(("own", 1), lambda: np.array([1.25])).tolist() == [1.25]
    file.unlink()
    os.mkfifo(file)
    assert cached(("own", 1), lambda: np.array([1.25])).tolist() == [1.25]


@pytest.mark.parametrize("home", ["homeless", "a file"])
def test_where_nothing_can_be_written_it_is_found_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, home: str
) -> None:
    if home == "a file":
        (tmp_path / "fedsim").write_text("a file")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    else:
        request.getfixturevalue(home)
    assert cached(("own", 1), lambda: np.array([3.0])).tolist() == [3.0]
    assert cached(("own", 1), lambda: np.array([4.0])).tolist() == [4.0]


class Halved:
    """A mechanism of one's own."""

    def __init__(self, factor: float = 0.5) -> None:
        self.factor = factor

    def coefficients(self, bounds: ParticipationBounds) -> Floats:
        return np.asarray(self.factor ** np.arange(bounds.rounds), dtype=np.float64)


def test_one_of_ones_own() -> None:
    mechanism = MECHANISMS.build(f"{__name__}:Halved", {"factor": 0.25})
    assert mechanism.coefficients(ParticipationBounds(3)).tolist() == [1.0, 0.25, 0.0625]
    with pytest.raises(PluginError, match="unknown option 'factr'; did you mean 'factor'"):
        MECHANISMS.build(f"{__name__}:Halved", {"factr": 0.25})
    with pytest.raises(PluginError, match="unknown privacy mechanism 'bandit'; did you mean 'banded'"):
        MECHANISMS.find("bandit")


class Quieter(Halved):
    """A mechanism that adds a thousandth of the noise that its coefficients promise."""

    def correlate(self, rows: NoiseRows, bounds: ParticipationBounds) -> NoiseRows:
        return (row / 1_000 for row in convolved_rows(inverse(self.coefficients(bounds), bounds.rounds), rows))


class Late(Quieter):
    """A mechanism whose noise ends in round 20."""

    def correlate(self, rows: NoiseRows, bounds: ParticipationBounds) -> NoiseRows:
        made = convolved_rows(inverse(self.coefficients(bounds), bounds.rounds), rows)
        return (row * (number < 20) for number, row in enumerate(made))


class Honest(Quieter):
    """A mechanism whose own code makes the rows that its coefficients promise."""

    def correlate(self, rows: NoiseRows, bounds: ParticipationBounds) -> NoiseRows:
        return convolved_rows(inverse(self.coefficients(bounds), bounds.rounds), rows)


def test_the_rows_of_a_brought_mechanism_are_those_of_its_coefficients() -> None:
    bounds = ParticipationBounds(50, 3)

    def promised(name: str) -> float:
        return guarantee(
            Privacy(mechanism=Component(kind=f"{__name__}:{name}"), noise_multiplier=1, delta=1e-6), bounds
        ).epsilon

    with pytest.raises(PluginError, match=r"row 0 of its correlate is not that of C\^-1 Z .*test_mechanisms.py:\d+"):
        promised("Quieter")
    with pytest.raises(PluginError, match=r"row 20 of its correlate is not that of C\^-1 Z"):
        promised("Late")
    assert promised("Honest") == promised("Halved")


def test_lambda_cgd_cancels_the_best_share_of_one_round() -> None:
    """Against a grid of shares by dense matrices, and between independent noise and blt, of which it is one case."""
    bounds = ParticipationBounds(120, 12)
    c = np.asarray(MECHANISMS.build("lambda_cgd", {}).coefficients(bounds))
    share = c[1]
    assert c == pytest.approx(share ** np.arange(120))

    def loss(each: float) -> float:
        series = np.asarray(each ** np.arange(120.0), dtype=np.float64)
        dense = toeplitz(series, 120)
        rows = np.tril(np.ones((120, 120))) @ np.linalg.inv(dense)
        return float(np.linalg.norm(dense[:, ::12].sum(axis=1)) * np.sqrt(np.square(rows).sum() / 120))

    assert loss(share) <= min(loss(each) for each in np.linspace(0, 0.99, 100)) * (1 + 1e-9)
    blt = np.asarray(MECHANISMS.build("blt", {}).coefficients(bounds))
    assert sensitivity(blt, bounds) * error(blt, 120).rms < loss(share) < 0.6 * loss(0.0)
    fixed = MECHANISMS.build("lambda_cgd", {"cancelled": 0.5}).coefficients(bounds)
    assert fixed[:3] == pytest.approx([1, 0.5, 0.25])


def test_banded_is_made_for_each_client_by_its_own_bounds() -> None:
    """Tablets at once, five times, and phones after 100 rounds: bands for the phones, that do not rise."""
    both = ParticipationBounds(2000, 1, 20, ((1, 5), (101, 20)))
    c = np.asarray(MECHANISMS.build("banded", {}).coefficients(both))
    assert len(c) == 101
    assert (np.diff(c) <= 0).all()
    assert sensitivity(c, both) * error(c, 2000).rms < 24
    assert error(np.ones(1), 2000).rms * sensitivity(np.ones(1), both) > 141
