"""Commands that pages name: those of manifests, with other verbs and more settings."""

from collections.abc import Mapping
from contextlib import suppress
from shlex import join, split

from fedsim.scenario.stop import Stop
from fedsim.scenario.units import format_duration

_VERBS = {"run": {"run", "sweep"}, "sweep": {"run", "sweep"}, "decide": {"run", "decide"}}


def command_of(known: Mapping[str, object], verb: str = "", *settings: str) -> str:
    """Return the command of a manifest or `sweep.json` with more settings; "" where it has none.

    By default it has its own verb. A sweep is no decision, nor a decision a sweep; a run of either has a folder of its
    own, and so has what differs in more than seeds.
    """
    with suppress(ValueError):  # what a shell cannot read
        words = split(str(known.get("command") or ""))
        if words[:1] == ["fedsim"] and len(words) > 2 and (verb or words[1]) in _VERBS.get(words[1], ()):
            if verb not in {"", words[1]} and "--out" in words:
                del words[words.index("--out") : words.index("--out") + 2]
            elif "--out" in words and not all(each.partition("=")[0].endswith("seeds") for each in settings):
                words[words.index("--out") + 1] += "-2"
            more = (word for each in settings for word in ("--set", each))
            return join(["fedsim", verb or words[1], *words[2:], *more])
    return ""


def with_seeds(known: Mapping[str, object], seeds: int) -> str:
    """Return the command of a sweep or decision with so many seeds; "" where it has none."""
    return command_of(known, "sweep", f"sweep.seeds={seeds}") or command_of(known, "decide", f"decide.seeds={seeds}")


def longer(stop: Stop, times: int) -> list[str]:
    """Return the settings for so many times as much."""
    settings = [] if stop.rounds is None else [f"stop.rounds={times * stop.rounds}"]
    return settings + ([] if stop.duration is None else [f"stop.duration={format_duration(times * stop.duration)}"])
