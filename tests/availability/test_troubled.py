"""Short events that are looked up are those that are worked out over a window."""

from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from fedsim.availability import Place
from fedsim.availability.habits.bursts import Bursts, drop_outs, events, uses
from fedsim.availability.habits.troubled import Troubled
from fedsim.common.keyed import Purpose, stream
from fedsim.population.members import propensity
from fedsim.scenario.habits import Idle, Network

DAY = 86_400.0
KINDS = {
    "uses": uses(Idle(uses_per_day=250, settle=0)),
    "uses and a while": uses(Idle(uses_per_day=60)),
    "failures": drop_outs(Network.model_validate({"drop_outs": {"per_hour": 4}})),
}


@pytest.mark.parametrize("days", [0.001, 0.1, 3.0, 20.0])
@pytest.mark.parametrize("kind", KINDS)
def test_the_next_start_and_what_goes_on(kind: str, days: float) -> None:
    """Also of so many, and over so long, that more take place than there was room for at first."""
    bursts: Bursts = KINDS[kind]
    draws, rng, clients = stream(3, 0, Purpose.AVAILABILITY), np.random.default_rng(1), np.arange(40)
    clock = Place(datetime.fromisoformat("2026-01-05T00:00:00+00:00"), ZoneInfo("Asia/Kolkata")).clock(0.0)
    rates = np.array([bursts.per_day]) if bursts.spread is None else bursts.of_person(propensity(clients, draws))
    troubled = Troubled(bursts, rates, draws)
    for now in (DAY, 14.2 * DAY - 100.0, 31.7 * DAY):
        until = now + days * DAY * rng.random(40)
        who, starts, ends = events(bursts, clients, now, float(until.max()), clock, draws)
        real = starts < ends
        who, starts, ends = who[real], starts[real], ends[real]
        later = (starts > now) & (starts <= until[who])
        first = np.full(40, np.inf)
        np.minimum.at(first, who[later], starts[later])
        assert troubled.next_start(clients, now, until, clock).tolist() == first.tolist()
        going = np.zeros(40, dtype=np.bool_)
        going[who[(starts <= now) & (now < ends)]] = True
        assert troubled.free(clients, now, clock).tolist() == (~going).tolist()
