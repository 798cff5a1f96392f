"""Numbers as a person writes them."""

import math

import pytest

from fedsim.common.formatting import (
    NO_VALUE,
    capitalized,
    count,
    duration,
    fixed,
    listing,
    listing_of,
    number,
    percent,
    quantity,
)


def plain(text: str) -> str:
    """Put ASCII where typography stands."""
    return text.replace("\N{MINUS SIGN}", "-").replace("\N{NARROW NO-BREAK SPACE}", " ")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1234567.0, "1,235,000"),
        (0.458147, "0.4581"),
        (9.99999, "10"),
        (-2.5, "-2.5"),
        (0.00001234, "1.234e-5"),
        (3e9, "3e9"),
        (None, NO_VALUE),
        (math.nan, NO_VALUE),
        (math.inf, NO_VALUE),
    ],
)
def test_number(value: float | None, text: str) -> None:
    assert plain(number(value)) == text


def test_fixed_keeps_decimals_and_does_not_hide_what_is_small() -> None:
    assert [plain(fixed(value)) for value in (0.07, 0, 2e-5, None)] == ["0.070", "0.000", "2e-5", NO_VALUE]


def test_percent() -> None:
    shown = [plain(percent(share)) for share in (0, 1, 0.5, 0.0001, -0.0001, -0.02)]
    assert shown == ["0 %", "100 %", "50.0 %", "< 0.1 %", "0.0 %", "-2.0 %"]


def test_duration() -> None:
    shown = [plain(duration(time)) for time in (0, 90, 7200, 864_000)]
    assert shown == ["0 s", "90 s", "2 h", "10 d"]


def test_no_listing_hides_one_item() -> None:
    """“and 1 more” hid the one that was asked for, and was as long."""
    assert [listing_of(list("abcde")[:n], 3) for n in (3, 4, 5)] == [
        "a, b and c",
        "a, b, c and d",
        "a, b, c and 2 more",
    ]


def test_counts_and_listings() -> None:
    assert (count(1, "round"), count(8000, "round")) == ("1 round", "8,000 rounds")
    assert [listing(items) for items in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]


def test_only_the_first_letter_is_capitalized() -> None:
    assert (capitalized("a Third"), capitalized("")) == ("A Third", "")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0, "B", "0 B"),
        (999.4, "B", "999 B"),
        (999.6, "B", "1 kB"),
        (2.5e11, "B", "250 GB"),
        (1.42e3, "Wh", "1.42 kWh"),
        (-1500.0, "g", "-1.5 kg"),
        (5e20, "B", "500,000 PB"),
        (46.8, "MB", "46.8 MB"),
        (None, "MB", NO_VALUE),
    ],
)
def test_amounts_are_written_in_a_unit_that_suits_them(value: float | None, unit: str, text: str) -> None:
    assert plain(quantity(value, unit)) == text
