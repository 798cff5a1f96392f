"""What the first screen shows of a finding."""

from fedsim.pages.finding import LONGEST, NEXT, TRUST, Finding, as_plain, command_of, spoken, with_seeds


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


def test_a_decision_is_repeated_with_more_seeds_and_its_choice_run_elsewhere() -> None:
    known = {"command": "fedsim decide a.yaml --out decisions/a --seed 7"}
    assert with_seeds(known, 9) == "fedsim decide a.yaml --out decisions/a --seed 7 --set decide.seeds=9"
    assert command_of(known, "run", "server.cohort=4") == "fedsim run a.yaml --seed 7 --set server.cohort=4"
    swept = {"command": "fedsim sweep a.yaml --out sweeps/a"}
    assert with_seeds(swept, 9) == "fedsim sweep a.yaml --out sweeps/a --set sweep.seeds=9"
    assert not command_of(swept, "decide")


def test_a_line_that_is_too_long_ends_with_a_whole_clause() -> None:
    first = "21.6 % from uniform at R = 0, availability = always"
    assert Finding(f"{first}; 54.9 % at R = 0, availability = one of many values.").line == f"{first}."
    tie = "availability = one of many ties with availability = always: 2 seeds do not tell them apart"
    assert Finding(f"{tie} (paired t test; 5 %).").line.endswith("availability = always.")
    waits = "with a separation of 40 rounds and a cool-down of a day in a run of 20: how often says nothing of a bias"
    assert Finding(f"Every client can take part once, {waits}.").line == "Every client can take part once."
    shocks = "Shocks (“a”, “b”) take devices out together"
    assert (
        Finding(f"{shocks}: no theory covers this, and one run shows one course of them; {tie}.").line
        == f"{shocks}: no theory covers this."
    )
    assert as_plain(Finding(f"{first}; {first}."))["brief"] == f"{first}."


def test_a_terminal_prints_the_lines_with_their_commands() -> None:
    found = [Finding("A.", TRUST), Finding("B.", TRUST), Finding("C.", NEXT, command="fedsim run c.yaml")]
    assert list(spoken(found)) == [f"{TRUST}: A.", f"{NEXT}: C.", "  fedsim run c.yaml"]
