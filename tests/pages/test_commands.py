"""Commands that pages name: each key is set once."""

from shlex import split

from fedsim.pages.commands import command_of, log_command, longer, with_seeds
from fedsim.scenario.log import ProductionLog
from fedsim.scenario.stop import Stop

RUN = "fedsim run a.yaml --out runs/a --set stop.rounds=60 --set 'name=a b' --seed 3"


def test_a_setting_replaces_the_one_that_there_is() -> None:
    command = longer({"command": RUN}, Stop(rounds=60), 2)
    assert split(command) == split("fedsim run a.yaml --out runs/a-2 --set 'name=a b' --seed 3 --set stop.rounds=120")
    assert longer({"command": command}, Stop(rounds=120), 2).count("stop.rounds") == 1


def test_another_verb_has_a_folder_of_its_own() -> None:
    command = with_seeds({"command": RUN}, 5)
    assert command.startswith("fedsim sweep a.yaml --set stop.rounds=60")
    assert command.endswith("--set sweep.seeds=5")
    assert with_seeds({"command": "fedsim decide a.yaml"}, 5) == "fedsim decide a.yaml --set decide.seeds=5"


def test_what_has_no_command_proposes_none() -> None:
    assert command_of({}) == command_of({"command": "make all"}) == command_of({"command": RUN}, "decide") == ""


def test_a_log_is_read_as_it_was_and_by_one_more_option() -> None:
    """All that was given of it, as the options have it: two words of one meaning too."""
    told = {"file": "a b.csv", "columns": {"client": "id"}, "outcomes": {"OK": "reported", "FINE": "reported"}}
    more = {"base": "2026-01-05T00:00:00Z", "unit": "ms", "check_ins": "there.csv"}
    log = ProductionLog.model_validate(told | more)
    words = split(log_command("measure", log, "--clients FILE"))
    assert words[:3] == ["fedsim", "measure", "a b.csv"]
    assert dict(zip(words[3::2], words[4::2], strict=True)) == {
        "--columns": "client=id",
        "--outcomes": "reported=OK|FINE",
        "--base": "2026-01-05T00:00:00Z",
        "--unit": "ms",
        "--check-ins": "there.csv",
        "--clients": "FILE",
    }
