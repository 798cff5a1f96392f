"""What is asked of the chain, checked before anything is computed, and what an answer says."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from fedsim.common.arrays import Floats, Ints
from fedsim.common.errors import ChainError
from fedsim.selection.rules import MIDZUNO, RULES, SelectionRule, rule_of

AnyRule: TypeAlias = SelectionRule | str
"""A rule of selection, or the name of a built-in one."""
CHAIN_LAWS = tuple(name for name, rule in RULES.items() if not rule.says("constant"))

_SMALLEST_WEIGHT = 1e-300


@dataclass(frozen=True)
class Question:
    """A chain whose numbers were checked by `ask`."""

    weights: Floats
    separation: int | Ints
    cohort: int
    rule: SelectionRule

    @property
    def asked(self) -> tuple[Floats, int | Ints, int, SelectionRule]:
        """All four, in the order in which an answer repeats them."""
        return self.weights, self.separation, self.cohort, self.rule

    @property
    def law(self) -> str:
        """Name of the rule."""
        return self.rule.name

    @property
    def clients(self) -> int:
        """Number of clients, N."""
        return int(self.weights.size)

    @property
    def separations(self) -> Ints:
        """(N,) the separation of every client, also where it is common."""
        return np.broadcast_to(np.asarray(self.separation, dtype=np.int64), self.weights.shape)


def ask(
    weights: ArrayLike, separation: ArrayLike, cohort: object = 1, rule: AnyRule = MIDZUNO, *, constant: bool = False
) -> Question:
    """Check a question, and put it in normal form.

    Weights, (N,) positive finite numbers, are normalised to sum 1, and separations that are all equal are one common
    separation. Rules of constant chances, whose clients are no chain, are let through if `constant`.

    Raises a `ChainError` if a number makes no sense, or the clients cannot fill a cohort every round, as laws of a
    fixed size need it: a common R must be at most floor(N / B) - 1, and always-available clients of separations R_i can
    supply at most sum_i 1 / (1 + R_i) participations a round.
    """
    rule = rule_of(rule)
    if rule.says("constant") and not constant:
        raise ChainError(
            f"law {rule.name!r} is answered exactly for any separations, by the method 'closed-form' alone"
        )
    shares = normalised(weights)
    size = whole_number(cohort, "the cohort", least=1)
    if size > shares.size:
        raise ChainError(
            f"the cohort is {size}, more than the {shares.size} clients there are: it must be at most {shares.size}"
        )
    rounds = separations(separation, shares.size)
    if rule.in_blocks and shares.size % size:
        raise ChainError(
            f"{shares.size} clients do not divide into groups of {size}: with law {rule.name!r} the number of "
            f"clients must be a multiple of the cohort"
        )
    if rule.in_blocks and not isinstance(rounds, int):
        blocks = rounds.reshape(-1, size)
        mixed = np.flatnonzero(np.ptp(blocks, axis=1))
        if mixed.size:
            raise ChainError(
                f"the separations in group {mixed[0]} are {blocks[mixed[0]].tolist()}: a group takes part as "
                f"a whole, so give its clients one separation"
            )
    question = Question(weights=shares, separation=rounds, cohort=size, rule=rule)
    _check_supply(question)
    return question


def normalised(weights: ArrayLike) -> Floats:
    """Return weights with sum 1, after checking that they are one list of positive finite numbers."""
    try:
        values = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ChainError(f"the weights are not numbers ({error}): give one positive number per client") from None
    if values.ndim != 1:
        raise ChainError(f"the weights have shape {values.shape}: give one list, with one number per client")
    if values.size == 0:
        raise ChainError("the population is empty: give at least one client")
    bad = np.flatnonzero(~(np.isfinite(values) & (values > 0.0)))
    if bad.size:
        more = f" (and {bad.size - 1} more)" if bad.size > 1 else ""
        raise ChainError(
            f"the weight of client {bad[0]} is {values[bad[0]]}{more}: weights must be positive and finite; "
            f"leave out a client that can never be chosen"
        )
    values = np.asarray(values / values.max())
    values /= values.sum()
    least = int(values.argmin())
    if values[least] < _SMALLEST_WEIGHT:
        raise ChainError(
            f"the weight of client {least} is {values[least]:g} of the total, less than "
            f"{_SMALLEST_WEIGHT:g}: too little to compute with; raise it or leave that client out"
        )
    return values


def reduced(question: Question) -> Question:
    """Return the same chain on what is chosen, as the rule says: blocks become single units."""
    rounds = question.separation
    weights, cohort, rule = question.rule.reduced(question.weights, question.cohort)
    rounds = rounds if isinstance(rounds, int) else rounds[:: question.clients // len(weights)]
    return Question(weights=weights, separation=rounds, cohort=cohort, rule=rule)


def per_client(question: Question, shares: Floats) -> Floats:
    """Share what the units of `reduced` take among the clients: equally inside a group."""
    if question.rule.in_blocks:
        return np.repeat(shares / question.cohort, question.cohort)
    return shares


def largest_separation(clients: int, cohort: int) -> int:
    """Return the largest common separation that always-available clients can keep: floor(N / B) - 1."""
    return clients // cohort - 1


def separations(separation: ArrayLike, clients: int) -> int | Ints:
    """Return one common separation, or (N,) separations, after checking that they are whole numbers from 0 on."""
    try:
        values = np.asarray(separation)
    except (TypeError, ValueError):
        raise ChainError(f"the separation {separation!r} is neither a number nor a list of numbers") from None
    if values.ndim and values.shape != (clients,):
        raise ChainError(
            f"the separations have shape {values.shape} and there are {clients} clients: give one number per "
            f"client, or one for all"
        )
    each = values.reshape(-1)
    name = "the separation of client {}" if values.ndim else "the separation"
    for client, value in enumerate(each.tolist()) if each.dtype.kind not in "iu" else ():
        _integer(value, name.format(client))
    if (each < 0).any():
        client = int(np.flatnonzero(each < 0)[0])
        raise ChainError(f"{name.format(client)} is {each[client]}: it counts rounds of waiting, 0 or more")
    return int(each[0]) if (each == each[0]).all() else each.astype(np.int64)


def whole_number(value: object, what: str, least: int = 0) -> int:
    """Return `value` as an integer of at least `least`, or raise an error that calls it `what`."""
    number = _integer(value, what)
    if number < least:
        raise ChainError(f"{what} is {number}: it must be at least {least}")
    return number


def _integer(value: object, what: str) -> int:
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return int(value)
    raise ChainError(f"{what} is {value!r}: it must be a whole number")


def _check_supply(question: Question) -> None:
    if not question.rule.fixed_size:  # it takes all that are ready, where these are too few
        return
    clients, cohort, rounds = question.clients, question.cohort, question.separation
    most = largest_separation(clients, cohort)
    if isinstance(rounds, int):
        if rounds > most:
            fits = clients // (rounds + 1)
            smaller = f", or the cohort to {fits}" if fits else ""
            raise ChainError(
                f"the separation is {rounds}, but {clients} clients in cohorts of {cohort} can wait at most "
                f"{most} rounds each: lower the separation to {most}{smaller}"
            )
        return
    if question.rule.in_turn and rounds.max() > most:
        client = int(rounds.argmax())
        raise ChainError(
            f"the separation of client {client} is {rounds[client]}, but in turn, in cohorts of {cohort}, "
            f"each of {clients} clients comes round again after {most} rounds of waiting: lower it to {most}"
        )
    supply = float((1.0 / (1.0 + rounds)).sum())
    if cohort > supply * (1.0 + 1e-12):
        remedy = f"lower the cohort to {int(supply)}" if supply >= 1.0 else "no cohort is small enough"
        raise ChainError(
            f"the cohort is {cohort}, but with these separations the clients can supply at most {supply:.6g} "
            f"participations a round (the sum of 1 / (1 + R_i)): {remedy}, or lower the separations"
        )


@dataclass(frozen=True)
class Stationary(Question):
    """Long-run participation of every client under one separation, cohort and selection law.

    `pi`, (N,), are the shares of all participations, P(i in S_t) / E|S_t| in the long run, of sum 1, for the `weights`
    p_i, (N,), of sum 1, the common `separation` R or the (N,) separations R_i, in rounds, a `cohort` of B clients
    wanted per round and a `law` of selection. By the `method`:

    - `error_bound` is the largest relative error of an entry of `pi`: for ``closed-form`` and ``exact`` from rounding
      and truncation; for ``mean-field`` an *estimate* of the modelling error, not a guarantee.
    - `standard_error`, (N,), stands in its place for ``monte-carlo`` alone.
    - `period`, `recurrent_classes` and `states` are of ``exact``: the period of the chain, 1 if it is aperiodic; how
      many sets of states it can end up in; how many were visited. With a larger period, or several classes, `pi` is
      the long-run average over time.

    `pull`, (N,), are the clients' pulls on a model that moves by the mean of a round, E[1{i in S}/|S|] over the rounds
    that select anyone, of sum 1; None where cohorts have one size, and it is `pi`. Where chance decides who meets whom
    for ever, it is that of all runs together in which all are ready at first. `caveats` are sentences about what the
    answer leaves out: ``mean-field`` with separations that differ does not see stalls.
    """

    pi: Floats
    method: str
    error_bound: float | None = None
    standard_error: Floats | None = None
    period: int | None = None
    recurrent_classes: int | None = None
    states: int | None = None
    caveats: tuple[str, ...] = ()
    pull: Floats | None = None

    def __repr__(self) -> str:
        """Return what it says in a line, without arrays."""
        answer = f"method={self.method!r}, tv_uniform={self.tv_uniform:.6g}, ratio={self.ratio:.6g}"
        return f"Stationary(clients={self.clients}, cohort={self.cohort}, law={self.law!r}, {answer})"

    @property
    def l1_uniform(self) -> float:
        """L1 distance of `pi` from uniform, sum_i abs(pi_i - 1/N); between 0 and 2."""
        return float(np.abs(self.pi - 1.0 / self.pi.size).sum())

    @property
    def tv_uniform(self) -> float:
        """Total-variation distance of `pi` from uniform: half the L1 distance."""
        return self.l1_uniform / 2.0

    @property
    def ratio(self) -> float:
        """Largest entry of `pi` over the smallest; infinite if some client was never seen (Monte Carlo)."""
        least = float(self.pi.min())
        return float(self.pi.max()) / least if least > 0.0 else float("inf")
