"""The commands ``fedsim chain | privacy``: what a separation leaves and promises, and which one to take."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, BadParameter, Exit, Option

from fedsim.cli import options
from fedsim.common.messages import complain, say, say_json, text_table
from fedsim.common.progress import on_stderr

if TYPE_CHECKING:
    from fedsim.run.audit import Audited
    from fedsim.run.privacy import Guarantees, PromiseCheck
    from fedsim.scenario import Scenario

_COLUMNS = ("separation", "method", "L1 uniform", "TV uniform", "max/min pi")
_NUMBER = re.compile(r"[0-9]{1,18}")
_ANSWER_BYTES = 50  # memory of one client's number in an answer
_BOUNDS, _BESIDE = ("separation", "cohort", "b", "k", "sensitivity"), ("rows of Z", "of mean", "L1 uniform")
_ROUNDS = 1_000  # for which the deviation of counts is told


def chain_command(
    file: options.ScenarioPath,
    separation: options.SeparationOption = None,
    method: Annotated[str, Option(help="auto, closed-form, exact, mean-field or monte-carlo.")] = "auto",
    law: Annotated[str | None, Option(help="Instead of the scenario's selection law; any that theory knows.")] = None,
    target_l1: Annotated[
        float | None, Option(metavar="X", help="Find the smallest R with an L1 distance from uniform <= X.")
    ] = None,
    target_tv: Annotated[float | None, Option(metavar="X", help="The same for the TV distance.")] = None,
    target_ratio: Annotated[
        float | None, Option(metavar="X", help="The same for largest pi_i / smallest pi_i.")
    ] = None,
    precision: Annotated[
        float | None,
        Option(metavar="X", help="Rounds until every debiasing weight is within X of its limit, e.g. 0.05."),
    ] = None,
    convergence: Annotated[
        int | None,
        Option(max=100_000, metavar="T", help="Follow one round's law and the running frequencies for T rounds."),
    ] = None,
    mixing: Annotated[bool, Option("--mixing", help="Exact mixing time and spectral gap; small systems.")] = False,
    availability: Annotated[
        bool,
        Option("--availability", help="Simulate, and tell shares of devices as they come and go, with 95 % intervals."),
    ] = False,
    override: options.Overrides = None,
    seed: options.Seed = None,
    allow_plugins: options.AllowPlugins = False,
    allow_outside: options.AllowOutside = False,
    as_json: options.AsJson = False,
) -> None:
    """Ask theory what participation a separation leaves, without simulating."""
    from fedsim.run.chain import Answers, participation_theory

    scenario = options.load_scenario(file, override, seed, allow_plugins, allow_outside)
    if not (scenario.always_available or availability):
        are = "are" if "shocks" in scenario.absences or " and " in scenario.absences else "is"
        left = f"the scenario's {scenario.absences} {are} left out (but with --availability)"
        complain(f"note: theory takes every device to be always available; {left}")
    if any(group.participations is not None for group in scenario.population):
        complain("note: theory knows no cap on participations; the scenario's is left out")
    separations = None if separation is None else _numbers_of(separation, scenario.devices)
    if separations is not None and any(each is not None for each in (target_l1, target_tv, target_ratio)):
        raise BadParameter("a target finds the separation; give one or the other", param_hint="--separation")
    answers = participation_theory(
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
        availability=availability,
    )
    results = answers if isinstance(answers, Answers) else [answers]
    if as_json:
        say(json.dumps({"results": [result.as_json for result in results]}, allow_nan=False))
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


def _extra_lines(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences about what was asked in addition to the stationary law, and about what it leaves out."""
    yield from data["caveats"]
    if "interval" in data:
        pi, low, high = data["pi"], data["interval"]["low"], data["interval"]["high"]
        for words, i in (("largest", pi.index(max(pi))), ("smallest", pi.index(min(pi)))):
            yield f"{words} share {pi[i]:.3%}, of client {i:,}; 95 % interval {low[i]:.3%} to {high[i]:.3%}"
    if "buffered" in data:
        flow = data["buffered"]
        pace = f"{flow['versions_per_hour']:.4g} versions an hour"
        yield f"buffered server: {pace}, {100 * flow['utilisation']:.3g} % of its {flow['concurrency']:,} places taken"
        if len(flow["groups"]) > 1:
            for name, group in flow["groups"].items():
                each = f"{group['participations_per_day']:.4g} a day each"
                yield f"{name}: {100 * group['share']:.4g} % of the participations, {each}"
    if "fluctuation" in data:
        settling = data["fluctuation"]
        rounds, precision = settling["rounds_needed"], settling["precision"]
        slowest = "no number of" if None in rounds else f"{max(rounds):,}"
        words = f"{slowest} rounds until every debiasing weight is within {precision:.3g}"
        quickest = min((each for each in rounds if each is not None), default=None)
        best = "" if quickest is None else f", {quickest:,} for the quickest"
        yield f"{words}{best} ({settling['method']})"
        every, spread = settling["rounds_for_all"], settling["relative_deviation"]
        if every is not None:
            ends = " to ".join(f"{100 * end / math.sqrt(_ROUNDS):.3g}" for end in (min(spread), max(spread)))
            words = f"{every:,} rounds until the counts of all are within {precision:.3g} at once"
            yield f"{words}; after {_ROUNDS:,} rounds a count's standard deviation is {ends} % of its mean"
        if (prior := settling["best_prior"]) is not None:
            yield f"a prior of Debiased FedAvg is best at {prior:.3g} participations of each client"
    if "convergence" in data:
        tv, floor = data["convergence"]["tv"], data["convergence"]["noise_floor"]
        shown = sorted({0, len(tv) // 4, len(tv) // 2, 3 * len(tv) // 4, len(tv) - 1})
        words = ", ".join(f"t={t}: {tv[t]:.4g}" for t in shown)
        noise = "" if floor is None else f", noise {floor[-1]:.2g}"
        yield f"one round's cohort, TV from pi by round: {words} ({data['convergence']['method']}{noise})"
        l1 = data["running_frequencies"]["l1"]
        words = ", ".join(f"{t + 1}: {l1[t]:.4g}" for t in shown)
        error = max(data["running_frequencies"]["standard_error"])
        yield f"running frequencies, L1 from pi after rounds: {words} (monte-carlo, standard error at most {error:.2g})"
    if "mixing" in data:
        speed = data["mixing"]
        gap = speed["spectral_gap"]
        yield f"mixing time {speed['mixing_time']}, spectral gap {gap:.4g}, {speed['states']:,} states"


def _numbers_of(text: str, clients: int, option: str = "--separation") -> list[int]:
    """Read ``8``, ``0:499`` or ``0,4,8``; refuse more than there is memory for, with one number per client each."""
    from fedsim.common.memory import SHARE, free_bytes, readable_bytes

    ranges = []
    for part in text.split(","):
        first, colon, last = part.strip().partition(":")
        if not (_NUMBER.fullmatch(first) and (_NUMBER.fullmatch(last) or not colon)):
            what = "number of rounds" if option == "--separation" else "number"
            raise BadParameter(f"{part[:40]!r} is not a {what} such as 8, 0:499 or 0,4,8", param_hint=option)
        ranges.append(range(int(first), int(last if colon else first) + 1))
    size, free = sum(map(len, ranges)) * _ANSWER_BYTES * (clients + 100), free_bytes()
    if free is not None and size > SHARE * free:
        budget = readable_bytes(int(SHARE * free))
        message = f"{text} would take {readable_bytes(size)} of memory, and {budget} may be used"
        raise BadParameter(f"{message}; ask for fewer", param_hint=option)
    return [rounds for each in ranges for rounds in each]


def privacy_command(
    file: Annotated[
        Path | None,
        Argument(metavar="[FILE]", help="A scenario file with privacy (*.fedsim.yaml).", callback=options.meant),
    ] = None,
    separation: options.SeparationOption = None,
    cohort: Annotated[
        str | None, Option(metavar="B", help="Cohorts to compare, such as 100,500: each with each separation.")
    ] = None,
    noise: Annotated[float | None, Option(metavar="S", help="Instead of the scenario's noise multiplier.")] = None,
    epsilon: Annotated[
        float | None, Option(metavar="E", help="Find the noise multiplier that gives this epsilon.")
    ] = None,
    amplified: Annotated[
        bool, Option("--amplified", help="Count on sampling by a secret coin: selection poisson or cyclic_poisson.")
    ] = False,
    from_log: Annotated[
        Path | None, Option(metavar="RUN", help="Check that a run directory kept its scenario's promise.")
    ] = None,
    audit: Annotated[
        Path | None,
        Option(metavar="PATH", help="A lower bound of epsilon, by a canary in the training of a scenario or run."),
    ] = None,
    rounds: Annotated[int | None, Option(min=1, metavar="N", help="With --from-log: n that was promised.")] = None,
    min_separation: Annotated[
        int | None, Option(min=1, metavar="B", help="With --from-log: b that was promised.")
    ] = None,
    most: Annotated[int | None, Option(min=1, metavar="K", help="With --from-log: k that was promised.")] = None,
    export: Annotated[
        Path | None, Option(metavar="FILE", help="Write n, b, k and the mechanism for another library (JSON).")
    ] = None,
    override: options.Overrides = None,
    seed: options.Seed = None,
    allow_plugins: options.AllowPlugins = False,
    allow_outside: options.AllowOutside = False,
    as_json: options.AsJson = False,
) -> None:
    """Say what separations promise to differential privacy, without simulating; or check a run against a promise."""
    if sum(each is not None for each in (file, from_log, audit)) != 1:
        raise BadParameter("give a scenario file, or --from-log and a run directory, or --audit and either")
    if noise is not None and epsilon is not None:
        raise BadParameter("noise gives epsilon, and epsilon noise; give one or the other", param_hint="--noise")
    if audit is not None:
        if any(each is not None for each in (separation, cohort, noise, epsilon, export, rounds, min_separation, most)):
            raise BadParameter("audits what a scenario states; --set changes it", param_hint="--audit")
        from fedsim.run.audit import audit as audited
        from fedsim.run.load import load_one

        if audit.is_dir() and (override or seed is not None):
            raise BadParameter("a run is audited as it was", param_hint="--set")
        if audit.is_dir():
            result = load_one(audit, allow_plugins=allow_plugins, allow_outside=allow_outside)
            _show_audit(audited(result.scenario, result), as_json)
        else:
            _show_audit(audited(options.load_scenario(audit, override, seed, allow_plugins, allow_outside)), as_json)
        return
    if from_log is not None:
        if override or any(each is not None for each in (separation, cohort, noise, epsilon, seed, export)):
            raise BadParameter("a log is checked against its own scenario, or --rounds, --min-separation, --most")
        from fedsim.run.load import load_one
        from fedsim.run.privacy import check_log

        run = load_one(from_log, allow_plugins=allow_plugins, allow_outside=allow_outside)
        _show_check(check_log(run, {"rounds": rounds, "min_separation": min_separation, "most": most}), as_json)
        return
    if any(each is not None for each in (rounds, min_separation, most)):
        raise BadParameter("--rounds, --min-separation and --most go with --from-log; the scenario enforces its own")
    assert file is not None
    from fedsim.run.privacy import Guarantees, privacy_guarantees

    scenario = options.load_scenario(file, override, seed, allow_plugins, allow_outside)
    if amplified:
        scenario = scenario.with_values({"privacy.amplification": "sampling"}, {"privacy.amplification": "--amplified"})
    asked = None if separation is None else _numbers_of(separation, scenario.devices)
    sizes = None if cohort is None else _numbers_of(cohort, scenario.devices, "--cohort")
    if sizes is not None and not scenario.server.selects_once:
        raise BadParameter("this server is buffered; --set server.buffer=B", param_hint="--cohort")
    with on_stderr() as progress:
        answers = privacy_guarantees(
            scenario, separation=asked, cohort=sizes, noise=noise, epsilon=epsilon, report=progress
        )
    _show_guarantees(scenario, answers if isinstance(answers, Guarantees) else Guarantees([answers]), as_json, export)


def _show_guarantees(scenario: "Scenario", promises: "Guarantees", as_json: bool, export: Path | None) -> None:
    from fedsim.common.files import write_text
    from fedsim.common.json_files import as_json as json_text
    from fedsim.run.privacy import mechanism_data

    if export is not None:
        if len(promises) > 1:
            raise BadParameter("one mechanism is exported; give one separation", param_hint="--export")
        write_text(export, json_text(mechanism_data(scenario, promises[0])))
    notes = dict.fromkeys(note for row in promises for note in row.caveats)
    if as_json:
        say_json({"results": [row.as_dict() for row in promises]})
    else:
        columns = (*_BOUNDS, *promises[0].guarantee.shown, *_BESIDE)
        rows = [
            (
                "per client" if row.separation is None else row.separation,
                row.cohort,
                row.guarantee.bounds.min_separation,
                row.guarantee.bounds.participations,
                f"{row.guarantee.sensitivity:.6g}",
                *(f"{value:.5g}" for value in row.guarantee.shown.values()),
                "-" if row.noise_std is None else f"{row.noise_std:.5g}",
                f"{row.noise_mean:.5g}",
                "-" if row.l1_uniform is None else f"{row.l1_uniform:.6f}",
            )
            for row in promises
        ]
        say(text_table(">" * len(columns), [columns, *rows]))
        first = promises[0].guarantee
        say(f"n = {first.bounds.rounds:,} rounds, mechanism {first.mechanism}, delta = {first.delta:g}; {first.scope}")
        unit = "" if promises[0].noise_std is not None else ", in clip norms"
        say(f"of mean: standard deviation of the rows of Z over the cohort, the noise of a round's mean update{unit}")
        if any(row.l1_uniform is None for row in promises):
            complain("note: L1 uniform is not known where no theory covers the law, or a client can reach its cap")
        if not scenario.always_available:
            complain("note: L1 uniform takes every device to be always available; the rest does not depend on that")
    for note in notes:
        complain(f"note: {note}")


def _show_audit(audits: "Sequence[Audited]", as_json: bool) -> None:
    from fedsim.scenario.privacy import UNIT

    if as_json:
        say_json({"results": list(map(vars, audits)), "unit": UNIT})
    else:
        rows = [
            (each.released, "-" if each.stated is None else f"{each.stated:.5g}", f"{each.at_least:.5g}")
            for each in audits
        ]
        say(text_table("<>>", [("released", "epsilon stated", "at least (99.9 %)"), *rows]))
        say(f"at the scenario's delta, to whom knows the schedule; {UNIT}")
    for each in audits:
        if each.fault:
            complain(f"refuted: epsilon of {each.released}: {each.fault}")
        elif each.refuted:
            stated = f"stated as {each.stated:.5g}, and at least {each.at_least:.5g}"
            complain(f"refuted: epsilon of {each.released} is {stated}")
        elif math.isinf(each.at_least):
            complain(f"note: {each.released} have the same noise: released together, their difference has none")
    if any(each.refuted for each in audits):
        raise Exit(1)


def _show_check(check: "PromiseCheck", as_json: bool) -> None:
    if as_json:
        say_json(check.as_dict())
    else:
        seen = check.seen.least_separation
        apart = "nobody contributed twice" if seen is None else f"b = {seen:,}"
        bounds = check.promised
        say(f"promised: n = {bounds.rounds:,}, b = {bounds.min_separation:,}, k = {bounds.participations:,}")
        say(f"observed: n = {check.rounds:,}, {apart}, k = {check.seen.most:,}")
        say("the log keeps the promise" if not check.broken else "the log breaks the promise")
    for sentence in check.broken:
        complain(f"broken: {sentence}")
    if check.broken:
        raise Exit(1)
