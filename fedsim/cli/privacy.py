"""The command ``fedsim privacy``: what a scenario promises to privacy, and whether a log kept it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsim.cli.chain import separations_of
from fedsim.cli.options import AllowOutside, AllowPlugins, AsJson, Overrides, Seed, SeparationOption, load_scenario
from fedsim.common.messages import complain, say, say_json, text_table

if TYPE_CHECKING:
    from fedsim.experiment.privacy import PromiseCheck
    from fedsim.scenario import Scenario

_BROKEN = 1
_FIGURES = {
    "noise_multiplier": "noise",
    "epsilon": "epsilon",
    "epsilon_zcdp": "by zCDP",
    "error_rms": "error rms",
    "error_max": "error max",
}
_COLUMNS = ("separation", "b", "k", "sensitivity", *_FIGURES.values(), "L1 uniform")


def privacy_command(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A scenario file with privacy (*.fedsim.yaml).")
    ] = None,
    separation: SeparationOption = None,
    noise: Annotated[
        float | None, typer.Option(metavar="S", help="Instead of the scenario's noise multiplier.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(metavar="E", help="Find the noise multiplier that gives this epsilon.")
    ] = None,
    from_log: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Check that a run directory kept its scenario's promise.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="With --from-log: n that was promised.")
    ] = None,
    min_separation: Annotated[
        int | None, typer.Option(min=1, metavar="B", help="With --from-log: b that was promised.")
    ] = None,
    most: Annotated[int | None, typer.Option(min=1, metavar="K", help="With --from-log: k that was promised.")] = None,
    export: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write n, b, k and the mechanism for another library (JSON).")
    ] = None,
    override: Overrides = None,
    seed: Seed = None,
    allow_plugins: AllowPlugins = False,
    allow_outside: AllowOutside = False,
    as_json: AsJson = False,
) -> None:
    """Say what separations promise to differential privacy, without simulating; or check a run against a promise."""
    if (file is None) == (from_log is None):
        raise typer.BadParameter("give a scenario file, or --from-log and a run directory")
    if noise is not None and epsilon is not None:
        raise typer.BadParameter("noise gives epsilon, and epsilon noise; give one or the other", param_hint="--noise")
    if from_log is not None:
        if override or any(each is not None for each in (separation, noise, epsilon, seed, export)):
            raise typer.BadParameter("a log is checked against its own scenario, or --rounds, --min-separation, --most")
        from fedsim.experiment.privacy import check_log
        from fedsim.experiment.result import load

        run = load(from_log, allow_plugins=allow_plugins, allow_outside=allow_outside)
        _show_check(check_log(run, {"rounds": rounds, "min_separation": min_separation, "most": most}), as_json)
        return
    if any(each is not None for each in (rounds, min_separation, most)):
        raise typer.BadParameter(
            "--rounds, --min-separation and --most go with --from-log; the scenario enforces its own"
        )
    assert file is not None
    _promise(
        load_scenario(file, override, seed, allow_plugins, allow_outside), separation, noise, epsilon, as_json, export
    )


def _promise(
    scenario: "Scenario",
    separation: str | None,
    noise: float | None,
    epsilon: float | None,
    as_json: bool,
    export: Path | None,
) -> None:
    from fedsim.common.files import write_text
    from fedsim.common.json_files import as_json as json_text
    from fedsim.experiment.privacy import UNIT, mechanism_data, promises

    asked = None if separation is None else separations_of(separation, scenario.devices)
    found = promises(scenario, separation=asked, noise=noise, epsilon=epsilon)
    if export is not None:
        if len(found) > 1:
            raise typer.BadParameter("one mechanism is exported; give one separation", param_hint="--export")
        write_text(export, json_text(mechanism_data(scenario, found[0])))
    notes = dict.fromkeys(note for row in found for note in row.caveats)
    if as_json:
        say_json({"results": [row.as_dict() for row in found]})
    else:
        rows = [
            (
                "per client" if row.separation is None else row.separation,
                row.guarantee.bounds.min_separation,
                row.guarantee.bounds.participations,
                f"{row.guarantee.sensitivity:.6g}",
                *(f"{getattr(row.guarantee, name):.5g}" for name in _FIGURES),
                "-" if row.l1_uniform is None else f"{row.l1_uniform:.6f}",
            )
            for row in found
        ]
        say(text_table(">" * len(_COLUMNS), [_COLUMNS, *rows]))
        first = found[0].guarantee
        say(f"n = {first.bounds.rounds:,} rounds, mechanism {first.mechanism}, delta = {first.delta:g}; {UNIT}")
        if found[0].noise_std is not None:
            say("standard deviation of the rows of Z: " + ", ".join(f"{row.noise_std:.5g}" for row in found))
        if any(row.l1_uniform is None for row in found):
            complain("note: L1 uniform is not known where no theory covers the law, or a client can reach its cap")
        if not scenario.always_available:
            complain("note: L1 uniform takes every device to be always available; the rest does not depend on that")
    for note in notes:
        complain(f"note: {note}")


def _show_check(found: "PromiseCheck", as_json: bool) -> None:
    if as_json:
        say_json(found.as_dict())
    else:
        seen = found.seen.least_separation
        apart = "nobody contributed twice" if seen is None else f"b = {seen:,}"
        bounds = found.promised
        say(f"promised: n = {bounds.rounds:,}, b = {bounds.min_separation:,}, k = {bounds.participations:,}")
        say(f"observed: n = {found.rounds:,}, {apart}, k = {found.seen.most:,}")
        say("the log keeps the promise" if not found.broken else "the log breaks the promise")
    for sentence in found.broken:
        complain(f"broken: {sentence}")
    if found.broken:
        raise typer.Exit(_BROKEN)
