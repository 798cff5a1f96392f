"""The command ``fedsim chain``: what theory says about a scenario's participation."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from fedsim.cli.options import (
    AllowOutside,
    AllowPlugins,
    AsJson,
    Overrides,
    ScenarioPath,
    Seed,
    SeparationOption,
    load_scenario,
)
from fedsim.common.messages import complain, say, text_table

_COLUMNS = ("separation", "method", "L1 uniform", "TV uniform", "max/min pi")
_NUMBER = re.compile(r"[0-9]{1,18}")
_ANSWER_BYTES = 50  # memory of one client's number in an answer


def chain_command(
    file: ScenarioPath,
    separation: SeparationOption = None,
    method: Annotated[str, typer.Option(help="auto, closed-form, exact, mean-field or monte-carlo.")] = "auto",
    law: Annotated[
        str | None, typer.Option(help="Instead of the scenario's selection law; any that theory knows.")
    ] = None,
    target_l1: Annotated[
        float | None, typer.Option(metavar="X", help="Find the smallest R with an L1 distance from uniform <= X.")
    ] = None,
    target_tv: Annotated[float | None, typer.Option(metavar="X", help="The same for the TV distance.")] = None,
    target_ratio: Annotated[
        float | None, typer.Option(metavar="X", help="The same for largest pi_i / smallest pi_i.")
    ] = None,
    precision: Annotated[
        float | None,
        typer.Option(metavar="X", help="Rounds until every debiasing weight is within X of its limit, e.g. 0.05."),
    ] = None,
    convergence: Annotated[
        int | None,
        typer.Option(max=100_000, metavar="T", help="Follow one round's law and the running frequencies for T rounds."),
    ] = None,
    mixing: Annotated[
        bool, typer.Option("--mixing", help="Exact mixing time and spectral gap; small systems.")
    ] = False,
    override: Overrides = None,
    seed: Seed = None,
    allow_plugins: AllowPlugins = False,
    allow_outside: AllowOutside = False,
    as_json: AsJson = False,
) -> None:
    """Ask theory what participation a separation leaves, without simulating."""
    from fedsim.experiment.chain import chain

    scenario = load_scenario(file, override, seed, allow_plugins, allow_outside)
    if not scenario.always_available:
        are = "are" if "shocks" in scenario.absences else "is"
        left = f"the scenario's {scenario.absences} {are} left out"
        complain(f"note: theory takes every device to be always available; {left}")
    if any(group.participations is not None for group in scenario.population):
        complain("note: theory knows no cap on participations; the scenario's is left out")
    separations = None if separation is None else separations_of(separation, scenario.devices)
    if separations is not None and any(each is not None for each in (target_l1, target_tv, target_ratio)):
        raise typer.BadParameter("a target finds the separation; give one or the other", param_hint="--separation")
    results = chain(
        scenario,
        separation=separations,
        method=method,
        law=law,
        target_l1=target_l1,
        target_tv=target_tv,
        target_ratio=target_ratio,
        precision=precision,
        convergence=convergence,
        mixing=mixing,
    )
    if as_json:
        say(json.dumps({"results": [found.as_json for found in results]}, allow_nan=False))
        return
    rows = [
        (
            each.separation if isinstance(each.separation, int) else "per client",
            each.method,
            f"{each.l1_uniform:.6f}",
            f"{each.tv_uniform:.6f}",
            f"{each.ratio:.6g}",
        )
        for each in results
    ]
    head, *lines = text_table("><>>>", [_COLUMNS, *rows]).splitlines()
    say(head)
    for line, result in zip(lines, results, strict=True):
        say(line)
        for extra in _extra_lines(result.as_json):
            say(f"{'':>10}  {extra}")


def _extra_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences about what was asked in addition to the stationary law, and about what it leaves out."""
    yield from found["caveats"]
    if "buffered" in found:
        flow = found["buffered"]
        pace = f"{flow['versions_per_hour']:.4g} versions an hour"
        yield f"buffered server: {pace}, {100 * flow['utilisation']:.3g} % of its {flow['concurrency']:,} places taken"
        if len(flow["groups"]) > 1:
            for name, group in flow["groups"].items():
                each = f"{group['participations_per_day']:.4g} a day each"
                yield f"{name}: {100 * group['share']:.4g} % of the participations, {each}"
    if "fluctuation" in found:
        rounds = found["fluctuation"]["rounds_needed"]
        slowest = "no number of" if None in rounds else f"{max(rounds):,}"
        words = f"{slowest} rounds until every debiasing weight is within {found['fluctuation']['precision']:.3g}"
        quickest = min((each for each in rounds if each is not None), default=None)
        best = "" if quickest is None else f", {quickest:,} for the quickest"
        yield f"{words}{best} ({found['fluctuation']['method']})"
    if "convergence" in found:
        tv, floor = found["convergence"]["tv"], found["convergence"]["noise_floor"]
        shown = sorted({0, len(tv) // 4, len(tv) // 2, 3 * len(tv) // 4, len(tv) - 1})
        words = ", ".join(f"t={t}: {tv[t]:.4g}" for t in shown)
        noise = "" if floor is None else f", noise {floor[-1]:.2g}"
        yield f"one round's cohort, TV from pi by round: {words} ({found['convergence']['method']}{noise})"
        l1 = found["running_frequencies"]["l1"]
        words = ", ".join(f"{t + 1}: {l1[t]:.4g}" for t in shown)
        error = max(found["running_frequencies"]["standard_error"])
        yield f"running frequencies, L1 from pi after rounds: {words} (monte-carlo, standard error at most {error:.2g})"
    if "mixing" in found:
        speed = found["mixing"]
        gap = speed["spectral_gap"]
        yield f"mixing time {speed['mixing_time']}, spectral gap {gap:.4g}, {speed['states']:,} states"


def separations_of(text: str, clients: int) -> list[int]:
    """Read ``8``, ``0:499`` or ``0,4,8``; refuse more than there is memory for, with one number per client each."""
    from fedsim.common.memory import SHARE, free_bytes, readable_bytes

    ranges = list(_ranges(text))
    size = sum(map(len, ranges)) * _ANSWER_BYTES * (clients + 100)
    free = free_bytes()
    if free is not None and size > SHARE * free:
        budget = readable_bytes(int(SHARE * free))
        message = f"{text} would take {readable_bytes(size)} of memory, and {budget} may be used"
        raise typer.BadParameter(f"{message}; ask for fewer separations", param_hint="--separation")
    return [rounds for each in ranges for rounds in each]


def _ranges(text: str) -> Iterator[range]:
    for part in text.split(","):
        first, colon, last = part.strip().partition(":")
        if not (_NUMBER.fullmatch(first) and (_NUMBER.fullmatch(last) or not colon)):
            raise typer.BadParameter(
                f"{part[:40]!r} is not a number of rounds such as 8, 0:499 or 0,4,8", param_hint="--separation"
            )
        yield range(int(first), int(last if colon else first) + 1)
