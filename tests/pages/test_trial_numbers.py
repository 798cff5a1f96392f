"""Sixty sweeps at random: each number in a sentence is a value of the trials or of a contrast."""

import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

from fedsim.common.formatting import percent
from fedsim.pages.metric_wording import wording_of
from fedsim.pages.trial_checks import reports_and_chance
from fedsim.pages.trial_tables import settings_table
from fedsim.pages.trials import trials_answer
from fedsim.trials.contrasts import Standing, contrasts, contrasts_of, interval
from fedsim.trials.decision import aim_of, judge_settings
from fedsim.trials.trials import Trials

from .made_trials import L1, LOSS, PACE, made_trials, sound
from .test_sweep import plain

METRICS = (L1, PACE, LOSS)
NUMBER = r"[\d,]+(?:\.\d+)?(?:e-?\d+)?"


def drawn(number: int) -> Trials:
    """Draw a sweep: some settings are equal, noise is small or large, and runs may be few."""
    draws = np.random.default_rng([7, number])
    settings, seeds = int(draws.integers(2, 6)), int(draws.integers(1, 9))
    spread, open_ = draws.choice([0.001, 0.02, 0.2]), bool(draws.random() < 0.5)
    middle = np.sort(draws.choice([0.3, 0.5, 0.9], settings)) if draws.random() < 0.7 else np.full(settings, 0.5)
    values = middle[:, None] * np.exp(spread * draws.normal(size=(settings, seeds)))
    pace = 960.0 - 40.0 * np.arange(settings)[:, None] * open_ + np.round(10 * draws.normal(size=values.shape))
    loss = 1.0 + values * draws.choice([0.0, 1.0])

    def measure(row: int, seed: int) -> dict[str, float]:
        own = {L1: values[row, seed], PACE: pace[row, seed], LOSS: loss[row, seed], "sessions.count": 3000.0}
        return sound(row, seed) | {name: float(value) for name, value in own.items()}

    rule: Any = {"minimize": L1, "maximize": None, "subject_to": ["updates.per_day >= 930"]}
    scenario: dict[str, Any] = {"decide": rule} if draws.random() < 0.4 else {}
    return made_trials(measure, values=[3 * row for row in range(settings)], seeds=seeds, **scenario)


def known(trials: Trials) -> Iterator[str]:
    """Yield every number that a sentence may have, as it is written: of values and contrasts of all pairs."""
    for metric in METRICS:
        wording, values = wording_of(metric), trials.samples(metric)
        mean, half = interval(values)
        yield from (wording.write(float(each)) for each in values.flat)
        for value in mean:
            yield wording.write(float(value))
            yield wording.apart(float(value))
        ways = (contrasts(trials, metric, less_is_better=less) for less in (True, False))
        for tested in (*ways, *([judge_settings(trials).contrast] if metric == aim_of(trials).metric else [])):
            yield from (wording.apart(float(each)) for each in tested.tested_half)
        for other in range(len(values)):
            found = contrasts_of(values, reference=other)
            yield from (wording.apart(abs(float(each))) for each in (*found.difference, *found.tested_half, *half))
            yield from (wording.difference(float(each)) for each in found.difference)
    yield from (percent(each / 2) for each in reports_and_chance(trials)[1])
    paces, biases = (interval(trials.samples(metric)).mean for metric in (PACE, L1))
    yield from (percent(1 - one / other) for one, other in product(paces, paces))
    yield from (percent((one - biases.max()) / (biases.min() - biases.max())) for one in biases)
    yield from ("95 %", "5 %", "0 points", "930 updates per day")


@pytest.mark.parametrize("number", range(60))
def test_each_number_is_a_value_or_a_contrast(number: int) -> None:
    trials = drawn(number)
    answer = trials_answer(trials)
    allowed = {each for text in known(trials) for each in re.findall(NUMBER, plain(text))}
    allowed |= {f"{float(each):.1f}" for each in allowed if re.fullmatch(r"\d+", each)}
    said = [answer.headline, *(each.text for each in answer.sentences if each.facts)]
    for sentence in map(plain, said):
        bare = re.sub(r"R = [\d,]+", "R", sentence)
        shown = re.findall(rf"({NUMBER})(?= ?%| points| updates per day| ±)|± ({NUMBER})", bare)
        assert {one or other for one, other in shown} <= allowed, sentence


@pytest.mark.parametrize("number", range(60))
def test_headline_tiles_and_table_agree_with_what_is_judged(number: int) -> None:
    trials = drawn(number)
    answer, judged, table = trials_answer(trials), judge_settings(trials), settings_table(trials)
    if judged.choice is None:
        assert answer.headline.startswith(("No setting keeps", "Nothing to choose by"))
        return
    others, states = [row for row in judged.contrast.order.tolist() if row != judged.choice], judged.contrast.states
    assert trials.names[judged.choice] in answer.headline
    assert answer.tiles[0].detail.startswith(f"at {trials.names[judged.choice]}")
    worse = [row for row in others if states[row] is Standing.DIFFERS]
    claimed = re.search(r"each of the (\d+) others", answer.headline)
    assert claimed is None or int(claimed[1]) == len(worse) == len([*judged.contrast.order]) - 1
    stands = dict(zip((row[0] for row in table.rows), (row[1] for row in table.rows), strict=True))
    by_row = [stands[value] for value in trials.texts(trials.parameters[0])]
    if not judged.open:
        assert [each == "worse" for each in by_row] == [state is Standing.DIFFERS for state in states]
        assert by_row[judged.choice].startswith(("best", "chosen", ""))
    for each in answer.checks:
        assert ("no significant difference" in each.text) <= bool(judged.contrast.rows(Standing.TIED))
