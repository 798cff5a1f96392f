"""The scenarios that ``fedsim init`` writes, one file each in ``starters``, and the trace that one of them replays."""

import json
import re
from importlib.resources import files

_DEVICES, _DAYS = 12, 7
_DAY_S, _HOUR_S = 86_400, 3_600


def starter(name: str, template: str = "phones") -> str:
    """Return the text of a small scenario, called `name`, that runs in seconds; see ``starters`` for the templates."""
    text = (files("fedsim.scenario") / "starters" / f"{template}.yaml").read_text(encoding="utf-8")
    return re.sub(r"\bNAME((?:\.csv)?)", lambda found: _plain(name + found[1]), text)


def _plain(value: str) -> str:
    """Write a text as YAML: as it is, or in quotes where it would mean something else."""
    plain = re.fullmatch(r"[A-Za-z][\w./-]*", value) and value.lower() not in {"true", "false", "null"}
    return value if plain else json.dumps(value)


def starter_trace() -> str:
    """Return a recorded week as CSV, for the template ``trace``: made up, a dozen phones that charge at night.

    Phone k is plugged in some minutes later than phone k - 1, leaves one night out, and is unplugged around six.
    """
    lines = ["device,start_s,end_s,condition"]
    for device in range(_DEVICES):
        for day in range(_DAYS):
            if (device + day) % _DAYS:
                start_s = day * _DAY_S + 21 * _HOUR_S + 600 * device + 240 * ((3 * device + 5 * day) % 11)
                end_s = (day + 1) * _DAY_S + 5 * _HOUR_S + 300 * ((7 * device + 2 * day) % 13)
                lines.append(f"phone-{device},{start_s},{end_s},charging")
    return "\n".join(lines) + "\n"
