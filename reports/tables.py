"""The tables of the documentation: what the studies of this folder measured, as Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from measurements import above_uniform, excess, of, rounds, with_error, with_interval, with_range

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
    """Return the README's table: participation and bias by separation on the synthetic problem."""
    records = kept["draws"]["synthetic-long-participations"]["records"]
    [level] = [each["average_loss"] for each in of(records, "fedavg_uniform")]
    rows = []
    for r in SEPARATIONS:
        seen = np.array([each["l1_uniform"] for each in of(records, "fedavg", r)])
        above = [
            with_interval(np.array([each["average_loss"] - level for each in of(records, name, r)]))
            for name in ("fedavg", "debiased_fedavg")
        ]
        theory = kept["measured"]["debiased-synthetic"]["metrics"][str(r)]["participation.l1_uniform_theory"]
        rows.append([str(r), with_interval(seen, 3), f"{theory:.6f}", *above])
    head = ["R", "L1 distance from uniform, measured", "theory"]
    return table(head + [f"loss of {NAMES[name]} above uniform" for name in ("fedavg", "debiased_fedavg")], rows)


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
    """Return the table of the network: without regularisation, and where it comes to rest."""
    rows = []
    for study in ("methods-r8", "regularised-r8"):
        found = kept["networks"][study]
        for name in (*NAMES, "fedavg_uniform"):
            runs = of(found["records"], name)
            uniform = name == "fedavg_uniform"
            above = ["", ""] if uniform else [_above(kept, study, name, what) for what in ("average_loss", "loss")]
            words = "FedAvg, uniform participation" if uniform else NAMES[name]
            settled = f"{sum(each['converged'] for each in runs)} of {len(runs)}"
            drift = f"{100 * np.mean([each['drift'] for each in runs]):.2f} %" if "drift" in runs[0] else ""
            about = [f"{found.get('l2', 0.0):g}", str(found["separation"]), f"{found['rounds']:,}"]
            rows.append([*about, words, *above, settled, drift])
    return table(["l2", "R", "rounds", "optimizer", "mean model", "single models", "settled", "late fall"], rows)


def _above(kept: Kept, study: str, name: str, what: str) -> str:
    return with_interval(above_uniform(kept["networks"][study]["records"], name, what), 4)


def predicted(kept: Kept) -> str:
    """Return the table of FedAvg's distance from the optimum, as foreseen and as measured."""
    found = kept["rates"]["predicted"]
    rows = [[r, *(with_error(found[r][what], 4) for what in ("computed", "run", "apart"))] for r in found]
    return table(["R", "computed", "mean model of the runs", "the two apart"], rows)


def rates(kept: Kept) -> str:
    """Return the table of errors by T, with FedAvg's floors and the exponents of Debiased FedAvg."""
    found = kept["rates"]
    rows = []
    for name in ("fedavg", "debiased_fedavg"):
        for r, errors in found["error"][name].items():
            shown = [with_error(errors[rounds], 4) for rounds in ("500", "4000", "32000")]
            last = with_error(found["floor"][r], 4) if name == "fedavg" else "none"
            rows.append([NAMES[name], r, *shown, last])
    return table(["optimizer", "R", "T = 500", "4,000", "32,000", "floor, computed"], rows)


def lemma(kept: Kept) -> str:
    """Return the table of Lemma 3: errors of frequencies and of weights, times t."""
    rows = []
    for r, found in kept["rates"]["lemma_3"].items():
        for t in ("400", "1600", "6400"):
            frequencies, weights = (
                "" if pair is None else with_error([int(t) * value for value in pair], digits)
                for pair, digits in ((found["frequencies"][t], 3), (found["weights"][t], 0))
            )
            rows.append([r, f"{int(t):,}", frequencies, weights, f"{100 * found['all_seen'][t]:.0f} %"])
    head = ["R", "t", "t E max (λ − π)²", "t E max (ν − 1/(N π))²", "runs in which everyone has been seen"]
    return table(head, rows)


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
        cells = [with_interval(above_uniform(found["records"], name, what), 3) for what in ("average_loss", "loss")]
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
