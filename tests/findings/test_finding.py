"""What the first screen shows of a finding."""

from fedsim.findings.finding import LONGEST, Finding, command_of


def test_a_line_is_the_sentence_where_it_is_short_enough() -> None:
    long = "word " * 30
    assert Finding("Short.", brief="Shorter.").line == "Short."
    assert Finding(long, brief="Shorter.").line == "Shorter."
    assert len(Finding(long).line) == len(Finding(long, brief=long).line) == LONGEST


def test_a_command_is_the_one_of_the_manifest_with_another_verb_and_more_settings() -> None:
    known = {"command": "fedsim run 'my a.fedsim.yaml' --set server.cohort=4 --seed 7"}
    expected = "fedsim sweep 'my a.fedsim.yaml' --set server.cohort=4 --seed 7 --set sweep.seeds=5"
    assert command_of(known, "sweep", "sweep.seeds=5") == expected
    assert not any(command_of({"command": each}, "sweep") for each in (None, "", "fedsim run 'a", "fedsim decide a b"))
