"""The paragraphs and tables of docs/studies.md, and of what docs/paper-results.md has beyond the paper."""

import numpy as np
from measurements import half_width, with_error
from tables import Kept, table


def _of(kept: Kept, study: str, metric: str) -> np.ndarray:
    return np.array(kept["what-ifs"][study]["metrics"][metric], dtype=float)


def mean(kept: Kept, study: str, metric: str, digits: int, scale: float = 1.0) -> str:
    """Write the mean over seeds with its interval."""
    values = scale * _of(kept, study, metric)
    return with_error((values.mean(), half_width(values)), digits)


def night_charging(kept: Kept) -> str:
    """Return the paragraph on phones that train at night."""
    study = "night-charging"
    hours = {hour: _of(kept, study, f"population.available_share.local.{hour:02d}").mean() for hour in range(24)}
    most, least = max(hours, key=hours.__getitem__), min(hours, key=hours.__getitem__)
    return _lines(
        f"Most are available in the hour from {most}:00 ({100 * hours[most]:.0f} %), fewest in that from {least}:00 "
        f"({100 * hours[least]:.0f} %). {mean(kept, study, 'rounds.shortage_share', 1, 100)} in a hundred rounds "
        f"have to wait for enough devices, and {mean(kept, study, 'rounds.per_day', 0)} rounds a day come about. "
        "The selection is fair and participation is not: the frequencies lie "
        f"{mean(kept, study, 'participation.l1_uniform', 3)} (L1) from uniform, where equal chances would put them at "
        f"{mean(kept, study, 'participation.l1_chance', 3)}, because people differ in how often their phones are "
        f"available; {mean(kept, study, 'participation.never_share', 1, 100)} % of the phones never took part in the "
        "week."
    )


def three_continents(kept: Kept) -> str:
    """Return the paragraph on continents that take turns."""
    study = "three-continents"
    ratios = {name: _of(kept, study, f"group.{name}.ratio") for name in ("india", "america", "europe")}
    shown = "; ".join(f"{name.capitalize()} {with_error((v.mean(), half_width(v)), 2)}" for name, v in ratios.items())
    return _lines(
        f"Rounds wait {mean(kept, study, 'rounds.wait.mean', 0)} s on average. Times that a device takes part, in "
        f"multiples of an even share: {shown}."
    )


def mixed_separation(kept: Kept) -> str:
    """Return the paragraph on unequal rests."""
    study = "mixed-separation"
    return _lines(
        f"The eager take part {mean(kept, study, 'group.eager.ratio', 3)} times as often as their number says, the "
        f"wary {mean(kept, study, 'group.wary.ratio', 3)} times. Theory for separations that differ is a mean field; "
        f"it puts the distance from uniform at {mean(kept, study, 'participation.l1_uniform_theory', 3)}, the log at "
        f"{mean(kept, study, 'participation.l1_uniform', 3)}, and the two lie "
        f"{mean(kept, study, 'participation.l1_chain', 3)} apart where chance alone would put them at "
        f"{mean(kept, study, 'participation.l1_noise', 3)}."
    )


def separation_versus_speed(kept: Kept) -> str:
    """Return the table of what a longer separation costs."""
    rows = []
    for r in (0, 10, 20, 40):
        study = f"separation-versus-speed-{r}"
        rows.append(
            [
                str(r),
                mean(kept, study, "rounds.per_day", 0),
                f"{mean(kept, study, 'rounds.shortage_share', 1, 100)} %",
                mean(kept, study, "participation.l1_uniform", 2),
                mean(kept, study, "participation.l1_chance", 2),
            ]
        )
    return table(["R", "rounds a day", "rounds that waited", "L1 distance from uniform", "by chance alone"], rows)


def cost_of_waiting(kept: Kept) -> str:
    """Return the sentence on what R = 20 buys, and at what price."""
    speed, bias = (
        100.0 - 100.0 * _of(kept, "separation-versus-speed-20", what) / _of(kept, "separation-versus-speed-0", what)
        for what in ("rounds.per_day", "participation.l1_uniform")
    )
    lost, bought = (with_error((each.mean(), half_width(each)), 0) for each in (speed, bias))
    return _lines(
        f"Beside R = 0, R = 20 costs {lost} % of the speed and takes away {bought} % of the distance from uniform."
    )


SERVERS = (
    ("rounds-100", "rounds of 100"),
    ("rounds-80", "first 80 of 100"),
    ("buffer-10", "buffer of 10"),
    ("buffer-100", "buffer of 100"),
)
WAITS = (("0s", "none"), ("30m", "30 min"))


def servers(kept: Kept) -> str:
    """Return the table of rounds and buffers with FedAvg."""
    rows = []
    for wait, words in WAITS:
        for name, server in SERVERS:
            study = f"{name}-{wait}"
            shares = " : ".join(f"{_of(kept, study, f'group.{group}.ratio').mean():.2f}" for group in ("slow", "fast"))
            steps = f"{_of(kept, study, 'rounds.per_day').mean():,.0f}"
            rows.append([server, words, steps, shares, *_reached(kept, study, "fedavg")])
    head = ["server", "cool-down", "steps a day", "participation, slow : fast", "FedAvg: to the target", "device-hours"]
    return table([*head, "distance from the optimum"], rows)


def buffered_optimizers(kept: Kept) -> str:
    """Return the table of FedBuff and its debiased sibling."""
    rows = []
    for wait, words in WAITS:
        for name, server in SERVERS:
            cells = [
                cell for each in ("fedbuff", "debiased_fedbuff") for cell in _reached(kept, f"{name}-{wait}", each)
            ]
            rows.append([server, words, *cells])
    head = ["server", "cool-down", "FedBuff: to the target", "device-hours", "distance"]
    return table([*head, "Debiased FedBuff: to the target", "device-hours", "distance"], rows)


def shares(kept: Kept) -> str:
    """Return the sentence that sets the fast third's share beside theory's."""
    parts = []
    for buffer in (10, 100):
        seen, foreseen = (_of(kept, f"buffer-{buffer}-0s", f"group.fast.{what}") for what in ("share", "share_theory"))
        parts.append((buffer, 100 * foreseen.mean(), 100 * seen.mean()))
    said = " and ".join(
        f"{theory:.1f} % with a buffer of {buffer} (measured {seen:.1f} %)" for buffer, theory, seen in parts
    )
    return _lines(f"Theory puts the fast third's share of the participations, without a cool-down, at {said}.")


def discount(kept: Kept) -> str:
    """Return the sentence that sets the bias of who takes part beside that of the discount."""
    study = "buffer-10-0s"
    fast, own, discounted = (
        _of(kept, study, name).mean() for name in ("group.fast.ratio", "learning.fedavg.bias", "learning.fedbuff.bias")
    )
    return _lines(
        f"With a buffer of 10 and no cool-down fast phones take part {fast:.2f} times as often as their number says, "
        f"which moves the optimum by {own:.2f}; the discount moves it by {discounted:.2f}."
    )


def _reached(kept: Kept, study: str, name: str) -> list[str]:
    """Write time and device-hours to the target, and the distance from the optimum."""
    metrics = kept["what-ifs"][study]["metrics"]
    runs = [metrics.get(f"learning.{name}.{what}") for what in ("time_to_target", "device_hours_to_target")]
    times, hours = ([value for value in values or [] if value is not None] for values in runs)
    seeds = kept["what-ifs"][study]["seeds"]
    distance = f"{_of(kept, study, f'learning.{name}.bias').mean():.2f}"
    if not times:
        return ["never", "", distance]
    minutes = float(np.mean(times)) / 60.0
    shown = f"{minutes:.0f} min" if minutes < 60 else f"{minutes / 60:.1f} h"
    return [shown if len(times) == seeds else f"{shown} in {len(times)} of {seeds}", f"{np.mean(hours):.0f}", distance]


def beyond(kept: Kept) -> str:
    """Return the table of biases beyond the paper: time zones, separations of their own, drop-outs."""
    names = {
        "fedavg": "FedAvg",
        "debiased_fedavg": "Debiased FedAvg",
        "oracle_weighted": "oracle",
        "fedvarp": "FedVARP",
        "mifa": "MIFA",
        "fedau": "FedAU",
    }
    studies = {
        "time-zones": "time zones, step 0.002",
        "time-zones-small-steps": "time zones, step 0.0005",
        "per-client-separation": "separations of their own",
        "drop-outs": "drop-outs",
    }
    rows = []
    for study, words in studies.items():
        metrics = kept["what-ifs"][study]["metrics"]
        for name, shown in names.items():
            if f"learning.{name}.bias" not in metrics:
                continue
            foreseen = metrics.get(f"learning.{name}.bias_predicted", [None])
            predicted = "" if None in foreseen else mean(kept, study, f"learning.{name}.bias_predicted", 3)
            single = mean(kept, study, f"learning.{name}.single_distance", 3)
            seeds = str(kept["what-ifs"][study]["seeds"])
            rows.append([words, shown, mean(kept, study, f"learning.{name}.bias", 3), predicted, single, seeds])
    return table(["study", "optimizer", "mean model", "foreseen", "single models", "seeds"], rows)


def never(kept: Kept) -> str:
    """Return the sentences on devices that never take part, and on which of two optimizers ends nearer."""
    share = mean(kept, "time-zones", "participation.never_share", 1, 100)
    nearer = _of(kept, "time-zones", "learning.debiased_fedavg.bias") < _of(kept, "time-zones", "learning.fedavg.bias")
    return _lines(
        f"{share} % of the devices never take part: no Wi-Fi at home, rarely charged at night. The mean model of "
        "Debiased FedAvg lies nearer to the optimum than that of FedAvg with "
        f"{int(nearer.sum())} of {len(nearer)} seeds."
    )


def _lines(text: str) -> str:
    """Break a paragraph into lines of at most 118 characters."""
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > 118:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return "\n".join([*lines, line]) + "\n"
