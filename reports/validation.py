"""Measures what published figures are compared with, and writes the table of ``docs/validation.md``.

Run ``python reports/validation.py``: it simulates every scenario of ``scenarios/validation``, keeps the figures in
``validation.json``, and writes the table between ``<!-- measured -->`` and ``<!-- end -->``. With ``--write`` it only
writes. A test compares the page with what it would write; CI replays the scenarios with their limits.
"""

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import fedsim

HERE = Path(__file__).parent
SCENARIOS = HERE.parent / "scenarios" / "validation"
STORE = HERE / "validation.json"
PAGE = HERE.parent / "docs" / "validation.md"
REGION = re.compile(r"(<!-- measured -->\n).*?(<!-- end -->)", re.DOTALL)
KEPT = (
    *("population.available_share", "population.available_share.ratio", "sessions.dropped_share", "sessions.count"),
    *("rounds.count", "rounds.target_share", "rounds.reported_mean"),
    *(f"learning.{name}.{each}_to_target" for name in ("fedavg", "fedbuff") for each in ("time", "rounds")),
    *(f"population.available_share.local.{hour:02}" for hour in range(24)),
)

Figures = Mapping[str, Mapping[str, float]]
"""Metrics by the name of the scenario."""


@dataclass(frozen=True)
class Row:
    """A published figure, and what is measured beside it.

    Attributes
    ----------
    what, published, source
        In words.
    scenarios
        Whose figures it takes.
    measured
        Returns the simulated figure in words from theirs.
    agrees
        Says from them whether the two agree; what that takes is written in `within`.
    within
        In words.
    """

    what: str
    published: str
    source: str
    scenarios: tuple[str, ...]
    measured: Callable[[Figures], str]
    agrees: Callable[[Figures], bool]
    within: str


def _ratio(scenario: str) -> Callable[[Figures], float]:
    return lambda figures: figures[scenario]["population.available_share.ratio"]


def _dropped(scenario: str) -> Callable[[Figures], float]:
    return lambda figures: figures[scenario]["sessions.dropped_share"]


def faster(figures: Figures) -> float:
    """Return how many times sooner the buffered server reaches the loss."""
    times = [figures[f"papaya-{name}"][f"learning.{each}.time_to_target"] for name, each in _SERVERS]
    return times[0] / times[1]


def fewer(figures: Figures) -> float:
    """Return how many times fewer sessions the buffered server begins on the way to the loss."""
    begun = []
    for name, each in _SERVERS:
        own = figures[f"papaya-{name}"]
        begun.append(own[f"learning.{each}.rounds_to_target"] * own["sessions.count"] / own["rounds.count"])
    return begun[0] / begun[1]


_SERVERS = (("rounds", "fedavg"), ("buffer", "fedbuff"))
_BONAWITZ = "Bonawitz et al. 2019"
_PLUGGED = "15 % nearly always on a charger"
ROWS = (
    Row(
        "Fullest to emptiest hour, one country with four time zones, default habits",
        *("4 : 1", _BONAWITZ, ("us-phones",)),
        lambda figures: f"{_ratio('us-phones')(figures):.1f} : 1",
        lambda figures: 3.5 <= _ratio("us-phones")(figures) <= 4.5,
        "3.5 to 4.5",
    ),
    Row(
        f"The same, {_PLUGGED}",
        *("4 : 1", _BONAWITZ, ("us-phones-plugged",)),
        lambda figures: f"{_ratio('us-phones-plugged')(figures):.1f} : 1",
        lambda figures: 3.5 <= _ratio("us-phones-plugged")(figures) <= 4.5,
        "3.5 to 4.5",
    ),
    Row(
        "Sessions that drop out, default habits",
        *("6 to 10 %", _BONAWITZ, ("us-phones",)),
        lambda figures: f"{_dropped('us-phones')(figures):.1%}",
        lambda figures: 0.06 <= _dropped("us-phones")(figures) <= 0.10,
        "6 to 10 %",
    ),
    Row(
        f"The same, {_PLUGGED}",
        *("6 to 10 %", _BONAWITZ, ("us-phones-plugged",)),
        lambda figures: f"{_dropped('us-phones-plugged')(figures):.1%}",
        lambda figures: 0.06 <= _dropped("us-phones-plugged")(figures) <= 0.10,
        "6 to 10 %",
    ),
    Row(
        "Rounds that reach their target when 130 % are selected",
        *("what 130 % is for", _BONAWITZ, ("us-phones",)),
        lambda figures: f"{figures['us-phones']['rounds.target_share']:.1%}",
        lambda figures: figures["us-phones"]["rounds.target_share"] >= 0.99,
        "99 % or more",
    ),
    Row(
        "Devices that meet strict criteria, on average over the day",
        *("about 22 %", "FLINT, Wang et al. 2023", ("one-zone",)),
        lambda figures: f"{figures['one-zone']['population.available_share']:.1%}",
        lambda figures: abs(figures["one-zone"]["population.available_share"] - 0.22) <= 0.03,
        "19 to 25 %",
    ),
    Row(
        "Buffered server against rounds: time to a loss",
        *("5 times faster", "Papaya, Huba et al. 2022", ("papaya-rounds", "papaya-buffer")),
        lambda figures: f"{faster(figures):.1f} times",
        lambda figures: 4 <= faster(figures) <= 6,
        "4 to 6",
    ),
    Row(
        "Buffered server against rounds: sessions begun until then",
        *("nearly 8 times less communication", "Papaya, Huba et al. 2022", ("papaya-rounds", "papaya-buffer")),
        lambda figures: f"{fewer(figures):.1f} times",
        lambda figures: 6.5 <= fewer(figures) <= 9.5,
        "6.5 to 9.5",
    ),
)


def measure() -> dict[str, dict[str, float]]:
    """Simulate every scenario, and return the figures that are kept."""
    found = {}
    for file in sorted(SCENARIOS.glob("*.fedsim.yaml")):
        result = fedsim.simulate(fedsim.Scenario.load(file))
        name = file.name.removesuffix(".fedsim.yaml")
        found[name] = {key: float(f"{result.metrics[key]:.6g}") for key in KEPT if key in result.metrics}
        sys.stdout.write(f"{name}\n")
    return found


def load() -> dict[str, dict[str, float]]:
    """Return the figures that were kept."""
    figures: dict[str, dict[str, float]] = json.loads(STORE.read_text("utf-8"))
    return figures


def table(figures: Figures) -> str:
    """Return the table in Markdown, and how many rows agree."""
    head = ("figure", "published", "source", "simulated", "agrees", "scenario")
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|"]
    agreed = 0
    for row in ROWS:
        agrees = row.agrees(figures)
        agreed += agrees
        said = "yes" if agrees else f"**no** ({row.within} would)"
        names = ", ".join(f"`{name}`" for name in row.scenarios)
        cells = (row.what, row.published, row.source, row.measured(figures), said, names)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n" + "\n".join(lines) + f"\n\n{agreed} of {len(ROWS)} agree.\n\n"


def written(text: str, figures: Figures) -> str:
    """Return the page with the table of these figures."""
    return REGION.sub(lambda found: found[1] + table(figures) + found[2], text)


def main() -> None:
    """Measure, unless only writing is asked for, and write."""
    if sys.argv[1:] != ["--write"]:
        STORE.write_text(json.dumps(measure(), indent=1) + "\n", "utf-8")
    PAGE.write_text(written(PAGE.read_text("utf-8"), load()), "utf-8")


if __name__ == "__main__":
    main()
