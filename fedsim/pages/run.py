"""The answer of a run: its checks, what it measured in words, key figures, charts and tables."""

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from fedsim.common.formatting import (
    DUST,
    NO_VALUE,
    capitalized,
    count,
    count_range,
    cut,
    duration,
    equation,
    listing,
    number,
    percent,
    with_separation,
)
from fedsim.common.outcomes import SESSION_OUTCOMES
from fedsim.learning.private import caveats_of
from fedsim.measure.contributions import Contributions
from fedsim.pages import tables
from fedsim.pages.answer import PRIVACY, TRUST, Answer, Check, Grade, Section, Sentence, Tile
from fedsim.pages.bias import FORGOTTEN, NOBODY, Bias, Seen, bias_of, one_round
from fedsim.pages.charts import OWN, RUN_CHARTS, Chart, run_charts
from fedsim.pages.charts.rounds import WAITING
from fedsim.pages.checks import checks_of, hidden_by_noise
from fedsim.pages.commands import log_command
from fedsim.pages.expectations import verdict
from fedsim.pages.methods import LARGE_STEPS, endings, optimizer_figures, optimizers, references, renamed, same_training
from fedsim.pages.metric_wording import wording_of
from fedsim.pages.own_charts import own_charts
from fedsim.pages.provenance import run_provenance
from fedsim.pages.tables import Table
from fedsim.pages.words import STUDIED, by_figure, forgotten, headline, quieter_half, sentences
from fedsim.privacy.bounds import ParticipationBounds
from fedsim.run.check import SEEDS
from fedsim.run.run import Run
from fedsim.scenario.server import has_random_size
from fedsim.scenario.trace import Trace


def run_answer(run: Run, plugins: bool = False) -> Answer:
    """Compute all that is said and shown of a run; `plugins` lets it import code for charts of its own."""
    bias, extra, checks, finding = bias_of(run), list(own_charts(run, plugins)), checks_of(run), headline(run)
    charts = run_charts(run, bias)
    for each in extra:
        charts[each.section] += (each.chart,)
    bad = [each.text for each in checks if each.state is Grade.BAD]
    first = bad[0] if bad else "Nothing was measured." if finding is None else finding.text
    noun, nothing = run.noun, one_round(run)
    charts |= {"bias": (), "learning": ()} if nothing else {}
    learned = [] if nothing else [tables.learning_table(run), tables.who_pays_table(run)]
    ends, cost = {f"{noun}s": run.rounds.group_by("outcome").len(), "sessions": _outcomes(run)}, tables.cost_table(run)
    ended, priced = [tables.ending_table(*each) for each in ends.items()], run.scenario.prices is not None
    return Answer(
        kind="run" if run.scenario.log is None else "log",
        name=run.scenario.name,
        headline=first,
        question=run.scenario.question or ("" if run.scenario.log is None else _OF_A_LOG),
        setup=with_separation(", ".join(setup_of(run))),
        description=run.scenario.description,
        status=str(run.manifest.get("status") or ""),
        verdict=verdict(run.manifest.get("verdict")),
        checks=checks,
        sentences=[each for each in (*sentences(run), *privacy_caveats(run)) if each.text not in first],
        tiles=sorted(
            tiles(run, bias), key=lambda each: {*each.facts}.isdisjoint(() if finding is None else finding.facts)
        ),
        picture=picture_of(run),
        trust=[*trust_of(run, checks)],
        sections=(
            Section("cost", "Cost", charts["cost"], [cost if priced else None]),
            Section("bias", "Participation", charts["bias"]),
            Section("learning", "Learning", charts["learning"], learned),
            Section("devices", "Devices and time", charts["devices"]),
            Section(
                "rounds", f"{capitalized(noun)}s and sessions", charts["rounds"], (*ended, None if priced else cost)
            ),
            privacy_section(run),
            Section("own", "Of the scenario's own", charts[OWN], [tables.own_metric_table(run)]),
        ),
        figures=(*RUN_CHARTS, *(each.chart.name for each in extra if isinstance(each.chart, Chart) or each.failure)),
        origins={
            "": run_provenance(run.manifest, log_command("measure", run.scenario.log) if run.scenario.log else "")
        },
        failures=tuple(each.failure for each in extra if each.failure),
    )


def trust_of(run: Run, checks: Sequence[Check]) -> Iterator[Sentence]:
    """Say of how many runs the figures are, and what theory says, also where checks hold."""
    if run.scenario.log is not None:
        yield Sentence("All figures are of one log.", TRUST)
    elif not any(each.turns == SEEDS and each.state is Grade.CAUTION for each in checks):
        yield Sentence("All figures are of one run, with one seed.", TRUST)
    yield from (Sentence(each.text, TRUST) for each in checks if each.name == "theory" and each.state is Grade.OK)
    learning, rests = run.scenario.learning, min(optimizer_figures(run, "bias").values(), default=DUST) < DUST
    if rests and learning is not None and learning.batch_size is None and run.scenario.privacy is None:
        text = "Local gradients are exact (`batch_size` is not set): with their noise no model would come so near."
        yield Sentence(text, TRUST)
    if ways := hidden_by_noise(run):
        yield Sentence(f"Sampling noise of the replicas hides smaller distances: {listing(ways)}.", TRUST)


_OF_A_LOG = "What does the log say of who takes part?"


def setup_of(run: Run) -> list[str]:
    """Say what was simulated, in a few words each: devices, separation, cohort, rounds, seed."""
    server, separation = run.scenario.server, run.clients["separation"]
    groups = run.clients["group"].n_unique()
    cooldown_s = float(run.clients["cooldown_s"].max() or 0.0)  # type: ignore[arg-type]
    ends = count_range(int(separation.min() or 0), int(separation.max() or 0))  # type: ignore[arg-type]
    noun = "device" if run.scenario.log is None else "client"
    sizes = run.clients.group_by("group", maintain_order=True).len().iter_rows()
    few = f" ({listing([f'{size:,} “{cut(name, _NAME)}”' for name, size in sizes])})" * (1 < groups <= _GROUPS)
    parts = [f"{count(len(run.clients), noun)}{few or f' in {count(groups)} groups' * (groups > 1)}"]
    traces = {each.availability.file for each in run.scenario.population if isinstance(each.availability, Trace)}
    parts += [f"available as in {file}" for file in traces if len(traces) == 1]
    if run.scenario.log is None:
        parts += [equation("R", ends), *([f"cool-down {duration(cooldown_s)}"] if cooldown_s else [])]
    if run.scenario.log is None or "rounds" not in run.scenario.log.unknown:
        parts.append(cohort_in_words(run))
    if server.deadline is not None:
        parts.append(f"deadline {duration(server.deadline)}")
    if (privacy := run.scenario.privacy) is not None:
        none = "" if privacy.training == "noise" or run.scenario.learning is None else " (not in training)"
        epsilon = run.known.get("privacy.epsilon")
        promised = "" if epsilon is None else f" for epsilon = {number(epsilon)} at delta = {privacy.delta:g}"
        parts.append(f"{privacy.mechanism.kind} noise{none}{promised}")
    if run.scenario.log is not None:
        rounds = [] if "rounds" in run.scenario.log.unknown else [count(len(run.rounds), run.noun)]
        return [*parts, *rounds, duration(run.simulated_s), "a log of production"]
    parts += [count(len(run.rounds), run.noun), duration(run.simulated_s)]
    parts += [f"“{name}” is {what}" for name, what in renamed(run).items()]
    return [*parts, f"seed\N{NO-BREAK SPACE}{run.manifest.get('seed', run.scenario.seed)}"]


def cohort_in_words(run: Run) -> str:
    """Say how many clients the server selects at a time."""
    server = run.scenario.server
    if not server.selects_once:
        return f"buffer of {count(server.buffer or 1)}, {count(server.concurrency or 1, 'client')} at work"
    if has_random_size(server.selection):
        return f"{equation('cohort', count(server.cohort))} on average ({server.selection.kind})"
    more = f" of {count(server.wanted)} selected" if server.wanted != server.cohort else ""
    more = f" or more{more}" if run.clients["reported"].sum() > server.cohort * len(run.rounds) else more
    return f"{equation('cohort', count(run.scenario.sync_server.cohort))}{more}"


def picture_of(run: Run) -> str:
    """Return the chart of what the headline says; who takes part, where none shows that."""
    if not run.clients["reported"].sum():  # nobody took part: who could have
        return "eligible"
    if len(run.clients) == 1:
        return "week"
    scenario = run.scenario
    asked = scenario.headline or ("" if scenario.decide is None else scenario.decide.metric)
    if asked.endswith("bias"):
        return "optimum"
    if not asked and "privacy.epsilon" in run.known and optimizer_figures(run, "privacy_noise_loss"):
        return "loss-noise"
    if asked.startswith("learning.") or (not asked and scenario.learning is not None):
        return "loss"
    if asked == "fleet.cost" or (not asked and scenario.prices is not None and run.known.get("fleet.cost")):
        return "cost"
    return "convergence" if not asked and scenario.theory.convergence is not None else "who"


def tiles(run: Run, bias: Bias) -> Iterator[Tile]:
    """Return the key figures, the most important first."""
    if not run.scenario.headline and run.scenario.learning is None:
        for way, some in [*forgotten(run).items()][:STUDIED]:
            yield Tile(way, f"to within {percent(FORGOTTEN)} of the long-run shares", listing(some))
    measured, learned = bias.seen not in {*NOBODY, Seen.ONCE}, _learned(run)
    asked = picture_of(run) in {"loss", "optimum"}
    if learned is not None and asked:
        yield learned
    if measured:
        far, fair = percent(bias.measured), "" if bias.fair is None else f"equal chances: {percent(bias.fair)}"
        clean = "" if bias.corrected is None or not bias.whole else f"{percent(bias.corrected)} without sampling noise"
        beside = "; ".join(filter(None, (fair, clean * (bool(fair) and not clean.startswith(f"{far} ")))))
        yield Tile(far, "from uniform participation (TV)", beside)
    without, never = (float(np.mean(run.clients[of].to_numpy() == 0)) for of in ("reported", "participations"))
    if measured and without > _MANY:
        yield Tile(percent(without), "of the clients never reported", f"{percent(never)} were never selected")
    if bias.seen is Seen.UNMEASURED:
        half, chance = map(percent, quieter_half(run))
        yield Tile(half, "of the reports from the half that reported least", f"equal chances: {chance}")
    if learned is not None and not asked:
        yield learned
    noun = f"{run.noun}{'s' if len(run.rounds) != 1 else ''}"
    daily = None if len(run.rounds) < 2 else run.known.get("updates.per_day")
    pace = "" if daily is None else wording_of("updates.per_day").write(daily)
    if "rounds.count" in run.known:
        made = run.known.get("updates.per_day") != 0 or len(run.rounds) < 2
        yield Tile(count(len(run.rounds)), noun, pace if made else "none updated the model", ("updates.per_day",))
    if (waits := run.known.get("rounds.waiting_share", 0.0)) >= WAITING:
        of = f"{duration(waits * run.simulated_s)} of {duration(run.simulated_s)}"
        yield Tile(percent(waits), f"of the time {run.noun}s wait for clients", of)
    paid = [
        f"{wording_of(f'fleet.{name}').write(run.known[f'fleet.{name}'])}{way}"
        for name, way in _PAID.items()
        if f"fleet.{name}" in run.known
    ]
    if (cost := run.known.get("fleet.cost")) is not None:
        label = "cost, in the currency of the scenario"
        yield Tile(wording_of("fleet.cost").write(cost), label, ", ".join(paid), ("fleet.cost",))
    elif paid:
        yield Tile(paid[0], "what sessions took", ", ".join(paid[1:]))
    elif hours := run.known.get("sessions.device_hours"):
        wasted = run.known.get("sessions.wasted_share")
        detail = f"{percent(wasted)} of it wasted" if wasted else ""
        facts = ("sessions.device_hours", "sessions.wasted_share")
        took = duration(3600 * hours) if hours < 1 else f"{number(hours, 3)}\N{NARROW NO-BREAK SPACE}h"
        yield Tile(took, "of device time", detail, facts)


_MANY = 0.05  # of the clients
_GROUPS, _NAME = 4, 40  # groups whose sizes stand below the headline, and characters of their names


def _learned(run: Run) -> Tile | None:
    """Return the key figure of learning: the noise in losses, how far one ends from unbiased training, or the lowest.

    None where losses jump too far to be measured.
    """
    (other, ends), losses = endings(run) or ("", []), optimizer_figures(run, "loss")
    noise, above = (optimizer_figures(run, figure) for figure in ("privacy_noise_loss", "above_optimum"))
    shares = {name: percent(noise[name] / above[name]) for name in noise if 0 < noise[name] < above[name]}
    if not other or one_round(run) or any(each.why == LARGE_STEPS for each in ends):
        return None
    if asked := by_figure(run, run.scenario.headline or ""):
        (name, value), (second, other), *_ = asked.items()
        label = wording_of(f"learning.{name}.{str(run.scenario.headline).rpartition('.')[2]}").words
        return Tile(value, f"{label}, the best of {len(asked)} methods", f"“{second}”: {other}")
    if shares:
        (name, first), *rest = [(name, number(noise[name], 2)) for name in shares]
        label = f"of the loss of “{name}” is noise of privacy, {shares[name]} of what it lies above the optimum"
        facts = tuple(f"learning.{name}.privacy_noise_loss" for name in shares)
        return Tile(first, label, ", ".join(f"“{name}”: {each}, {shares[name]}" for name, each in rest), facts)
    if same_training(run):
        return Tile(number(losses[other]), "loss of every method")
    if ends and other in references(optimizers(run)):
        widest = max(ends, key=lambda each: abs(each.apart))
        side, level = "above" if widest.apart > 0 else "below", number(losses[other])
        label = f"loss of “{widest.name}” {side} that of unbiased training"
        return Tile(number(abs(widest.apart), 3), label, f"unbiased training: {level}")
    return Tile(number(losses[other]), f"loss of “{other}”{', the lowest of the methods' * (len(ends) > 0)}")


_PAID = {"bytes_down": " down", "bytes_up": " up", "energy": "", "carbon": " CO2"}


def _outcomes(run: Run) -> pl.DataFrame:
    """Return how sessions ended, ``outcome`` and ``len``."""
    sessions = run.known.get("sessions.count", 0.0)
    counts = {name: round(run.known.get(f"sessions.{name}_share", 0.0) * sessions) for name in SESSION_OUTCOMES}
    return pl.DataFrame({"outcome": [*counts], "len": [*counts.values()]}).filter(pl.col("len") > 0)


_NOISE = {
    "Epsilon": "privacy.epsilon",
    "Sensitivity of C": "privacy.sensitivity",
    "Noise multiplier": "privacy.noise_multiplier",
    "zCDP, rho": "privacy.rho",
    "Epsilon if the schedule is known": "privacy.epsilon_if_known",
}


def privacy_section(run: Run) -> Section:
    """Compute the section about what is promised to privacy, which is empty where the scenario promises nothing."""
    privacy, figures, table = run.scenario.privacy, run.known, run.series.get("contributions")
    if privacy is None or table is None or any(key not in figures for key in [*_NOISE.values()][:-1]):
        return Section("privacy", "Privacy")
    bounds = _bounds(run)
    seen = Contributions(**table.row(0, named=True))
    apart = NO_VALUE if seen.least_separation is None else count(seen.least_separation)
    rows = (
        (f"n: {run.noun}s", count(bounds.rounds), count(seen.last_round + 1)),
        (f"b: {run.noun}s from one contribution to the next, at least", count(bounds.min_separation), apart),
        ("k: contributions of a client, at most", count(bounds.participations), count(seen.most)),
    )
    std = "no clip is given"
    if privacy.clip is not None:
        scale = figures["privacy.noise_multiplier"] * figures["privacy.sensitivity"] / (privacy.stands_for or 1.0)
        std = number(privacy.clip * scale, 5)
    noise = (
        ("Mechanism", privacy.mechanism.kind),
        ("Delta", f"{privacy.delta:g}"),
        *((head, number(figures[key], 5)) for head, key in _NOISE.items() if key in figures),
        ("Standard deviation of the rows of Z", std),
    )
    title, header = "What is promised, because the server enforces it, and what the log shows", ("Promised", "Observed")
    bound = Table(title, ("Bound", *header), rows)
    return Section("privacy", "Privacy", (), (bound, Table("The noise", ("Figure", "Value"), noise)))


def _bounds(run: Run) -> ParticipationBounds:
    rounds, least, most = (int(run.known[f"privacy.{name}"]) for name in ("rounds", "separation", "most"))
    return ParticipationBounds(rounds, least, most)


def privacy_caveats(run: Run) -> Iterator[Sentence]:
    """Say what the promise of privacy does not cover, and what else it rests on."""
    if run.scenario.privacy is not None and "privacy.rounds" in run.known:
        clocked = bool((run.clients["cooldown_s"] > 0).any())
        for each in caveats_of(run.scenario, _bounds(run), clocked=clocked):
            yield Sentence(f"{capitalized(each)}.", PRIVACY)
