"""What the first screen shows of a finding."""

from fedsim.findings.finding import LONGEST, Finding


def test_a_line_is_the_sentence_where_it_is_short_enough() -> None:
    long = "word " * 30
    assert Finding("Short.", brief="Shorter.").line == "Short."
    assert Finding(long, brief="Shorter.").line == "Shorter."
    assert len(Finding(long).line) == len(Finding(long, brief=long).line) == LONGEST
