"""What the paper says of training, statement by statement, and what came of it."""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from measurements import (
    Record,
    above_uniform,
    check,
    excess,
    half_width,
    of,
    rounds,
    with_error,
    with_interval,
    with_range,
)
from tables import NAMES, SEPARATIONS, Kept
from theory_claims import Row, page, script

DRAWS = "ten draws of the data, each with a participation of its own; mean and 95 % interval"
TEN = "ten participations of one draw; median and range"


def rows(kept: Kept) -> list[Row]:
    """Return the statements: on optimizers, on the paper's experiments, and what it leaves open."""
    return [*_theorems(kept), *experiments(kept), *_open(kept)]


def _theorems(kept: Kept) -> list[Row]:
    rates, appendix = kept["rates"], check("appendix_lemmas")
    study = "`reports/rates.py`, quadratic objectives, the 20 groups"
    over = f"{rates['replicas']} draws of the data, each with a participation of its own; mean and 95 % interval"
    left, right = appendix.product()
    lemma = rates["lemma_3"]
    return [
        Row(
            "Assumptions 1 and 2: bounded heterogeneity, smoothness; Theorem 1 also a bounded gradient",
            "synthetic: the slope of log(z²/2 + 1) is at most 1/√2, so gradients are at most max ‖A_j‖/√2; softmax "
            "regression is bounded and smooth too; a network with ReLU is not smooth; quadratics are "
            "bounded where the "
            "models stay",
            "[learning.md](learning.md#problems)",
            "analysis",
            "met on the synthetic problem and by softmax regression",
        ),
        Row(
            "Theorem 1: E‖∇F‖² of an iterate drawn uniformly falls like T^(−1/2) to a floor; the floor is "
            "the smaller the "
            "closer π is to uniform",
            "T = 500, 32,000, floor: "
            + "; ".join(
                f"R = {r}: {with_error(errors['500'], 3)}, {with_error(errors['32000'], 3)}, "
                f"{with_error(rates['floor'][r], 3)}"
                for r, errors in rates["error"]["fedavg"].items()
                if r != "19"
            ),
            study,
            over,
            "yes: it ends at the floor that π foresees, not below",
        ),
        Row(
            "The floor cannot be avoided: the example with N = 3",
            "π = 0.3, 0.3, 0.4; FedAvg goes to 2.1 where the optimum is 2",
            "[chain.md](chain.md#a-worked-example)",
            "exact, nothing drawn",
            "yes",
        ),
        Row(
            "Algorithm 1: λ_i is counted, local steps are scaled by ν_i = 1 / (N λ_i); with λ_i = 1/N it is FedAvg",
            "the same iterates as the algorithm written out client by client",
            "[learning.md](learning.md), tests on random cohorts",
            "random cases",
            "yes; two numbers for each client",
        ),
        Row(
            "λ_i is an unbiased estimate of π_i",
            f"N = 6, everyone ready at first, largest |E λ_i − π_i| at t = 10, 100: {_biased()}",
            script("appendix_lemmas"),
            "exact, nothing drawn",
            "in the long run only: the bias falls like 1/t",
        ),
        Row(
            "Lemma 3, frequencies: E max (λ_i − π_i)² is O(τ_mix / t)",
            "t times it at t = 100, 800, 6,400: "
            + "; ".join(
                f"R = {r}: "
                + ", ".join(
                    with_error([int(t) * value for value in found["frequencies"][t]], 3) for t in ("100", "800", "6400")
                )
                for r, found in lemma.items()
            ),
            study + "; [drawn](#rates)",
            "400 participations; mean and 95 % interval",
            "O(1/t), yes; the factor *falls* with R, while τ_mix grows",
        ),
        Row(
            "Lemma 3, weights: E max (ν_i − 1/(N π_i))² is O(τ_mix / t) for every t > 0, since λ_i ≥ a₀ > 0 "
            "almost surely",
            "everyone has been seen at t = 400 in "
            + "; ".join(f"{100 * found['all_seen']['400']:.0f} % of runs at R = {r}" for r, found in lemma.items())
            + "; t times it at t = 1,600, 6,400 where all have: "
            + "; ".join(
                f"R = {r}: "
                + ", ".join(with_error([int(t) * value for value in found["weights"][t]], 0) for t in ("1600", "6400"))
                for r, found in lemma.items()
            ),
            study,
            "400 participations; mean and 95 % interval",
            "O(1/t) once everyone has been seen; before that ν is infinite, and no constant a₀ holds for "
            "all t at R ≤ M − 2",
        ),
        Row(
            "Theorem 2: Debiased FedAvg falls like T^(−1/2) and has no floor",
            "exponent from T = 4,000 to 32,000: "
            + "; ".join(f"R = {r}: {with_error(pair, 3)}" for r, pair in rates["exponent"].items() if r != "19"),
            study,
            over,
            "yes",
        ),
        Row(
            "Theorem 2: its bound does not grow with the number of clients",
            "not measured: τ_mix depends on N itself, and the constant of Lemma 3 has N² in the proof",
            "",
            "",
            "not tested",
        ),
        Row(
            "Appendix, theorem on time averages: T E(mean of f − π f)² is bounded by variance and N τ_mix",
            "the f that counts one client is the row on frequencies above",
            study,
            "400 participations",
            "yes for such f",
        ),
        Row(
            "Appendix, lemmas on the gradients' differences and on the drift of local steps",
            f"largest drift {_drift():.3f} of its bound",
            script("appendix_lemmas"),
            "300 random federations of quadratics",
            "yes, with much room",
        ),
        Row(
            "Appendix, the further lemmas of the descent (moves over τ rounds, gradients within them, descent of F_w)",
            "inequalities of the proof; what they are for is measured with Theorems 1 and 2",
            "",
            "",
            "not tested one by one",
        ),
        Row(
            "Appendix, lemma on products: E[U₁² U₂] ≤ (ε + δ²) E[U₂] for any U₂, once E[U₁²] is small",
            f"U₁ = 1 with chance 1/100, else 0, U₂ = 100 U₁, ε = δ² = 1/10: {left} on the left, {right} on the right",
            script("appendix_lemmas"),
            "exact, nothing drawn",
            "**no** as stated, yes for independent U₁ and U₂; Theorem 2 itself is measured above",
        ),
    ]


@cache
def _biased() -> str:
    """Write how far the mean of counted frequencies is from the limit, of which 1/t is extrapolated away."""
    means = {r: check("appendix_lemmas").mean_frequencies(r, 400) for r in (1, 4)}
    return "; ".join(
        f"R = {r}: " + ", ".join(f"{np.abs(mean[t - 1] - (2 * mean[399] - mean[199])).max():.4f}" for t in (10, 100))
        for r, mean in means.items()
    )


@cache
def _drift() -> float:
    return float(check("appendix_lemmas").drift_ratio())


def experiments(kept: Kept) -> list[Row]:
    """Return the statements that figures of the paper show."""
    digits, synthetic = (kept["draws"][each]["records"] for each in ("digits-draws", "synthetic-long-draws"))
    at_rest = [draw for draw in {each["draw"] for each in synthetic} if _settled(synthetic, draw)]
    synthetic = [each for each in synthetic if each["draw"] in at_rest]
    resting = f"those {len(at_rest)} of ten draws in which all have settled; median and range"
    unsettled = sum(not each["converged"] for each in of(digits, "fedavg", 0))
    speeds = _speeds(kept)
    return [
        Row(
            "Figure 2a, synthetic: larger R, smaller bias of FedAvg",
            f"above uniform: {_by_r(synthetic, 'fedavg', with_range)}",
            page("fedavg-synthetic"),
            resting,
            "yes",
        ),
        Row(
            "Figure 2b, synthetic: Debiased FedAvg reaches the loss of uniform participation",
            f"above uniform: {_by_r(synthetic, 'debiased_fedavg', with_range)}",
            page("debiased-synthetic"),
            resting,
            "yes",
        ),
        Row(
            "Figure 3a, images: Debiased FedAvg reaches the loss of uniform participation",
            f"digits, above uniform: {_by_r(digits, 'debiased_fedavg', with_interval)}",
            page("debiased-digits"),
            DRAWS,
            "yes for small steps; at R = 0 the long local steps of rare clients leave some",
        ),
        Row(
            "Figure 3a, images: and faster for larger R",
            "digits, rounds to within 1 % of uniform's descent: "
            + "; ".join(f"R = {r}: {words}" for r, words in speeds.items()),
            page("debiased-digits"),
            TEN,
            "yes on digits; on the synthetic problem [it depends on the groups](#does-a-larger-r-converge-faster)",
        ),
        Row(
            "Figure 3b, images: larger R, smaller bias of FedAvg",
            f"digits, above uniform: {_by_r(digits, 'fedavg', with_interval)}; it falls with R in "
            f"{_falling(digits)} of 10",
            page("fedavg-digits"),
            f"{DRAWS}. {_unsettled(unsettled)}",
            "yes",
        ),
        Row(
            "Figure 3c: at R = 8 FedAvg stays biased",
            f"digits {with_interval(excess(digits, 'fedavg', 8))}; "
            f"synthetic {with_range(excess(synthetic, 'fedavg', 8))}",
            page("three-methods-digits"),
            f"{DRAWS}; synthetic: {resting}",
            "yes",
        ),
        Row(
            "Figure 3c: at R = 8 FedVARP stays biased",
            f"digits {with_interval(excess(digits, 'fedvarp', 8))}; "
            f"synthetic {with_range(excess(synthetic, 'fedvarp', 8))}",
            script("fedvarp_bias") + ", " + page("three-methods-digits"),
            f"{DRAWS}; synthetic: {resting}",
            "**no**",
        ),
        _network(kept),
        Row(
            "Larger R, faster convergence, explained by the conjecture on τ_mix",
            "E‖∇F‖² of Debiased FedAvg at T = 32,000: "
            + "; ".join(
                f"R = {r}: {with_error(errors['32000'], 3)}"
                for r, errors in kept["rates"]["error"]["debiased_fedavg"].items()
            ),
            "`reports/rates.py`",
            f"{kept['rates']['replicas']} draws of the data, each with a participation of its own; mean and "
            f"95 % interval",
            "faster, yes; **not** by τ_mix, which grows, but by participation that is more regular",
        ),
    ]


def foreseen(kept: Kept) -> Row:
    """Return the row on where FedAvg ends, which the paper does not foresee."""
    found = kept["rates"]["predicted"]
    return Row(
        "Beyond the paper: FedAvg ends where theory says",
        "distance from the optimum, measured for computed: "
        + "; ".join(
            f"R = {r}: {with_error(found[r]['run'], 3)} for {with_error(found[r]['computed'], 3)}"
            for r in found
            if r != "19"
        ),
        page("quadratic-bias"),
        f"{kept['rates']['replicas']} draws of the data, each with a participation of its own; mean and 95 % interval",
        "yes",
    )


def _network(kept: Kept) -> Row:
    """Return the row of the network where it comes to rest; the words follow from the numbers."""
    found = kept["networks"]["regularised-r8"]
    runs = found["records"]
    measured = "; ".join(
        f"{NAMES[name]} {with_interval(above_uniform(runs, name), 4)} "
        f"(single models {with_interval(above_uniform(runs, name, 'loss'), 4)})"
        for name in NAMES
    )
    return Row(
        "A three-layer network at every client: at R = 8 Debiased FedAvg reaches uniform, FedAvg does not",
        f"digits, above uniform, mean model: {measured}",
        page("network-digits") + f" with l2 {found['l2']:g}, {found['rounds']:,} rounds",
        "ten participations; mean and 95 % interval",
        network_verdict(runs),
    )


def network_verdict(runs: Sequence[Record]) -> str:
    """Say whether FedAvg lies above Debiased FedAvg, participation by participation, by both metrics."""
    told, sure = [], []
    for what, words in (("average_loss", "mean models"), ("loss", "single models")):
        apart = above_uniform(runs, "fedavg", what) - above_uniform(runs, "debiased_fedavg", what)
        sure.append(apart.mean() > half_width(apart))
        told.append(f"by {with_interval(apart, 4)} of {words}, in {int((apart > 0).sum())} of {len(apart)}")
    verdict = "yes" if all(sure) else "in part" if any(sure) else "not decided"
    return f"{verdict}: FedAvg lies above Debiased FedAvg {' and '.join(told)}"


def _open(kept: Kept) -> list[Row]:
    speeds, rates, what_ifs = _speeds(kept), kept["rates"], kept["what-ifs"]
    own = what_ifs["per-client-separation"]["metrics"]
    slow = [np.array(what_ifs[f"separation-versus-speed-{r}"]["metrics"]["rounds.per_day"]) for r in (0, 20)]
    return [
        Row(
            "Open: can variance reduction be faster?",
            "digits at R = 0, rounds to within 1 %: FedVARP "
            + rounds([each["rounds_within"]["0.01"] for each in of(_runs(kept), "fedvarp", 0)])
            + f", Debiased FedAvg {speeds[0]}",
            page("debiased-digits"),
            TEN,
            "yes at R = 0, at the price of N x d numbers of memory",
        ),
        Row(
            "Open: separations of their own, R_i; Theorems 1 and 2 hold, Theorem 3 is open",
            "R_i from 0 to 38, distance from the optimum: FedAvg "
            + with_interval(np.array(own["learning.fedavg.bias"]), 3)
            + ", Debiased FedAvg "
            + with_interval(np.array(own["learning.debiased_fedavg.bias"]), 3),
            "[`learning-per-client-separation`](../scenarios/studies/learning-per-client-separation.fedsim.yaml), "
            "[chain.md](chain.md)",
            f"{what_ifs['per-client-separation']['seeds']} seeds; mean and 95 % interval",
            "debiasing works; no product form of π, Theorem 3 stays open",
        ),
        Row(
            "Open: a bound for R = M − 1, where the theorems do not apply",
            "E‖∇F‖² at T = 500, 32,000: "
            + "; ".join(
                f"{NAMES[name]} {with_error(rates['error'][name]['19']['500'], 3)}, "
                + with_error(rates["error"][name]["19"]["32000"], 4)
                for name in ("fedavg", "debiased_fedavg")
            ),
            "`reports/rates.py`",
            f"{rates['replicas']} draws of the data, each with a participation of its own; mean and 95 % interval",
            "both converge, without a floor, faster than at any smaller R",
        ),
        Row(
            "Other methods can be debiased by counting too",
            "Debiased FedBuff beside FedBuff, from the optimum: "
            + ", ".join(
                with_interval(np.array(what_ifs["buffer-10-0s"]["metrics"][f"learning.{name}.bias"]), 2)
                for name in ("debiased_fedbuff", "fedbuff")
            ),
            "[studies.md](studies.md)",
            f"{what_ifs['buffer-10-0s']['seeds']} seeds; mean and 95 % interval",
            "yes for the buffered server",
        ),
        Row(
            "A large R may slow training down, since few clients are available",
            f"rounds a day at R = 0: {with_interval(slow[0], 0)}, at R = 20: {with_interval(slow[1], 0)}",
            "[`separation-versus-speed`](../scenarios/studies/separation-versus-speed.fedsim.yaml)",
            f"{what_ifs['separation-versus-speed-0']['seeds']} seeds; mean and 95 % interval",
            "yes",
        ),
    ]


def _by_r(records: Sequence[Record], name: str, write: Callable[[np.ndarray], str]) -> str:
    found = sorted({each["separation"] for each in records if each["separation"] is not None})
    return "; ".join(f"R = {r}: {write(excess(records, name, r))}" for r in found)


def _runs(kept: Kept) -> list[Record]:
    found: list[Record] = kept["draws"]["digits-participations"]["records"]
    return found


def _speeds(kept: Kept) -> dict[int, str]:
    return {
        r: rounds([each["rounds_within"]["0.01"] for each in of(_runs(kept), "debiased_fedavg", r)])
        for r in SEPARATIONS
    }


def _settled(records: Sequence[Record], draw: int) -> bool:
    return all(each["converged"] for each in records if each["draw"] == draw)


def _unsettled(count: int) -> str:
    return f"At R = 0 FedAvg has not settled in {count} of 10" if count else "All have settled"


def _falling(records: Sequence[Record]) -> int:
    by_r = np.array([excess(records, "fedavg", r) for r in SEPARATIONS])
    return int((np.diff(by_r, axis=0) < 0).all(axis=0).sum())
