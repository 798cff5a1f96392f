"""A second simulator of several jobs on one fleet, naive, to check the first: one loop over instants.

It shares no code with fedsim. It knows devices that are always available or come and go at exponential times, servers
in rounds and with a buffer, separations, cool-downs, groups, times at which jobs start, and a limit per device and day;
the job that has wanted devices for the longest time selects first.
"""

import random
from typing import Any

from tests.oracle import Device, Json, StuckError, by_weight, ms

DAY = 86_400_000
LONGEST = 30 * DAY


class Job:
    def __init__(self, data: Json, devices: list[Device]) -> None:
        self.server, self.number, self.state = data["server"], 0, "idle"
        self.opens, self.since, self.limit = ms(data.get("starts", 0)), 0, 0
        self.separation, self.cooldown = data["separation"], ms(data["cooldown"])
        self.mine: list[int] = data["mine"]
        self.free_round, self.free_at = [0] * len(devices), [0] * len(devices)
        self.selected, self.reported = [0] * len(devices), [0] * len(devices)
        self.running: list[Json] = []
        self.reports, self.closed = 0, 0
        self.buffered = "buffer" in self.server

    @property
    def over(self) -> bool:
        return bool(self.number >= self.server["rounds"])


class Fleet:
    def __init__(self, data: Json, seed: int) -> None:
        self.draws, self.most = random.Random(seed), data["most_a_day"]
        self.devices, groups = list[Device](), list[str]()
        for name, group in data["groups"].items():
            for k in range(group["devices"]):
                self.devices.append(Device(group, k, self.draws))
                groups.append(name)
        self.jobs = [
            Job({**each, "mine": [k for k, own in enumerate(groups) if own in each["groups"]]}, self.devices)
            for each in data["jobs"]
        ]
        self.day, self.today = -1, [0] * len(self.devices)

    def run(self) -> None:
        now = 0
        while not all(job.over for job in self.jobs):
            self.at(now)
            now = self.next(now)
            if now > LONGEST:
                raise StuckError

    def at(self, now: int) -> None:
        if now // DAY > self.day:
            self.day, self.today = now // DAY, [0] * len(self.devices)
        for job in self.jobs:
            self.serve(job, now)
        wanting = [job for job in self.jobs if job.state == "wants" and not job.over]
        for job in sorted(wanting, key=lambda job: job.since):
            self.select(job, now)

    def eligible(self, job: Job, now: int) -> list[int]:
        return [
            k
            for k in job.mine
            if not self.devices[k].busy
            and job.free_round[k] <= job.number
            and job.free_at[k] <= now
            and (self.most is None or self.today[k] < self.most)
            and self.devices[k].spell(now)[0]
        ]

    def serve(self, job: Job, now: int) -> None:  # noqa: PLR0912
        ended = [each for each in job.running if each["end"] <= now]
        job.running = [each for each in job.running if each["end"] > now]
        for each in ended:
            self.devices[each["client"]].busy = False
        if job.buffered:
            for each in ended:
                if each["outcome"] == "reported" and not job.over:
                    job.reported[each["client"]] += 1
                    job.reports += 1
                    if job.reports == job.server["buffer"]:
                        job.reports, job.number, job.closed = 0, job.number + 1, now
            if job.over:
                self.abort(job, job.running)
            elif job.state == "idle" and now >= job.opens:
                job.state, job.since = "wants", job.opens
            return
        if job.state == "runs":
            own = [each for each in job.running if each["number"] == job.number]
            for each in ended:
                if each["number"] == job.number and each["outcome"] == "reported":
                    job.reported[each["client"]] += 1
                    job.reports += 1
            if job.reports >= job.server["cohort"] or not own or now >= job.limit:
                if job.reports >= job.server["cohort"]:
                    self.abort(job, own)
                job.state, job.closed, job.opens = "idle", now, now + ms(job.server["pause"])
                job.number += 1
        if job.state == "idle" and now >= job.opens:
            job.state, job.since = "wants", now

    def abort(self, job: Job, sessions: list[Json]) -> None:
        for each in list(sessions):
            self.devices[each["client"]].busy = False
            job.running.remove(each)

    def select(self, job: Job, now: int) -> None:
        pool, server = self.eligible(job, now), job.server
        wanted = server["concurrency"] - len(job.running) if job.buffered else server["wanted"]
        if (not job.buffered and len(pool) < (1 if server["proceed"] else wanted)) or not pool or not wanted:
            return
        weight = {k: self.devices[k].weight if server["by_weight"] else 1 for k in pool}
        for k in by_weight(pool, weight.get, min(wanted, len(pool)), self.draws):
            device = self.devices[k]
            length = max(1, device.length())
            leaves, device.busy = device.spell(now)[1], True
            outcome = "dropped" if leaves <= now + length else "reported"
            end = min(leaves, now + length)
            if job.buffered and server["deadline"] and end > now + ms(server["deadline"]):
                end, outcome = now + ms(server["deadline"]), "late"
            job.running.append({"client": k, "end": end, "number": job.number, "outcome": outcome})
            job.selected[k] += 1
            self.today[k] += 1
            job.free_at[k] = now + job.cooldown
            job.free_round[k] = job.number + 1 + job.separation if job.buffered or job.separation else job.number
        if job.buffered:
            job.since = now
        else:
            job.state, job.reports = "runs", 0
            job.limit = now + ms(server["deadline"]) if server["deadline"] else 1 << 60

    def next(self, now: int) -> int:
        times = [(now // DAY + 1) * DAY, *(each["end"] for job in self.jobs for each in job.running)]
        times += [device.spell(now)[1] for device in self.devices]
        for job in self.jobs:
            times += [job.opens, job.limit if job.state == "runs" else 0, *job.free_at]
        return int(min(each for each in times if each > now))


def fleet(number: int) -> tuple[Json, Json]:
    """Return a random world of two or three jobs: as this simulator reads it, and as a scenario."""
    rng = random.Random(number)
    of = rng.choice
    groups, population = {}, []
    for name in ("first", "second")[: rng.randint(1, 2)]:
        train, on_off = of([60, 200]), of([None, (7200, 3600), (3000, 6000)])
        weights = [of([1, 2, 5]) for _ in range(rng.randint(6, 14))]
        exponential = rng.random() < 0.5
        groups[name] = {
            "devices": len(weights),
            "weight": weights,
            "speed": 1,
            "on_off": on_off,
            "phases": [(True, 10.0), (not exponential, float(train)), (True, 20.0)],
        }
        law = {"kind": "exponential", "mean": f"{train}s"} if exponential else f"{train}s"
        there = "always"
        if on_off is not None:
            there = {"kind": "renewal", "on": f"{on_off[0]}s", "off": f"{on_off[1]}s"}  # type: ignore[assignment]
        session = {"download": "10s", "train": law, "upload": "20s"}
        population.append(
            {"name": name, "devices": len(weights), "weight": weights, "availability": there, "session": session}
        )
    jobs, described = [], {}
    for name in ("a", "b", "c")[: rng.randint(2, 3)]:
        wanted_groups = list(groups) if rng.random() < 0.6 else [of(list(groups))]
        by, separation, cooldown = rng.random() < 0.5, of([0, 0, 1, 2]), of([0, 0, 300])
        common: Json = {"by_weight": by, "rounds": 25}
        law = "successive" if by else "uniform"
        if rng.random() < 0.4:
            places = {"concurrency": rng.randint(1, 5), "buffer": rng.randint(1, 3)}
            server: Json = common | places | {"deadline": of([None, 120])}
            written: Json = {"mode": "buffered", **places, "selection": law, "cooldown_from": "selected"}
        else:
            cohort, more = rng.randint(1, 3), of([1, 2])
            server = common | {"cohort": cohort, "wanted": cohort * more, "proceed": rng.random() < 0.4}
            server |= {"deadline": of([None, 150]), "pause": of([30, 301])}
            written = {"cohort": cohort, "over_select": more, "pause": f"{server['pause']}s", "selection": law}
            written["shortage"] = "proceed" if server["proceed"] else "wait"
        written["deadline"] = None if server["deadline"] is None else f"{server['deadline']}s"
        starts = of([0, 0, 1800])
        own = {"groups": wanted_groups, "separation": separation, "cooldown": cooldown, "starts": starts}
        jobs.append({"server": server, **own})
        described[name] = {
            "server": written,
            **own,
            "cooldown": f"{cooldown}s",
            "starts": f"{starts}s",
            "stop": {"rounds": 25},
        }
    most = of([None, 5, 20])
    scenario: Json = {"seed": number, "stop": {"duration": "30d"}, "population": population, "jobs": described}
    return {"groups": groups, "jobs": jobs, "most_a_day": most}, scenario | {"most_a_day": most}


def measured(world: Fleet) -> list[Any]:
    """Return what is compared: how often each device was selected, and reported, and when the last round closed."""
    return [each for job in world.jobs for each in (*job.selected, *job.reported, job.closed / 1000)]
