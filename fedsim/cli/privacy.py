"""The command ``fedsim privacy``: what a scenario promises to privacy, and whether a log kept it."""

from pathlib import Path
from typing import Annotated

import typer

from fedsim.cli.chain import separations_of
from fedsim.cli.options import AllowOutside, AllowPlugins, Json, Overrides, Seed, load
from fedsim.common.messages import complain, say, say_json

_BROKEN = 1


def privacy(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A scenario file with privacy (*.fedsim.yaml).")
    ] = None,
    separation: Annotated[
        str | None,
        typer.Option(metavar="R", help="8, 0:499 (both ends included) or 0,4,8; by default the scenario's own."),
    ] = None,
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
    as_json: Json = False,
) -> None:
    """Say what separations promise to differential privacy, without simulating; or check a run against a promise."""
    if (file is None) == (from_log is None):
        raise typer.BadParameter("give a scenario file, or --from-log and a run directory")
    if noise is not None and epsilon is not None:
        raise typer.BadParameter("noise gives epsilon, and epsilon noise; give one or the other", param_hint="--noise")
    if from_log is not None:
        if override or any(each is not None for each in (separation, noise, epsilon, seed, export)):
            raise typer.BadParameter("a log is checked against its own scenario, or --rounds, --min-separation, --most")
        _check_log(from_log, rounds, min_separation, most, allow_plugins, allow_outside, as_json)
        return
    if any(each is not None for each in (rounds, min_separation, most)):
        raise typer.BadParameter(
            "--rounds, --min-separation and --most go with --from-log; the scenario enforces its own"
        )
    assert file is not None
    _promise(load(file, override, seed, allow_plugins, allow_outside), separation, noise, epsilon, as_json, export)


def _promise(
    scenario: object,
    separation: str | None,
    noise: float | None,
    epsilon: float | None,
    as_json: bool,
    export: Path | None,
) -> None:
    from fedsim.common.files import write_text
    from fedsim.common.json_files import as_json as json_text
    from fedsim.experiment.privacy import UNIT, exported, promises
    from fedsim.scenario import Scenario

    assert isinstance(scenario, Scenario)
    asked = None if separation is None else separations_of(separation, scenario.devices)
    found = promises(scenario, separation=asked, noise=noise, epsilon=epsilon)
    if export is not None:
        if len(found) > 1:
            raise typer.BadParameter("one mechanism is exported; give one separation", param_hint="--export")
        write_text(export, json_text(exported(scenario, found[0])))
    notes = dict.fromkeys(note for row in found for note in row.caveats)
    if as_json:
        say_json({"results": [row.as_dict() for row in found]})
    else:
        head = f"{'separation':>10} {'b':>6} {'k':>6} {'sensitivity':>12} {'noise':>9} {'epsilon':>9} {'by zCDP':>9}"
        say(f"{head} {'error rms':>10} {'error max':>10} {'L1 uniform':>11}")
        for row in found:
            one, R = row.guarantee, "per client" if row.separation is None else str(row.separation)
            bias = "-" if row.l1_uniform is None else f"{row.l1_uniform:.6f}"
            say(
                f"{R:>10} {one.bounds.min_separation:>6} {one.bounds.participations:>6} {one.sensitivity:>12.6g} "
                f"{one.noise_multiplier:>9.5g} {one.epsilon:>9.5g} {one.epsilon_zcdp:>9.5g} {one.error_rms:>10.5g} "
                f"{one.error_max:>10.5g} {bias:>11}"
            )
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


def _check_log(
    directory: Path,
    rounds: int | None,
    min_separation: int | None,
    most: int | None,
    allow_plugins: bool,
    allow_outside: bool,
    as_json: bool,
) -> None:
    from fedsim.experiment.privacy import check_log
    from fedsim.experiment.stored import load as load_run

    run = load_run(directory, allow_plugins=allow_plugins, allow_outside=allow_outside)
    found = check_log(run, {"rounds": rounds, "min_separation": min_separation, "most": most})
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
