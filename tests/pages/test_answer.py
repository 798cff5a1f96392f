"""The JSON form of an answer, on which others build, and what follows from its checks."""

from pathlib import Path

from fedsim.pages.answer import ANSWER_VERSION, Answer
from fedsim.pages.page import answer_of
from fedsim.run.check import Check, Grade

WHOLE = {*("version", "kind", "name", "question", "setup", "answer"), *("expectations", "checks", "sentences", "tiles")}
CHECK = {"name": str, "state": str, "text": str, "of": str, "facts": tuple, "remedy": str, "command": str}
SENTENCE = {"text": str, "about": str, "facts": tuple, "command": str}
TILE = {"value": str, "label": str, "detail": str, "facts": tuple}


def test_the_json_form_has_its_keys_and_types(written: Path) -> None:
    """Whoever changes them raises the version."""
    said = answer_of(written).json()
    assert said.keys() == WHOLE
    assert said["version"] == ANSWER_VERSION == 1
    for key, types in (("checks", CHECK), ("sentences", SENTENCE), ("tiles", TILE)):
        assert said[key]
        for each in said[key]:
            assert each.keys() == types.keys()
            assert all(isinstance(each[name], kind) for name, kind in types.items())
    assert {each["state"] for each in said["checks"]} <= {str(state) for state in Grade}


def made(*states: Grade) -> Answer:
    checks = [Check(f"c{at}", state, f"{at}.", remedy=f"Do {at % 2}.") for at, state in enumerate(states)]
    return Answer("run", "name", "It is so.", checks=checks)


def test_alarms_are_the_bad_checks_and_then_the_others() -> None:
    answer = made(Grade.OK, Grade.CAUTION, Grade.BAD, Grade.NONE)
    assert [each.name for each in answer.alarms] == ["c2", "c1"]
    assert [each.text for each in answer.remedies] == ["Do 0."]


def test_without_alarms_the_other_checks_say_what_is_next() -> None:
    assert [each.text for each in made(Grade.OK, Grade.OK).remedies] == ["Do 0.", "Do 1."]
