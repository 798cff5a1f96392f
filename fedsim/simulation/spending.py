"""What sessions from work take: bytes and energy, cut where a session ended before its time."""

import numpy as np

from fedsim.common.arrays import Bools, Floats, Ints
from fedsim.common.instants import each_to_ms
from fedsim.common.outcomes import CODES, SESSION_OUTCOMES
from fedsim.log import SPENT
from fedsim.log.columns import Arrays
from fedsim.population import Population
from fedsim.population.sessions import PHASES, upload_bits
from fedsim.scenario import Scenario
from fedsim.scenario.devices import DEVICE_CLASSES
from fedsim.scenario.work import Work


def spent_of(scenario: Scenario, population: Population, rows: Arrays) -> Arrays:
    """Return the columns `SPENT` (n,) of sessions that have ended, given those of the recorder for whole rounds.

    They are -1 where a session has plain times.
    """
    assert population.device is not None
    group, device = population.group[rows["client"]], population.device[rows["client"]].astype(np.int64)
    model = np.array([each.session.model if isinstance(each.session, Work) else 0.0 for each in scenario.population])
    bits, lengths = upload_bits(scenario)[group], np.array([rows[name] for name in PHASES])
    took, sent = rows["ended_at"] - rows["selected_at"], None
    if scenario.server.uplink is not None:
        sent = _together(scenario.server.uplink, lengths, rows["round"], bits, took, np.isin(rows["outcome"], _CUT))
    whole = took >= each_to_ms(lengths[0] + lengths[1] + lengths[2])
    begins = np.cumsum(lengths, axis=0) - lengths
    parts = np.where(whole, lengths, np.clip(took / 1000 - begins, 0.0, lengths))
    done = np.divide(parts, lengths, out=np.where(whole, 1.0, 0.0) + np.zeros_like(parts), where=lengths > 0)
    bytes_up = bits / 8 * (done[2] if sent is None else sent)
    spent = np.rint([model[group] * done[0], bytes_up, 1000 * (_POWER_W[device].T * parts).sum(axis=0)])
    return dict(zip(SPENT, np.where(device < 0, -1, spent).astype(np.int64), strict=True))


def _together(uplink: float, lengths: Floats, number: Ints, bits: Floats, took: Ints, cut: Bools) -> Floats:
    """Make the uploads of whole rounds as long as they took together; return what share of its bits each sent, (n,).

    A session that was not `cut` may be late and have ended with the run: until then it had its part of the uplink.
    """
    from fedsim.population.uplink import shared  # only where needed: it compiles

    share = np.zeros(len(number))
    for rows in np.split(np.arange(len(number)), np.flatnonzero(np.diff(number)) + 1):
        phases, each, gone_s = lengths[:, rows], bits[rows], took[rows] / 1000
        lengths[2, rows], sent = shared(phases, each, np.where(cut[rows], gone_s, np.inf), uplink)
        whole = (sent == each) & (took[rows] >= each_to_ms(phases[0] + phases[1] + lengths[2, rows]))
        if not (whole | cut[rows]).all():
            _, sent = shared(phases, each, np.where(whole, np.inf, gone_s), uplink)
        share[rows] = np.divide(sent, each, out=np.zeros(len(rows)), where=each > 0)
    return share


_CUT = [CODES[name] for name, each in SESSION_OUTCOMES.items() if each.is_cut]
_POWER_W = np.array([(each.down_w, each.train_w, each.up_w) for each in DEVICE_CLASSES])
