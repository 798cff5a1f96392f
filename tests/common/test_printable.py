"""What comes from a file is seen, and does nothing to the terminal, the CI service or the page that shows it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.common.errors import Mistake
from fedsim.common.messages import annotate, complain, say, say_json
from fedsim.common.printable import printable, printable_lines, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("India, 東京, Ελλάδα, café 👩\u200d🔬", "India, 東京, Ελλάδα, café 👩\u200d🔬"),
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x9b31m \x7f", r"\x9b31m \x7f"),
        ("abc\u202egpj.exe \u2066x\u2069", r"abc\u202egpj.exe \u2066x\u2069"),
        ("\u2028::error::x", r"\u2028::error::x"),
        ("\0\ufffe\ud800", r"\x00\ufffe\ud800"),
        ("\U000e0041", r"\U000e0041"),
        ("see ##[add-path]/evil", r"see #\x23[add-path]/evil"),
    ],
)
def test_what_is_not_to_be_printed_is_written_as_an_escape(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_of_a_long_text_the_middle_is_left_out() -> None:
    shown = printable("a" * 10_000 + "z" * 10_000)
    assert len(shown) <= 2_000
    assert shown.startswith("aaa")
    assert shown.endswith("zzz")
    assert " ... " in shown
    assert printable("a" * 10_000, None) == "a" * 10_000


@pytest.mark.parametrize("text", ["::error::x", "  ::error::x", "fine\n::stop-commands::t\nfine", "\u3000::x::"])
def test_no_line_is_a_command(text: str) -> None:
    assert not any(line.lstrip().startswith("::") for line in printable_lines(text).splitlines())
    assert "x3a" in printable_lines(text)


@given(st.text())
def test_lines_stay_lines_and_nothing_hidden_is_left(text: str) -> None:
    for shown in (visible(text), printable_lines(text)):
        assert shown.count("\n") == text.count("\n")
        assert all(visible(line) == line for line in shown.split("\n"))


def test_a_mistake_is_one_short_line() -> None:
    told = str(Mistake("a\n.yaml:1:1", ("x\n::error::y\n" + "k" * 10**6, 3), "\x1b[31m" + "m" * 10**6))
    assert "\n" not in told
    assert "\x1b" not in told
    assert len(told) < 3_000


def test_commands_print_through_it(capsys: pytest.CaptureFixture[str]) -> None:
    say("::error::x\x1b")
    complain("##[error]\n::x::\u202e")
    annotate(["::warning title=ours::kept"])
    out, err = capsys.readouterr()
    assert out == "\\x3a:error::x\\x1b\n"
    assert err == "#\\x23[error]\n\\x3a:x::\\u202e\n::warning title=ours::kept\n"


@given(st.text())
def test_json_says_the_same_and_hides_nothing(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        written: list[str] = []
        patch.setattr("sys.stdout.write", written.append)
        say_json({"text": text})
    (said,) = written
    assert json.loads(said) == {"text": text}
    assert visible(said) == said
