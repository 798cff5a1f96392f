"""Random scenarios that can run: small federations with every feature of the process engine."""

from typing import Any

from hypothesis import strategies as st

from fedsim.scenario import Scenario

times = st.sampled_from(["0s", "1s", "10s", "1m"])


rates = st.sampled_from(["1Mbps", "4Mbps", "800kbps", {"kind": "lognormal", "median": "2Mbps", "sigma": 1.0}])


def works(*, needs: bool = True) -> st.SearchStrategy[dict[str, Any]]:
    """Sessions from work: of fixed or drawn speeds, on one class of devices or several, some short of memory."""
    mixed = {"snapdragon-888": 1, "snapdragon-660": 2, "raspberry-pi-3": 0.5}
    samples = [
        200,
        1000,
        {"kind": "lognormal", "median": 300, "sigma": 0.8},
        {"kind": "uniform", "low": 1, "high": 900},
    ]
    at_work = {"share": 0.3, "down": "1Mbps", "up": {"kind": "lognormal", "median": "3Mbps", "sigma": 0.4}}
    return st.fixed_dictionaries(
        {
            "model": st.sampled_from(["1MB", "125kB", "2MiB"]),
            "update": st.sampled_from([None, "500kB"]),
            "samples": st.sampled_from(samples),
            "cost": st.sampled_from([1, 0.25]),
            "device": st.sampled_from(["snapdragon-888", "jetson-nano", mixed]),
            "link": st.fixed_dictionaries({"down": rates, "up": rates, "work": st.sampled_from([None, at_work])}),
            "needs": st.sampled_from([None, None, "2GB"] if needs else [None]),
        }
    )


def gates(cohort: int) -> st.SearchStrategy[dict[str, Any]]:
    """Gates of secure aggregation, at instants at which other things happen, too."""
    return st.fixed_dictionaries(
        {
            "threshold": st.integers(1, cohort),
            "unmasking": st.sampled_from(["0s", "10s", "1m"]),
            "drop_out": st.sampled_from([0, 0.2]),
        }
    )


@st.composite
def sessions(draw: st.DrawFn) -> dict[str, Any]:
    """Session lengths: constant, so that many things happen at one instant, or drawn; or from work."""
    if draw(st.integers(0, 2)) == 0:
        return draw(works(needs=False))
    return {
        "download": draw(times),
        "train": draw(st.sampled_from(["10s", "30s", {"kind": "exponential", "mean": "30s"}])),
        "upload": draw(st.one_of(times, st.just({"kind": "lognormal", "median": "5s", "sigma": 1.5}))),
    }


@st.composite
def scenarios(draw: st.DrawFn, *, always: bool | None = None) -> Scenario:
    """Draw a scenario whose separations can surely be kept, whoever is chosen."""
    cohort = draw(st.integers(1, 5))
    law = draw(st.sampled_from(["midzuno", "uniform", "successive", "groups", "cyclic", "bernoulli"]))
    over_select = draw(st.sampled_from([1.0, 1.0, 1.4])) if law != "groups" else 1.0
    wanted = -int(-cohort * over_select // 1)
    longest = draw(st.integers(0, 4))
    most = (longest + 1) * wanted
    devices = draw(st.integers(1, 4)) * cohort + -(-most // cohort) * cohort
    always = draw(st.booleans()) if always is None else always
    available = "always" if always else {"kind": "renewal", "on": draw(times.filter(lambda t: t != "0s")), "off": "40s"}
    first = devices if law == "groups" else draw(st.integers(1, devices))
    separation: Any = (
        longest if law == "groups" else draw(st.sampled_from([longest, {"kind": "uniform", "low": 0, "high": longest}]))
    )
    group = {
        "separation": separation,
        "cooldown": draw(st.sampled_from(["0s", "0s", "2m"])),
        "availability": available,
        "weight": draw(st.sampled_from([1, {"kind": "zipf", "exponent": 2}, {"kind": "lognormal", "sigma": 1}])),
    }
    population = [{**group, "name": "first", "devices": first, "session": draw(sessions())}]
    if devices > first:
        population.append({**group, "name": "second", "devices": devices - first, "session": draw(sessions())})
    shortage = draw(st.sampled_from(["wait", "skip"] if law == "groups" else ["wait", "proceed", "skip"]))
    # Forty rounds that wait for devices that are seldom available together would take months, looked at each minute.
    open_ended: dict[str, Any] = {"rounds": 40} if always else {"rounds": 40, "duration": "2d"}
    data = {
        "seed": draw(st.integers(0, 2**32)),
        "stop": draw(st.sampled_from([open_ended, {"rounds": 40, "duration": "15m"}])),
        "population": population,
        "server": {
            "cohort": cohort,
            "over_select": over_select,
            "minimum_reports": draw(st.sampled_from([0, 0, cohort])),
            "secure_aggregation": draw(st.one_of(st.none(), gates(cohort))),
            "deadline": draw(st.sampled_from([None, "30s", "1m"])),
            "pause": draw(st.sampled_from(["0s", "7s"])) if shortage != "skip" else "7s",
            "selection": law,
            "shortage": shortage,
            "cooldown_from": draw(st.sampled_from(["selected", "reported"])),
            # Patience is what ends a wait for devices that are seldom available together.
            "patience": "20h",
        },
        "records": {"gauges": "1m", "eligible": True},
    }
    if any("model" in each["session"] for each in population):
        data["server"]["uplink"] = draw(st.sampled_from([None, "500kbps", "3Mbps", "20Mbps"]))
    return Scenario.model_validate(data)


@st.composite
def buffered_scenarios(draw: st.DrawFn, *, always: bool | None = None) -> Scenario:
    """Draw a scenario with a buffered server, whose separations can be kept unless sessions drop out or are stale."""
    longest = draw(st.integers(0, 3))
    buffer = draw(st.integers(1, 4))
    devices = (longest + 1) * buffer + draw(st.integers(0, 12))
    always = draw(st.booleans()) if always is None else always
    available = "always" if always else {"kind": "renewal", "on": draw(times.filter(lambda t: t != "0s")), "off": "40s"}
    first = draw(st.integers(1, devices))
    group = {
        "separation": draw(st.sampled_from([longest, {"kind": "uniform", "low": 0, "high": longest}])),
        "cooldown": draw(st.sampled_from(["0s", "0s", "2m"])),
        "availability": available,
        "weight": draw(st.sampled_from([1, {"kind": "zipf", "exponent": 2}])),
    }
    population = [{**group, "name": "first", "devices": first, "session": draw(sessions())}]
    if devices > first:
        population.append({**group, "name": "second", "devices": devices - first, "session": draw(sessions())})
    data = {
        "seed": draw(st.integers(0, 2**32)),
        "stop": draw(st.sampled_from([{"rounds": 30}, {"rounds": 30, "duration": "12m"}])),
        "population": population,
        "server": {
            "mode": "buffered",
            "concurrency": draw(st.integers(1, devices + 2)),
            "buffer": buffer,
            "max_staleness": draw(st.sampled_from([None, None, 0, 2])),
            "deadline": draw(st.sampled_from([None, None, "1m"])),
            "selection": draw(st.sampled_from(["midzuno", "uniform", "successive", "cyclic"])),
            "cooldown_from": draw(st.sampled_from(["selected", "reported"])),
            "patience": "2h",
        },
        "records": {"gauges": "1m", "eligible": True},
    }
    return Scenario.model_validate(data)
