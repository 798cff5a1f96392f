"""What is said of the optimizers: only what the losses, with their noise, bear out."""

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fedsim.pages.finding import Certainty
from fedsim.pages.methods import compare_losses, model_findings
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
    return " ".join(each.text for each in model_findings(run)).replace("\N{NARROW NO-BREAK SPACE}", " ")


UNBIASED = "unbiased training (a under uniform participation)"


def test_the_interval_holds_the_difference(run: Run) -> None:
    """A hundred evaluations whose differences waver by 0.014: about 0.003 either way."""
    (found,) = compare_losses(trained(run, {"a": 5.2, "b": 5.0}), ["a"], "b")
    assert found.look is not None
    assert 0.001 < found.look.value - found.look.low < 0.006
    assert found.look.low < 0.2 < found.look.high
    assert found.apart


def test_methods_of_the_same_loss_are_seldom_told_apart(run: Run) -> None:
    """Of 100 runs with three methods alike, at most 5 tell one of them apart (Holm); all do where one is off."""
    wrong = 0
    for seed in range(100):
        given = trained(run, {"a": 5.0, "b": 5.0, "c": 5.0, "a_uniform": 5.0}, seed=seed)
        wrong += any(each.apart for each in compare_losses(given, ["a", "b", "c"], "a_uniform"))
    assert wrong <= 10
    (finding, *_) = model_findings(trained(run, {"a": 5.4, "a_uniform": 5.0}))
    assert finding.certainty is Certainty.TOLD


def test_all_at_the_same_loss_do_not_differ(run: Run) -> None:
    text = words(trained(run, {"a": 5.0, "b": 5.0, "a_uniform": 5.0}))
    assert text.startswith(f"Beside {UNBIASED}, whose loss is ")
    assert "the loss of “a” (" in text
    assert text.endswith(") does not differ by more than chance.")
    assert "gained" not in text
    alone = words(trained(run, {"a": 5.0, "a_uniform": 5.0}))
    assert alone.endswith(") does not differ by more than chance.")


def test_what_lies_near_is_told_from_what_lies_apart(run: Run) -> None:
    text = words(trained(run, {"a": 5.4, "b": 5.0, "a_uniform": 5.0}))
    assert text.startswith(f"Beside {UNBIASED}, whose loss is 4.999, the loss ends 0.400 ± ")
    assert " above with “a”: more than chance. Beside it, the loss of “b” (" in text
    assert "What “a” misses is 10.0 % of what unbiased training gained." in text


def test_where_all_are_apart_a_lower_loss_is_said_so(run: Run) -> None:
    text = words(trained(run, {"a": 5.4, "b": 4.8, "a_uniform": 5.0}))
    assert " above with “a” and 0.199 ± " in text
    assert " below with “b”: more than chance." in text


def brief(run: Run) -> str:
    return next(iter(model_findings(run))).brief.replace("\N{NARROW NO-BREAK SPACE}", " ")


def test_the_line_is_on_the_method_that_is_farthest_and_told(run: Run) -> None:
    above = brief(trained(run, {"a": 5.4, "b": 5.0, "a_uniform": 5.0}))
    assert above.startswith("Loss of “a”: 0.400 ± 0.00")
    assert above.endswith(" above unbiased training (10.0 % of its gain).")
    below = brief(trained(run, {"a": 5.0, "b": 4.6, "a_uniform": 5.0}))
    assert below.startswith("Loss of “b”: 0.399 ± 0.003 below")
    assert below.endswith(" below unbiased training (10.0 % of its gain).")
    none = brief(trained(run, {"a": 5.0, "b": 5.0, "a_uniform": 5.0}))
    assert none.startswith("No loss differs from unbiased training by more than chance (“")
    worse = brief(trained(run, {"a": 10.4, "a_uniform": 5.0}))
    assert worse.endswith(" above unbiased training, more than chance.")
    few = brief(trained(run, {"a": 5.4, "a_uniform": 5.0}, noise=0.0, every=20))
    assert few == "Loss of “a”: 0.4 above unbiased training (too few evaluations to test)."


def test_the_line_without_a_reference_says_whether_the_lowest_is_told(run: Run) -> None:
    assert brief(trained(run, {"a": 5.4, "b": 5.0})) == "Lowest loss: “b”, 5 (9 untrained); “a” +0.399 ± 0.003."
    three = brief(trained(run, {"a": 5.4, "b": 5.0, "c": 5.0}, noise=0.05))
    assert re.fullmatch(r"Lowest loss: “[bc]”, .*; “[bc]” 0\.0\d+ above, not told, “a” 0\.4\.", three)
    assert brief(trained(run, {"a": 5.0, "b": 5.0}, noise=0.05)).endswith(", not told.")
    near = brief(trained(run, {"a": 5.0, "b": 5.0, "c": 5.0}, noise=0.05))
    assert near.count("not told") == 2


def test_identical_losses_are_one(run: Run) -> None:
    """Two optimizers that do the same: neither is nearer than the other."""
    given = trained(run, {"a": 5.4, "b": 5.0})
    assert given.learning is not None
    same = given.learning.filter(optimizer="b").with_columns(optimizer=pl.lit("c"))
    metrics = {**given.metrics, "learning.c.loss": given.metrics["learning.b.loss"]}
    text = words(changed(given, learning=pl.concat([given.learning, same]), metrics=metrics))
    assert text.startswith("The lowest loss is that of b and c, 5")


def test_privacy_noise_is_no_bias(run: Run) -> None:
    """The uniform twin has neither clipping nor noise: its loss is no reference for training that has them."""
    given = trained(run, {"a": 774.0, "a_uniform": 5.0})
    privacy = Privacy(noise_multiplier=1, delta=1e-6, clip=1, training="noise")
    noisy = changed(given, scenario=given.scenario.model_copy(update={"privacy": privacy}))
    text = words(noisy)
    assert "Training has the clipping and noise of privacy and a_uniform has not" in text
    assert "+769" not in text
    assert "above" not in text


def test_without_a_reference_the_lowest_loss_is_compared_with(run: Run) -> None:
    text = words(trained(run, {"a": 5.4, "b": 5.0, "c": 5.0}, noise=0.05))
    best = "b" if text.startswith("The lowest loss is that of b, 5.0") or "that of b," in text else "c"
    assert text.startswith(f"The lowest loss is that of {best}, ")
    assert "Above it by more than chance: a +0.4" in text
    assert f"Not above it by more than chance: {'c' if best == 'b' else 'b'} +0.0" in text


def test_one_method_alone_says_how_far_it_fell(run: Run) -> None:
    assert words(trained(run, {"a": 5.4}, noise=0.0)) == "The loss of a ends at 5.4, from 9 before training."


def test_too_few_evaluations_give_no_interval(run: Run) -> None:
    text = words(trained(run, {"a": 5.4, "a_uniform": 5.0}, noise=0.0, every=20))
    assert text.startswith(f"Loss above that of {UNBIASED}, whose loss is 5: a +0.4. There are too few evaluations")
    assert "gained" not in text


def test_distances_from_a_known_optimum_are_ranked(run: Run) -> None:
    given = trained(run, {"a": 5.4, "b": 5.0})
    given = changed(given, metrics={**given.metrics, "learning.a.bias": 1.234, "learning.b.bias": 0.0321})
    assert "Distance from the optimum, of the mean model over the last half of the run: b 0.032 and a 1.2" in words(
        given
    )
