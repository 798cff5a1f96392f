"""Writes the measured numbers of the documentation, so that none of them can go stale.

Run ``python reports/claims.py`` after the studies of this folder. It takes their numbers from ``measured.json``,
``draws.json``, ``networks.json`` and ``two-speeds.json`` and writes them into the pages, between
``<!-- measured: NAME -->`` and ``<!-- end -->``. A test compares the pages with what it would write.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from measurements import HERE, Record, excess, load, of, rounds, signed, with_interval, with_range

from fedsim import Scenario
from fedsim.population import build_population
from fedsim.theory import distances, mixing

ROOT = HERE.parent
PAGES = ("README.md", "docs/paper-results.md", "docs/learning.md")
REGION = re.compile(r"(<!-- measured: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
NAMES = {"fedavg": "FedAvg", "debiased_fedavg": "Debiased FedAvg", "fedvarp": "FedVARP"}
SEPARATIONS = (0, 4, 8, 12)
WEIGHTS = {
    "debiased_fedavg": "as in the paper",
    "clip": "`clip: 10`",
    "warm_up": "`warm_up: 300`",
    "prior": "`prior: 5`",
    "prior_from_theory": "`prior: 5, prior_from: theory`",
    "oracle": "`oracle_weighted`",
}

Kept = Mapping[str, Any]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table, with blank lines around it."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"


def readme(kept: Kept) -> str:
    """Return the README's table: participation and bias by separation, from the figures on the synthetic problem."""
    rows = []
    for r in map(str, SEPARATIONS):
        found = kept["measured"]["debiased-synthetic"]["metrics"][r]
        above = [signed(found[f"learning.{name}.excess_loss"]) for name in ("fedavg", "debiased_fedavg")]
        seen, theory = found["participation.l1_uniform"], found["participation.l1_uniform_theory"]
        rows.append([r, f"{seen:.3f}", f"{theory:.6f}", *above])
    head = ["R", "L1 distance from uniform, measured", "theory"]
    return table(head + [f"excess loss of {NAMES[name]}" for name in ("fedavg", "debiased_fedavg")], rows)


def speed(kept: Kept) -> str:
    """Return the table of rounds until Debiased FedAvg and the others are near the end of uniform's descent."""
    rows = []
    for problem, words in (
        ("digits", "digits"),
        ("synthetic", "synthetic"),
        ("synthetic-random-groups", "synthetic, random groups"),
    ):
        records = kept["draws"][f"{problem}-participations"]["records"]
        for name, shown in NAMES.items():
            for r in SEPARATIONS:
                runs = of(records, name, r)
                near = [rounds([each["rounds_within"][share] for each in runs]) for share in ("0.05", "0.02", "0.01")]
                rows.append([words, shown, str(r), *near])
    return table(["problem", "optimizer", "R", "5 %", "2 %", "1 %"], rows)


def draws(kept: Kept) -> str:
    """Return the table of biases over ten draws of the data."""
    rows = []
    for study, words in (
        ("digits-draws", "digits"),
        ("synthetic-long-draws", "synthetic"),
        ("synthetic-random-groups-long-draws", "synthetic, random groups"),
    ):
        records = kept["draws"][study]["records"]
        for r in sorted({each["separation"] for each in records if each["separation"] is not None}):
            cells = [with_range(excess(records, name, r)) for name in NAMES]
            settled = sum(
                all(each["converged"] for each in records if each["draw"] == draw and each["separation"] in {None, r})
                for draw in {each["draw"] for each in records}
            )
            rows.append([words, f"{kept['draws'][study]['rounds']:,}", str(r), *cells, f"{settled} of 10"])
    apart, dealt = (kept["draws"][f"{each}-long-draws"]["records"] for each in ("synthetic", "synthetic-random-groups"))
    larger = {r: int((excess(dealt, "fedavg", r) > excess(apart, "fedavg", r)).sum()) for r in (0, 8)}
    words = " and ".join(f"in {count} of 10 draws at R = {r}" for r, count in larger.items())
    head = ["problem", "rounds", "R", *NAMES.values(), "draws in which all have settled"]
    return table(head, rows) + f"With random groups FedAvg's bias is larger than with consecutive ones {words}.\n\n"


def network(kept: Kept) -> str:
    """Return the table of the network at a step size at which nothing blows up."""
    rows = []
    for study in ("methods-r8", "methods-r0"):
        if study not in kept["networks"]:
            continue
        found = kept["networks"][study]
        for name, words in (NAMES | {"clip": "Debiased FedAvg, `clip: 10`"}).items():
            runs = of(found["records"], name)
            if not runs:
                continue
            above = [with_interval(_of_network(kept, study, name, what), 4) for what in ("average_loss", "loss")]
            rows.append([str(found["separation"]), words, *above, f"{sum(each['converged'] for each in runs)} of 10"])
    return table(["R", "optimizer", "mean model", "single models", "settled"], rows)


def predicted(kept: Kept) -> str:
    """Return the table of FedAvg's distance from the optimum, as foreseen and as measured."""
    found = kept["measured"]["quadratic-bias"]["metrics"]
    names = ("learning.fedavg.bias_predicted", "learning.fedavg.bias")
    return table(
        ["R", "computed", "run"], [[r, *(f"{found[r][name]:.3f}" for name in names)] for r in map(str, SEPARATIONS)]
    )


def steps(kept: Kept) -> str:
    """Return the table of biases by step size, at R = 0 on digits."""
    rows = []
    for study, size, key in (("digits-step-0.05", "0.05", "participation"), ("digits-draws", "0.02", "draw")):
        found = kept["draws"][study]
        records, over = found["records"], "ten participations" if key == "participation" else "ten draws of the data"
        if key == "participation":  # one uniform reference for all
            level = of(records, "fedavg_uniform")[0]["average_loss"]
            above = np.array([each["average_loss"] - level for each in of(records, "debiased_fedavg", 0)])
        else:
            above = excess(records, "debiased_fedavg", 0)
        rows.append([size, f"{found['rounds']:,}", with_interval(above, 4), over])
    return table(["step size", "rounds", "mean model of Debiased FedAvg above uniform", "over"], rows)


def weights(kept: Kept) -> str:
    """Return the table of what tames the first weights."""
    found = kept["networks"]["weights-r0"]
    rows = []
    for name, words in WEIGHTS.items():
        runs = of(found["records"], name)
        worst = max(each["highest_late"] for each in runs)
        cells = [with_interval(_of_network(kept, "weights-r0", name, what), 3) for what in ("average_loss", "loss")]
        rows.append([words, *cells, f"{worst:.2f}"])
    head = ["weights", "mean model above uniform", "single models above uniform"]
    return table([*head, "highest loss of any run after its first quarter"], rows)


def largest_weights(kept: Kept) -> str:
    """Return how large the first weights became, in words."""
    found = kept["networks"]["weights-r0"]
    seen = np.array(found["largest_weights"])
    return (
        f"At R = 0 the largest ν that counting gave anyone was {np.median(seen):.0f} in the median of ten runs "
        f"({seen.min():.0f} to {seen.max():.0f}),\nwhere that of the true frequencies is "
        f"{found['largest_weight_in_the_long_run']:.1f}.\n"
    )


def claims(kept: Kept) -> str:
    """Return the table of the paper's claims."""
    return table(["the paper says", "measured", "from", "holds"], [list(row) for row in _claims(kept)])


def _by_r(records: Sequence[Record], name: str, write: Callable[[np.ndarray], str]) -> str:
    found = sorted({each["separation"] for each in records if each["separation"] is not None})
    return "; ".join(f"R = {r}: {write(excess(records, name, r))}" for r in found)


def _claims(kept: Kept) -> list[tuple[str, str, str, str]]:
    digits, synthetic = (kept["draws"][each]["records"] for each in ("digits-draws", "synthetic-long-draws"))
    at_rest = [draw for draw in {each["draw"] for each in synthetic} if _settled(synthetic, draw)]
    synthetic = [each for each in synthetic if each["draw"] in at_rest]
    first = build_population(Scenario.load(ROOT / "scenarios/paper/bias-vs-separation.fedsim.yaml")).weight
    by_r = distances(first, [0, 100, 250, 400, 499])
    taus = [mixing([6.0, 5.0, 4.0, 3.0, 2.0, 1.0], r).mixing_time for r in (1, 2, 3, 4)]
    speeds = {
        r: rounds([each["rounds_within"]["0.01"] for each in of(_speeds(kept, "digits"), "debiased_fedavg", r)])
        for r in SEPARATIONS
    }
    lemma = kept["two-speeds"]["lemma_3"]
    ten = "ten draws of the data, each with a participation of its own"
    resting = f"those {len(at_rest)} of ten draws in which all have settled"
    pages = "[`{0}`](../scenarios/paper/{0}.fedsim.yaml)".format
    unsettled = sum(not each["converged"] for each in of(digits, "fedavg", 0))
    return [
        (
            "Definition 1, Proposition 1: participation is a chain of order R; the next cohort has probability in "
            "proportion to its weight among those that have waited",
            "the same law by enumeration, by formula and in the simulation",
            "[chain.md](chain.md), tests against the exact law",
            "yes",
        ),
        (
            "Algorithm 1: λ_i is counted, local steps are scaled by ν_i = 1 / (N λ_i)",
            "the same iterates as the algorithm written out client by client",
            "[learning.md](learning.md), tests on random cohorts",
            "yes",
        ),
        (
            "Appendix: definitions and lemmas on irreducible, periodic and mixing chains",
            "textbook statements, used here as they are",
            "[chain.md](chain.md)",
            "yes",
        ),
        (
            "Lemma 1: irreducible for R ≤ M − 1, aperiodic for R ≤ M − 2",
            "one class of period 1 at R = M − 2; at R = M − 1 the next cohort is forced, and N = 6, B = 1 falls into "
            "120 classes of period 6",
            "[`irreducibility.py`](checks/irreducibility.py), exact",
            "up to R = M − 2; **not** irreducible at M − 1",
        ),
        (
            "π is uniform at R = M − 1",
            "in every class everyone takes part once in M rounds",
            "[closed-form.md](closed-form.md), exact",
            "yes",
        ),
        (
            "Proposition 2: equal weights, uniform π at every R",
            "follows from the closed form",
            "[closed-form.md](closed-form.md), exact",
            "yes",
        ),
        (
            "Figure 1: N = 500, B = 1, larger R brings π closer to uniform",
            "L1 at R = 0, 100, 250, 400, 499: " + ", ".join(f"{value:.4f}" for value in by_r),
            pages("bias-vs-separation") + ", exact; that L1 never grows with R is proved for all weights",
            "yes",
        ),
        (
            "Theorem 3: for nearly equal weights π ends within O(1/N) of uniform",
            "L1 falls with R and is below 1/N at R = N − 2 for weights within half of their mean",
            "`tests/theory/test_closed_form.py`, exact, random weights",
            "yes",
        ),
        (
            "Theorem 1: FedAvg has a floor, which is smaller the closer π is to uniform",
            f"digits, above uniform: {_by_r(digits, 'fedavg', with_interval)}",
            pages("fedavg-digits") + f", {ten}; mean and 95 % interval. {_unsettled(unsettled)}",
            "yes, as to the floor; its rate was not measured",
        ),
        (
            "The floor cannot be avoided: the example with N = 3",
            "π = 0.3, 0.3, 0.4; FedAvg goes to 2.1 where the optimum is 2",
            "[chain.md](chain.md#a-worked-example), exact",
            "yes",
        ),
        (
            "Lemma 3: the error of the counted weights is O(τ_mix / t)",
            "t times the mean of max_i (λ_i − π_i)², at t = 100, 400, 1,600, 6,400: "
            + "; ".join(
                f"R = {r}: {', '.join(f'{each:.2f}' for each in found.values())}" for r, found in lemma.items()
            ),
            "`reports/two_speeds.py`, 400 participations of the 20 groups",
            "O(1/t), yes; the factor *falls* with R. ν itself is infinite before a client is first seen",
        ),
        (
            "Theorem 2: Debiased FedAvg has no floor",
            f"digits, above uniform: {_by_r(digits, 'debiased_fedavg', with_interval)}",
            pages("debiased-digits") + f", {ten}; mean and 95 % interval",
            "yes for small steps; at R = 0 the long local steps of rare clients leave some",
        ),
        (
            "Figure 2a, synthetic: larger R, smaller bias of FedAvg",
            f"above uniform: {_by_r(synthetic, 'fedavg', with_range)}",
            pages("fedavg-synthetic") + f", {resting}; median and range",
            "yes",
        ),
        (
            "Figure 2b, synthetic: Debiased FedAvg reaches the loss of uniform participation",
            f"above uniform: {_by_r(synthetic, 'debiased_fedavg', with_range)}",
            pages("debiased-synthetic") + f", {resting}; median and range",
            "yes",
        ),
        (
            "Figure 3a, images: Debiased FedAvg reaches the loss of uniform participation, faster for larger R",
            "digits, rounds to within 1 % of uniform's descent: "
            + "; ".join(f"R = {r}: {words}" for r, words in speeds.items()),
            pages("debiased-digits") + ", ten participations of one draw; median and range",
            "yes on digits; on the synthetic problem [it depends on the groups](#does-a-larger-r-converge-faster)",
        ),
        (
            "Figure 3b, images: larger R, smaller bias of FedAvg",
            f"the same as for Theorem 1; it falls with R in {_falling(digits)} of 10 draws",
            pages("fedavg-digits") + f", {ten}",
            "yes",
        ),
        (
            "Figure 3c: at R = 8 FedAvg stays biased",
            f"digits {with_interval(excess(digits, 'fedavg', 8))}; "
            f"synthetic {with_range(excess(synthetic, 'fedavg', 8))}",
            pages("three-methods-digits") + f", {ten}; synthetic: {resting}",
            "yes",
        ),
        (
            "Figure 3c: at R = 8 FedVARP stays biased",
            f"digits {with_interval(excess(digits, 'fedvarp', 8))}; "
            f"synthetic {with_range(excess(synthetic, 'fedvarp', 8))}",
            "[`fedvarp_bias.py`](checks/fedvarp_bias.py), " + pages("three-methods-digits") + f", {ten}",
            "**no**",
        ),
        (
            "A three-layer network at every client: at R = 8 Debiased FedAvg reaches uniform, FedAvg does not",
            "above uniform at R = 8, mean model: "
            + "; ".join(f"{NAMES[name]} {with_interval(_of_network(kept, 'methods-r8', name), 4)}" for name in NAMES),
            pages("network-digits") + ", step size 0.02, 1,000 rounds, ten participations; mean and 95 % interval",
            _network_verdict(kept),
        ),
        (
            "Conjecture: larger R, smaller τ_mix",
            f"N = 6, R = 1 to 4: {', '.join(map(str, taus))} rounds; never at R = 5",
            "[`mixing_conjecture.py`](checks/mixing_conjecture.py), exact",
            "**no**; the counted frequencies do [settle sooner](chain.md#two-speeds)",
        ),
        (
            "Appendix figure: the law of who takes part settles sooner for larger R",
            "L1 of the running frequencies after 100 rounds at R = 0, 50, 95: "
            + ", ".join(f"{kept['two-speeds']['running_l1'][r]['100']:.3f}" for r in ("0", "50", "95")),
            pages("convergence") + ", 256 participations",
            "yes of the running frequencies, no of one round's law",
        ),
        (
            "Open question: can variance reduction be faster?",
            "digits at R = 0, rounds to within 1 %: FedVARP "
            + rounds([each["rounds_within"]["0.01"] for each in of(_speeds(kept, "digits"), "fedvarp", 0)])
            + f", Debiased FedAvg {speeds[0]}",
            pages("debiased-digits") + ", ten participations of one draw",
            "yes at R = 0, at the price of N x d numbers of memory",
        ),
        (
            "Open question: separations of their own, R_i",
            "no product form; exact, mean field and Monte Carlo answer; debiasing works ([below](#beyond-the-paper))",
            "[chain.md](chain.md)",
            "Theorem 3 for R_i stays open",
        ),
        (
            "Open question: convergence at R = M − 1",
            "synthetic at R = 19, above uniform: FedAvg "
            + signed(_measured(kept, "fedavg-synthetic", "fedavg"))
            + ", Debiased "
            + signed(_measured(kept, "debiased-synthetic", "debiased_fedavg")),
            pages("debiased-synthetic") + ", one participation of one draw",
            "both come to rest at the optimum",
        ),
    ]


def _of_network(kept: Kept, study: str, name: str, what: str = "average_loss") -> np.ndarray:
    found = kept["networks"][study]["records"]
    uniform = {each["participation"]: each[what] for each in of(found, "fedavg_uniform")}
    return np.array([each[what] - uniform[each["participation"]] for each in of(found, name)])


def _network_verdict(kept: Kept) -> str:
    """Say whether the network decides anything: only runs that have settled tell a bias."""
    found = kept["networks"]["methods-r8"]["records"]
    settled = sum(each["converged"] for each in found if each["optimizer"] in NAMES)
    total = sum(each["optimizer"] in NAMES for each in found)
    if 2 * settled < total:
        return f"not decided: {settled} of {total} runs have settled"
    biased = _of_network(kept, "methods-r8", "fedavg") > _of_network(kept, "methods-r8", "debiased_fedavg")
    return f"FedAvg lies above Debiased FedAvg in {int(biased.sum())} of {len(biased)} participations"


def _speeds(kept: Kept, problem: str) -> list[Record]:
    found: list[Record] = kept["draws"][f"{problem}-participations"]["records"]
    return found


def _measured(kept: Kept, figure: str, name: str) -> float:
    found = kept["measured"][figure]["metrics"]["19"]
    return float(found[f"learning.{name}.average_excess_loss"])


def _settled(records: Sequence[Record], draw: int) -> bool:
    return all(each["converged"] for each in records if each["draw"] == draw)


def _unsettled(count: int) -> str:
    return f"At R = 0 FedAvg has not settled in {count} of 10" if count else "All have settled"


def _falling(records: Sequence[Record]) -> int:
    by_r = np.array([excess(records, "fedavg", r) for r in SEPARATIONS])
    return int((np.diff(by_r, axis=0) < 0).all(axis=0).sum())


REGIONS: Mapping[str, Callable[[Kept], str]] = {
    "readme": readme,
    "claims": claims,
    "speed": speed,
    "draws": draws,
    "network": network,
    "predicted": predicted,
    "steps": steps,
    "weights": weights,
    "largest-weights": largest_weights,
}


def written(page: str, kept: Kept) -> str:
    """Return a page with what was measured in its regions."""
    return REGION.sub(lambda found: found[1] + REGIONS[found[2]](kept) + found[3], page)


def main() -> None:
    """Write all pages anew, and say which of them changed."""
    kept = load()
    for name in PAGES:
        file = ROOT / name
        before = file.read_text(encoding="utf-8")
        after = written(before, kept)
        if after != before:
            file.write_text(after, encoding="utf-8")
            sys.stderr.write(f"{name} has changed\n")


if __name__ == "__main__":
    main()
