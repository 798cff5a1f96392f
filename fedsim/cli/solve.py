"""The command ``fedsim solve``: which separation or cool-down first meets a condition, and at what pace."""

import math
from dataclasses import asdict
from typing import Annotated

import typer

from fedsim.cli.options import AllowOutside, AllowPlugins, Json, Overrides, ScenarioFile, Seed, load
from fedsim.common.messages import complain, say, say_json

_NOT_MET = 1


def solve(
    file: ScenarioFile,
    until: Annotated[
        str, typer.Option(metavar="CONDITION", help="As in expect: 'participation.separation.least >= 400'.")
    ],
    high: Annotated[str, typer.Option("--to", metavar="VALUE", help="The largest value: 900, or 3d.")],
    low: Annotated[
        str | None, typer.Option("--from", metavar="VALUE", help="The smallest value; by default 0, or 0s.")
    ] = None,
    vary: Annotated[
        str, typer.Option(metavar="PATH", help="The key to find a value for: rounds, or a duration.")
    ] = "population.*.separation",
    pace: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, metavar="SHARE", help="Of the rounds per day at the smallest value, at least: 0.95."
        ),
    ] = None,
    step: Annotated[str | None, typer.Option(metavar="VALUE", help="Between values; by default 1, or 10m.")] = None,
    seeds: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="The condition holds for all of them.")] = 1,
    override: Overrides = None,
    seed: Seed = None,
    allow_plugins: AllowPlugins = False,
    allow_outside: AllowOutside = False,
    as_json: Json = False,
) -> None:
    """Find the smallest separation or cool-down that meets a condition, by simulating; and what it costs in pace."""
    from fedsim.common.progress import on_stderr
    from fedsim.experiment.solve import Tried
    from fedsim.experiment.solve import solve as find

    scenario = load(file, override, seed, allow_plugins, allow_outside)
    least = low if low is not None else "0" if high.isdecimal() else "0s"
    with on_stderr() as report:
        found = find(
            scenario,
            vary,
            _read(least),
            _read(high),
            until,
            step=None if step is None else _read(step),
            seeds=range(scenario.seed, scenario.seed + seeds),
            report=report,
        )
    answer, share = found.answer, found.share_of_pace
    kept = answer is not None and answer.works and (pace is None or share >= pace)

    def known(value: object) -> object:
        return None if isinstance(value, float) and not math.isfinite(value) else value

    def row(tried: Tried | None) -> dict[str, object] | None:
        return None if tried is None else {name: known(value) for name, value in asdict(tried).items()}

    if as_json:
        say_json(
            {"answer": row(answer), "share_of_pace": known(share), "kept": kept, "tried": list(map(row, found.tried))}
        )
    else:
        head = f"{'value':>10} {'holds':>6} {'b promised':>11} {'b seen':>8} {'k promised':>11} {'k seen':>8}"
        say(f"{head} {'rounds/day':>11}")
        for each in found.tried:
            promised = ["-" if one is None else f"{one:,}" for one in (each.promised_b, each.promised_k)]
            seen = [f"{one:,.0f}" if math.isfinite(one) else "-" for one in (each.b, each.k)]
            holds = ("yes" if each.holds else "no") if each.works else "stalls"
            speed = f"{each.pace:.4g}" if each.works else "-"
            say(
                f"{each.value:>10} {holds:>6} {promised[0]:>11} {seen[0]:>8} {promised[1]:>11} {seen[1]:>8} {speed:>11}"
            )
        if answer is None:
            say(f"no value up to {high} gives {until}")
        elif not answer.works:
            say(f"no value gives {until}: the federation stalls from {vary} = {answer.value} on, before it does")
        else:
            at = f"{vary} = {answer.value} is the smallest that gives {until}"
            say(f"{at}, at {100 * share:.3g} % of the pace at {found.first.value}")
            if pace is not None and not kept:
                say(f"that is less than {100 * pace:.3g} %: no value does both")
    if any(each.works and each.promised_b is not None and each.b > each.promised_b for each in found.tried):
        complain("note: b and k that were seen are luck where they are better than what is promised")
    if not kept:
        raise typer.Exit(_NOT_MET)


def _read(text: str) -> str | int:
    return int(text) if text.isdecimal() else text
