"""Numbers as a person writes them: thousands separated, four digits that count, times in units that fit."""

import math
import re
from collections.abc import Callable, Iterable, Sequence

from fedsim.common.instants import readable_time

NO_VALUE = "\N{EN DASH}"  # stands for a value that is not there
_MOST_DECIMALS = 7
_LEAST = 1e-12  # a smaller number is what rounding leaves
DUST = 1e-9  # smaller figures of a table are not written out
MOST = 1e12  # a larger one is of a model that diverged
_THIN = "\N{NARROW NO-BREAK SPACE}"


def count(value: float, noun: str = "") -> str:
    """Write a whole number, with the noun that it counts: ``8,000 rounds``, ``1 round``."""
    text = f"{round(value):,}"
    if not noun:
        return text
    return f"{text} {noun}" if round(value) == 1 else f"{text} {noun}s"


def number(value: float | None, digits: int = 4) -> str:
    """Write a number to so many significant digits; very small and very large ones by their power of ten."""
    if value is None or not math.isfinite(value):
        return NO_VALUE
    if abs(value) < _LEAST:
        return "0"
    if abs(value) >= MOST:
        return f"over {MOST:.0e}".replace("+", "") if value > 0 else f"below {minus(f'-{MOST:.0e}')}".replace("+", "")
    rounded = float(f"{value:.{digits}g}")
    if not 1e-4 <= abs(rounded) < 1e7:
        mantissa, exponent = f"{rounded:.{digits - 1}e}".split("e")
        return minus(f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    text = f"{rounded:,.{decimals}f}"
    return minus(text.rstrip("0").rstrip(".") if "." in text else text)


def above_dust(value: float | None, digits: int = 4) -> str:
    """Write a number of a table, but one that is next to nothing as a bound."""
    if value is None or not _LEAST <= abs(value) < DUST:
        return number(value, digits)
    return f"below {number(DUST)}" if value > 0 else "about 0"


def at_rest(value: float | None) -> str:
    """Write how far a model is from its optimum; what is next to nothing may be what rounding leaves."""
    return "about 0" if value is not None and abs(value) < DUST else number(value)


def minus(text: str) -> str:
    """Write a minus sign where a hyphen stands for one."""
    return text.replace("-", "\N{MINUS SIGN}")


def fixed(value: float | None, decimals: int = 3) -> str:
    """Write a number to so many decimals; one too small for them as `number` does."""
    if value is None or not math.isfinite(value):
        return NO_VALUE
    if value != 0 and abs(value) < 0.5 * 10**-decimals:
        return above_dust(value, 2)
    return minus(f"{value:,.{decimals}f}")


def percent(share: float | None) -> str:
    """Write a share of one as a percentage with one decimal; all and nothing without."""
    if share is None or not math.isfinite(share):
        return NO_VALUE
    if share in {0, 1}:
        return f"{100 * share:.0f}{_THIN}%"
    if abs(share) < 0.0005:
        return f"<{_THIN}0.1{_THIN}%" if share > 0 else f"0.0{_THIN}%"
    return minus(f"{100 * share:,.1f}{_THIN}%")


SCALED = {"B": ("B", "kB", "MB", "GB", "TB", "PB"), "MB": ("MB", "GB", "TB", "PB")}
SCALED |= {"Wh": ("Wh", "kWh", "MWh"), "g": ("g", "kg", "t")}
"""Units of amounts, each with its thousandfold, millionfold, ..."""


def quantity(value: float | None, unit: str) -> str:
    """Write an amount of bytes, energy or mass to three digits, in thousands of its unit where it is large."""
    if value is None or not math.isfinite(value):
        return NO_VALUE
    value, name = scaled(value, unit)
    return f"{number(value, 3)}{_THIN}{name}"


def scaled(value: float, unit: str) -> tuple[float, str]:
    """Return an amount in the unit of `SCALED` in which it has at most three digits before the point, and that unit."""
    names, place = SCALED[unit], 0
    while abs(value) >= 999.5 and place < len(names) - 1:
        value, place = value / 1000, place + 1
    return value, names[place]


def duration(seconds: float | None) -> str:
    """Write a time in the unit that suits it."""
    if seconds is None or not math.isfinite(seconds):
        return NO_VALUE
    return minus(readable_time(seconds)).replace(" ", _THIN)


def cut(text: str, longest: int) -> str:
    """Cut the end off a text that is too long for its place."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def many(value: float, noun: str) -> str:
    """Write a number to three digits with the noun that it counts: ``1.2 rounds``, ``1 round``."""
    text = number(value, 3)
    return f"{text} {noun}" if text == "1" else f"{text} {noun}s"


def from_to(first: str, last: str) -> str:
    """Write two ends of what goes from one to the other; one alone where they are the same."""
    return f"at {first}" if first == last else f"from {first} to {last}"


def signed(value: float, write: Callable[[float], str]) -> str:
    """Write a difference with its sign; one that is written as nothing has none."""
    if _LEAST < abs(value) < DUST:
        return "about 0"
    text = write(value)
    return f"+{text}" if value > 0 and text[0].isdigit() and text != "0" else text


def count_range(first: float, last: float) -> str:
    """Write a range of whole numbers; one alone where it holds no more."""
    return count(first) if first == last else f"{count(first)} to {count(last)}"


def equation(name: str, value: object) -> str:
    """Write ``NAME = value`` so that no line breaks within it."""
    return f"{name}\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{value}"


def with_separation(text: str) -> str:
    """Say of the first R and the first cooldown of a text what they are."""
    text = re.sub(r"\bcooldown\b", "cool-down (time a device waits)", text, count=1)
    return re.sub(r"\bR\b(?:\s=\s\d+(?:,\d{3})*(?: to \d+)?)?", r"\g<0> (rounds a device waits)", text, count=1)


def distinct(names: Iterable[str]) -> list[str]:
    """Number the names that come again."""
    numbered: list[str] = []
    for name in names:
        candidate, times = name, 1
        while candidate in numbered:
            times += 1
            candidate = f"{name}-{times}"
        numbered.append(candidate)
    return numbered


def listing(items: Sequence[str]) -> str:
    """Join with commas, and a last 'and'."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def listing_of(items: Sequence[str], most: int, rest: str = "") -> str:
    """Join at most so many, or one more; of longer lists, the first and how many more: ``a, b and 3 more runs``.

    `rest` is the noun of those that are left out, as in ``more run``.
    """
    left = len(items) - most
    most, left = (len(items), 0) if left == 1 else (most, left)  # in place of one more stands the one
    more = count(left, rest) if rest else f"{count(left)} more"
    return listing([*items[:most], *([more] if left > 0 else [])])


def give_or_take(value: float, margin: float) -> str:
    """Write a number with half of its interval, to the digits that the interval leaves: ``0.25 ± 0.03``."""
    if not math.isfinite(margin) or margin <= DUST * abs(value):
        return number(value, max(2, len(f"{abs(value):.0f}")))  # whole numbers are whole
    if max(abs(value), margin) < DUST:
        return "about 0"
    rounded = f"{margin:.0e}"
    # Two digits of a margin that begins with a one, else one
    decimals = max(0, (1 if rounded.startswith("1") else 0) - int(rounded.partition("e")[2]))
    if decimals > _MOST_DECIMALS:
        return minus(f"{value:.1e} ± {margin:.0e}")
    return f"{minus(f'{value:,.{decimals}f}')} ± {margin:,.{decimals}f}"


def capitalized(text: str) -> str:
    """Begin with a capital letter, and leave the rest as it is."""
    return text[:1].upper() + text[1:]
