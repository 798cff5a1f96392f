"""What a fleet is paid for: bytes, energy, batteries, money and carbon dioxide of sessions from work."""

from fedsim.measure.metrics.metric import RunPart, described


class FleetMetrics:
    """What sessions from work take, to the byte and the mJ; a session that ended early counts as far as it came."""

    metrics = described("""
        fleet.bytes_down | B | Bytes that devices downloaded. # better: lower
        fleet.bytes_up | B | Bytes that devices uploaded. # better: lower
        fleet.bytes | B | Bytes that devices downloaded and uploaded. # better: lower; short: bytes
        fleet.wasted_bytes_down | B | Bytes downloaded in sessions whose report was not taken. # better: lower
        fleet.wasted_bytes_up | B | Bytes uploaded in sessions whose report was not taken. # better: lower
        fleet.energy | Wh | Energy that devices spent in sessions. # better: lower; label: energy of sessions
        fleet.wasted_energy | Wh | Energy spent in sessions whose report was not taken. # better: lower
        fleet.energy_per_round | Wh | Energy of all sessions, over the number of rounds that changed the model. # better: lower
        fleet.energy_per_device.mean | Wh | Energy of a device in the whole run, on average over those that took part. # better: lower
        fleet.energy_per_device.max | Wh | Energy of the device that spent most. # better: lower
        fleet.battery_share.mean | share | Of its full battery, what a session takes, on average over devices that have one. # better: lower; label: share of a full battery that a session takes
        fleet.battery_share.max | share | Of its full battery, what the dearest session took. # better: lower; label: share of a full battery that the dearest session took
        fleet.peak_sessions | | Most sessions that ran at once.
        fleet.too_small_share | share | Devices whose memory is too small (session.needs), of those with sessions from work.
        fleet.uplink_share | share | Of what server.uplink could carry in the whole run, what devices uploaded; late uploads may add to it.
        fleet.cost | | Money for transfers, energy and time in sessions, by the scenario's prices. # better: lower; label: cost by the scenario's prices
        fleet.carbon | g | CO2 for the energy of the sessions, by prices.carbon. # better: lower; label: CO2 of the energy
    """)  # noqa: E501

    def measure(self, run: RunPart) -> dict[str, float]:
        """Return what the sessions took; nothing where none is from work."""
        if (taken := run.setting.taken) is None:
            return {}
        figures = taken.figures(int(run.updates.sum()))
        if taken.uplink is not None and run.ended_s > 0:
            figures["fleet.uplink_share"] = 8 * figures["fleet.bytes_up"] / (taken.uplink * run.ended_s)
        return figures
