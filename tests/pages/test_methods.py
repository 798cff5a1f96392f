"""What is said of the optimizers: only what the losses, with their noise, bear out."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fedsim.pages.methods import compare_losses
from fedsim.pages.words import losses
from fedsim.run.load import load_one
from fedsim.run.run import Run
from fedsim.scenario.privacy import Privacy
from tests.pages.runs import changed


@pytest.fixture(scope="session")
def run(written: Path) -> Run:
    return load_one(written)


def trained(run: Run, ends: Mapping[str, float], noise: float = 0.01, every: int = 2, seed: int = 7) -> Run:
    """Train optimizers that fall from 9 to these losses at once, and then only waver."""
    generator = np.random.default_rng(seed)
    rounds = np.append(-1, np.arange(every - 1, 400, every))
    parts, metrics = [], {name: value for name, value in run.metrics.items() if not name.startswith("learning.")}
    for name, end in ends.items():
        loss = np.where(rounds < 0, 9.0, end + noise * generator.standard_normal(len(rounds)))
        parts.append(pl.DataFrame({"round": rounds, "optimizer": name, "loss": loss}))
        metrics[f"learning.{name}.loss"] = float(loss[2 * (rounds + 1) > 400].mean())
    return changed(run, learning=pl.concat(parts), metrics=metrics)


def words(run: Run) -> str:
    said = losses(run)
    assert said is not None
    return said.text.replace("\N{NARROW NO-BREAK SPACE}", " ")


def test_the_interval_holds_the_difference(run: Run) -> None:
    """A hundred evaluations whose differences waver by 0.014: about 0.003 either way."""
    look = compare_losses(trained(run, {"a": 5.2, "b": 5.0}), ["a"], "b")["a"]
    assert 0.001 < look.value - look.low < 0.006
    assert look.low < 0.2 < look.high
    assert look.told


def test_losses_are_compared_over_own_halves(run: Run) -> None:
    """A third optimizer of a log three times as long leaves the other two their rounds to compare."""
    given = trained(run, {"a": 5.2, "b": 5.0, "c": 5.0})
    assert given.learning is not None
    late = pl.when(pl.col("optimizer") == "c").then(3 * pl.col("round")).otherwise(pl.col("round"))
    longer = changed(given, learning=given.learning.with_columns(round=late))
    assert compare_losses(longer, ["a"], "b")["a"].told


def test_methods_of_the_same_loss_are_seldom_told_apart(run: Run) -> None:
    """Of 100 runs with three methods alike, at most 5 tell one of them apart (Holm); all do where one is off."""
    wrong = 0
    for seed in range(100):
        given = trained(run, {"a": 5.0, "b": 5.0, "c": 5.0, "a_uniform": 5.0}, seed=seed)
        wrong += any(each.told for each in compare_losses(given, ["a", "b", "c"], "a_uniform").values())
    assert wrong <= 10
    assert "significantly above" in words(trained(run, {"a": 5.4, "a_uniform": 5.0}))


def test_all_at_the_same_loss_do_not_differ(run: Run) -> None:
    text = words(trained(run, {"a": 5.0, "b": 5.0, "a_uniform": 5.0}))
    assert text.startswith("Losses compared with that of unbiased training (")
    assert text.count("(no significant difference)") == 2
    assert "significantly" not in text


def test_each_loss_stands_on_its_side(run: Run) -> None:
    text = words(trained(run, {"a": 5.4, "b": 5.0, "c": 4.6, "a_uniform": 5.0}))
    assert "“a” 5.399 (significantly above)" in text
    assert "“c” 4.599 (significantly below)" in text
    assert text.endswith("(no significant difference).")


def test_without_a_reference_the_lowest_loss_is_compared_with(run: Run) -> None:
    text = words(trained(run, {"a": 5.4, "b": 5.0}))
    assert text.startswith("Losses compared with that of “b”, the lowest (")
    assert text.endswith("“a” 5.399 (significantly above).")


def test_privacy_noise_is_no_bias(run: Run) -> None:
    """The uniform twin has neither clipping nor noise: its loss is no reference for training that has them."""
    given = trained(run, {"a": 774.0, "a_uniform": 5.0})
    privacy = Privacy(noise_multiplier=1, delta=1e-6, clip=1, training="noise")
    noisy = changed(given, scenario=given.scenario.model_copy(update={"privacy": privacy}))
    assert words(noisy) == "The loss of “a” ends at 774."


def test_too_few_evaluations_are_not_tested(run: Run) -> None:
    text = words(trained(run, {"a": 5.4, "a_uniform": 5.0}, noise=0.0, every=20))
    assert text.endswith("(not tested, since there are too few evaluations).")
    assert "significant" not in text
