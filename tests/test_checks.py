"""The scripts that let others check where measurement and the paper disagree: their numbers, and that they run."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from fedsim.theory import convergence, mixing

FOLDER = Path("docs/checks")


def script(name: str) -> ModuleType:
    """Import a script of the folder."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.py")), ids=str)
def test_a_script_owes_nothing_to_what_it_checks(file: Path) -> None:
    assert "fedsim" not in file.read_text(encoding="utf-8")


def test_the_chain_falls_apart_where_the_next_cohort_is_forced(capsys: pytest.CaptureFixture[str]) -> None:
    """With B = 1 the ordered cohorts of the paper are those of fedsim, whose counts must be the same."""
    found = script("irreducibility")
    for separation in (2, 3, 4, 5):
        known = mixing(np.ones(6), separation)
        states, classes, period = found.classes(6, 1, separation)
        assert (classes, period) == (known.recurrent_classes, known.period)
        assert states == known.states
    found.main()
    assert "  6  1  5 (M - 1)     720      120       6" in capsys.readouterr().out


def test_the_mixing_time_grows_with_the_separation() -> None:
    found = script("mixing_conjecture")
    times = [found.mixing_time(found.transition_matrix(separation)) for separation in (1, 2, 3)]
    assert times == [2, 4, 10]
    assert times == [mixing(found.WEIGHTS, separation).mixing_time for separation in (1, 2, 3)]


def test_fedvarp_comes_to_rest_where_everyone_weighs_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    found = script("fedvarp_bias")
    monkeypatch.setattr(found, "ROUNDS", 4_000)
    away = found.distances(found.participation(8, seed=8))
    assert away["FedVARP"].max() < 0.02
    assert away["FedAvg"].min() > 0.8
    assert away["Debiased FedAvg"].max() < 0.2


def test_lemmas_of_the_appendices() -> None:
    """Of total variation, of counting and of local steps they hold; that on products does not."""
    found = script("appendix_lemmas")
    for separation in (1, 2):
        falls, times, ratio = found.total_variation(separation)
        assert falls
        assert times
        assert 0 < ratio <= 3
        assert found.reached(found.distances(separation), 0.25) == mixing(found.WEIGHTS, separation).mixing_time
        eta = convergence(found.WEIGHTS, separation, rounds=20).eta
        means = eta.cumsum(axis=0) / np.arange(1, 21)[:, None]
        np.testing.assert_allclose(found.mean_frequencies(separation, 20), means, atol=1e-12)
    assert 0 < found.drift_ratio(50) <= 1
    left, right = found.product()
    assert left > right


def test_participation_variance_is_no_lower_bound() -> None:
    """Weighing by intervals is far below it; no unbiased sum has less noise than fixed weights."""
    found = script("participation_variance")
    for separation in (0, 2):
        drawn = found.participants(found.WEIGHTS, separation, 2_000, 200, separation)
        pi = np.bincount(drawn.ravel(), minlength=6) / drawn.size
        fixed, _, intervals, capped = found.variances(drawn, pi, found.OPTIMA)
        assert max(intervals[0], capped[0]) < fixed[0] / 10
        assert intervals[1] > capped[1] > fixed[1] == pytest.approx((1 / pi).mean() / 6, rel=1e-9)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "words"),
    [("mixing_conjecture", "5        never            0.000"), ("fedvarp_bias", "FedVARP 0.0000 (0.0000)")],
)
def test_a_script_prints_its_finding(name: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    script(name).main()
    assert words in capsys.readouterr().out
