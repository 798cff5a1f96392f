"""The command ``fedsim solve``: which separation or cool-down first meets a condition, and at what pace."""

import math
from dataclasses import asdict
from typing import Annotated

import typer

from fedsim.cli.options import AllowOutside, AllowPlugins, AsJson, Overrides, ScenarioPath, Seed, load_scenario
from fedsim.common.messages import complain, say, say_json, text_table

_NOT_MET = 1
_COLUMNS = ("value", "holds", "b promised", "b seen", "k promised", "k seen", "rounds/day")


def solve_command(
    file: ScenarioPath,
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
    as_json: AsJson = False,
) -> None:
    """Find the smallest separation or cool-down that meets a condition, by simulating; and what it costs in pace."""
    from fedsim.common.progress import on_stderr
    from fedsim.experiment.solve import Tried, solve

    scenario = load_scenario(file, override, seed, allow_plugins, allow_outside)
    least = low if low is not None else "0" if high.isdecimal() else "0s"
    with on_stderr() as report:
        found = solve(
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

        def number(value: float | None, form: str = ",.0f") -> str:
            return "-" if value is None or not math.isfinite(value) else f"{value:{form}}"

        rows = [
            (
                each.value,
                ("yes" if each.holds else "no") if each.works else "stalls",
                *(number(each.promised_b), number(each.b), number(each.promised_k), number(each.k)),
                number(each.pace, ".4g"),
            )
            for each in found.tried
        ]
        say(text_table(">" * len(_COLUMNS), [_COLUMNS, *rows]))
        if answer is None:
            say(f"no value up to {high} gives {until}")
        elif not answer.works:
            say(f"no value gives {until}: the federation stalls from {vary} = {answer.value} on, before it does")
        else:
            at = f"{vary} = {answer.value} is the smallest that gives {until}"
            say(f"{at}, at {100 * share:.3g} % of the pace at {found.tried[0].value}")
            if pace is not None and not kept:
                say(f"that is less than {100 * pace:.3g} %: no value does both")
    if any(each.works and each.promised_b is not None and each.b > each.promised_b for each in found.tried):
        complain("note: b and k that were seen are luck where they are better than what is promised")
    if not kept:
        raise typer.Exit(_NOT_MET)


def _read(text: str) -> str | int:
    return int(text) if text.isdecimal() else text
