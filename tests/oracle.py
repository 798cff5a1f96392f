"""A second simulator, written on its own to check the first: naive, a list of dictionaries and one loop over instants.

It reads a scenario as plain data and shares no code with fedsim. It knows devices that are always available, or come
and go at exponential times, or charge in some nights, which drift and have holidays, sessions of constant or
exponential lengths, the laws of selection without a memory, deadlines, over-selection, shortages, separations,
cool-downs, caps, buffered servers, sessions from work with what they take, secure aggregation, an uplink, devices that
join and leave, check-ins, a pace that the server steers, local steps by the deadline or a device's own, and partial
reports. Clients that are held out are in no world.
"""

import math
import random
from typing import Any

Json = dict[str, Any]
FOREVER = 1 << 60


class StuckError(Exception): ...


def ms(seconds: float) -> int:
    return round(seconds * 1000)


class Device:
    """A device; all instants are milliseconds."""

    def __init__(self, group: Json, number: int, draws: random.Random) -> None:
        def own(value: Any) -> Any:
            return value[number] if isinstance(value, list) else value

        self.weight, self.separation = own(group.get("weight", 1)), own(group.get("separation", 0))
        self.cooldown, self.speed = ms(own(group.get("cooldown", 0))), own(group["speed"])
        self.most, self.phases, self.draws = group.get("most") or FOREVER, group["phases"], draws
        self.taken, self.free_round, self.free_at, self.busy, self.trained = 0, 0, 0, False, 1.0
        self.selected = self.reported = self.steps = self.fit = 0
        self.joins, self.leaves = ms(own(group.get("joins", 0))), FOREVER
        if "leaves" in group:
            self.leaves = self.joins + ms(own(group["leaves"]))
        self.work: Json = group.get("work") or {}
        self.parts, self.began, self.took = list[float](), 0, [0.0, 0.0, 0.0]
        self.course: list[tuple[float, float]] = []  # of an upload that shares the uplink: bytes sent by some instants
        # Instants at which it comes and goes by turns: even places are beginnings.
        self.edges, self.on_off, self.place = [0, FOREVER], group["on_off"], 0
        self.nights: Json = group.get("nights") or {}
        self.day = -1  # the next one whose night is drawn; day 0 is a Monday
        if self.nights:
            self.edges = []
        if self.on_off is not None:
            on, off = self.on_off
            self.edges = [0] if draws.random() < on / (on + off) else [ms(draws.expovariate(1 / off))]

    def edge(self, place: int) -> int:
        while len(self.edges) <= place:
            if self.nights:
                self.night()
                continue
            mean = self.on_off[0] if len(self.edges) % 2 else self.on_off[1]
            self.edges.append(self.edges[-1] + ms(self.draws.expovariate(1 / mean)))
        return self.edges[place]

    def night(self) -> None:
        """Draw whether it charges in the next night, and add when: each night is over before the next one begins."""
        day, nights, self.day = self.day, self.nights, self.day + 1
        passed = min(1.0, max(0.0, day / nights["over"]))
        first, last = nights["chance"]
        if self.draws.random() >= first + passed * (last - first):
            return
        free = (day + 1) % 7 >= 5 or day + 1 in nights["holidays"]
        plug_in, later = nights["plug_in"][free], nights["later"] * passed
        begin = ms(day * 86_400 + plug_in + later)
        end = begin + ms(nights["length"][free])
        self.edges += [max(begin, 0), end] if end > 0 else []

    def spell(self, now: int) -> tuple[bool, int]:
        """Say whether it is there, and until when this stays so."""
        if now < self.joins:
            return False, self.joins
        if now >= self.leaves:
            return False, FOREVER
        place = self.place
        while self.edge(place) <= now:
            place += 1
        self.place = max(place - 2, 0)
        return place % 2 == 1, min(self.edge(place), self.leaves)

    def was_there(self, when: int) -> bool:
        """Say whether it was there at an instant, which may be over."""
        self.edge(0)
        while self.edges[-1] <= when:
            self.edge(len(self.edges))
        return self.joins <= when < self.leaves and sum(each <= when for each in self.edges) % 2 == 1

    def length(self, room: int | None = None, steps: int = 1) -> int:
        """Draw how long a session takes; with `room`, of as many of the steps as fit in it, or of all if none does."""
        if self.work:
            share, *at_work = self.work.get("at_work", (0.0,))
            laws = at_work if self.draws.random() < share else (self.work["down"], self.work["up"])
            down, up = (speed * math.exp(sigma * self.draws.gauss(0, 1)) for speed, sigma in laws)
            lengths = self.parts = [8 * self.work["model"] / down, self.work["train"], 8 * self.work["update"] / up]
        else:
            lengths = [x if fixed else self.draws.expovariate(1 / x) for fixed, x in self.phases]
            lengths[1] *= self.trained
        whole = self.fit = max(1, round(self.trained * steps))
        if room is not None:
            found = [
                k for k in range(1, whole + 1) if ms((sum(lengths) - lengths[1] * (1 - k / whole)) / self.speed) <= room
            ]
            self.fit = max(found, default=whole)
            lengths[1] *= self.fit / whole
        return ms(sum(lengths) / self.speed)

    def train_until(self, deadline: float, most: int) -> None:
        """Train for as many of `most` steps as fit before a deadline, by the medians of exponential lengths."""
        down, train, up = (x if fixed else x * math.log(2) for fixed, x in self.phases)
        fitting = most
        while fitting > 1 and down + train * fitting / most + up > deadline * self.speed + 1e-9:
            fitting -= 1
        self.trained = fitting / most

    def spend(self, until: int) -> None:
        """Add what the session that has begun last takes if it ends then: bytes down and up, and Wh."""
        left, whole = (until - self.began) / 1000, until - self.began >= ms(sum(self.parts))
        for phase, length in enumerate(self.parts):
            part = length if whole else min(left, length)
            left -= part
            self.took[2] += self.work["watts"][phase] * part / 3600
            if phase == 2 and self.course:
                self.took[1] += self.sent(math.inf if whole else (until - self.began) / 1000)
            elif phase != 1:
                self.took[phase // 2] += self.work[["model", "", "update"][phase]] * part / length

    def sent(self, when: float) -> float:
        (since, before), *later = self.course
        for until, sent in later:
            if when < until:
                return before + (sent - before) * max(0.0, when - since) / (until - since)
            since, before = until, sent
        return before

    def rest(self, number: int, now: int) -> None:
        self.taken, self.free_round, self.free_at = self.taken + 1, number + 1 + self.separation, now + self.cooldown

    def ready(self, number: int, now: int) -> bool:
        kept_out = self.busy or self.taken >= self.most or number < self.free_round or now < self.free_at
        return not kept_out and self.spell(now)[0]


def by_weight(pool: list[int], weight: Any, count: int, draws: random.Random) -> list[int]:
    """Draw one after the other by weight."""
    pool, chosen = list(pool), list[int]()
    while pool and len(chosen) < count:
        chosen.append(draws.choices(pool, [weight(i) for i in pool])[0])
        pool.remove(chosen[-1])
    return chosen


class World:
    def __init__(self, data: Json, seed: int) -> None:
        self.draws, self.data, self.server = random.Random(seed), data, data["server"]
        self.devices = [Device(g, k, self.draws) for g in data["groups"] for k in range(g["devices"])]
        self.total = sum(d.weight for d in self.devices)
        for device in self.devices if "steps" in data and data.get("steps_by_deadline", True) else []:
            device.train_until(self.server["deadline"], data["steps"])
        self.after, self.closed = -1, 0
        self.every, self.window = 0, 0  # 0: devices do not check in
        self.wanted = data["server"].get("wanted")  # check-ins in a window; the same for all devices, where it is None
        self.chances, self.seen, self.came = list[float](), [float(len(self.devices))], dict[tuple[int, int], bool]()
        if "check_ins" in data["server"]:
            self.every, self.window = (ms(each) for each in data["server"]["check_ins"])
            self.phases = [self.draws.randrange(self.every) for _ in self.devices]
        self.running: list[tuple[int, bool, int]] = []  # sessions: when they end, whether with a report, whose they are

    def pool(self, number: int, now: int) -> list[int]:
        return [i for i, device in enumerate(self.devices) if device.ready(number, now) and self.connected(i, now)]

    def connected(self, i: int, now: int) -> bool:
        if not self.every or self.wanted is None:
            return not self.every or (now - self.phases[i]) % self.every < self.window
        window = (now - self.phases[i]) // self.every
        if (i, window) not in self.came:
            self.came[i, window] = self.draws.random() < self.chance(max(0, window * self.every // 3_600_000))
        return self.came[i, window]

    def chance(self, hour: int) -> float:
        """Return the chance that a device comes in its window of a number whose first device comes in that hour."""
        while len(self.chances) <= hour:
            if self.chances:
                now = 3_600_000 * len(self.chances) - 1_800_000
                found = 0.0
                for i, device in enumerate(self.devices):
                    if device.was_there(now) and self.connected(i, now):
                        window = (now - self.phases[i]) // self.every
                        found += 1 / self.chances[max(0, window * self.every // 3_600_000)]
                self.seen.append(min(max(found, 1 / self.chances[-1]), len(self.devices)))
            known = self.seen[-1] if len(self.chances) < 24 else self.seen[len(self.chances) - 23]
            self.chances.append(min(1.0, self.wanted / known))
        return self.chances[hour]

    def whole(self, pool: list[int], count: int) -> list[int]:
        return [b for b in range(len(self.devices) // count) if all(b * count + k in pool for k in range(count))]

    def choose(self, pool: list[int], count: int) -> list[int]:
        law, draws, devices = self.server["law"], self.draws, self.devices
        weigh = [d.weight for d in devices]
        if law == "uniform":
            return draws.sample(pool, count)
        if law == "midzuno":
            first = by_weight(pool, weigh.__getitem__, 1, draws)
            return first + draws.sample([i for i in pool if i not in first], count - 1)
        if law == "cyclic":
            chosen = sorted(pool, key=lambda i: (i - self.after - 1) % len(devices))[:count]
        elif law == "groups":
            drawn = by_weight(self.whole(pool, count), lambda b: sum(weigh[b * count : (b + 1) * count]), 1, draws)
            return [b * count + k for b in drawn for k in range(count)]
        elif law == "poisson":
            chosen = [i for i in pool if draws.random() < min(1.0, count * weigh[i] / self.total)]
        elif law == "bernoulli":
            sure: set[int] = set(pool) if len(pool) <= count else set()
            while len(pool) > count:
                rest = sum(weigh[i] for i in pool if i not in sure)
                chance = {i: weigh[i] * (count - len(sure)) / rest for i in pool if i not in sure}
                if not (over := {i for i, each in chance.items() if each >= 1.0}):
                    break
                sure |= over
            chosen = [i for i in pool if i in sure or draws.random() < chance[i]]
        else:
            chosen = by_weight(pool, weigh.__getitem__, count, draws)
        return chosen

    def start(self, i: int, now: int) -> tuple[int, bool]:
        """Begin a session; return when it ends if nothing cuts it short, and whether with a report."""
        device = self.devices[i]
        leaves, device.selected, device.busy = device.spell(now)[1], device.selected + 1, True
        room = min(leaves - now - 1, ms(self.server["deadline"] or 1e12)) if "partial" in self.server else None
        steps = self.data.get("steps", 1)
        length, device.began = device.length(room, steps[i] if isinstance(steps, list) else steps), now
        return min(leaves, now + length), leaves > now + length

    def upload(self, cohort: list[int], alone: list[tuple[int, bool, int]], now: int) -> list[tuple[int, bool, int]]:
        """Let the uploads of a round share the server's uplink, if it has one; return its sessions."""
        if "uplink" not in self.server:
            return alone
        own, left, when = dict[int, float](), dict[int, float](), 0.0
        for i in cohort:
            self.devices[i].course = []
            if parts := self.devices[i].parts:
                left[i], self.devices[i].course = 8.0 * self.devices[i].work["update"], [(parts[0] + parts[1], 0.0)]
                own[i] = left[i] / parts[2]
        gone = {i: (self.devices[i].spell(now)[1] - now) / 1000 for i in cohort}
        begin = {i: sum(self.devices[i].parts[:2]) for i in left}
        while left:
            rates, room = dict[int, float](), self.server["uplink"]
            wanting = {i for i in left if begin[i] <= when}
            while slow := {i for i in wanting if own[i] <= room / len(wanting)}:
                rates |= {i: own[i] for i in slow}
                room, wanting = room - sum(own[i] for i in slow), wanting - slow
            rates |= {i: room / len(wanting) for i in wanting}
            ends = [when + left[i] / rate for i, rate in rates.items()]
            until = min(ends + [begin[i] for i in left if begin[i] > when] + [gone[i] for i in left])
            for i, rate in rates.items():
                device = self.devices[i]
                left[i] = 0.0 if when + left[i] / rate <= until else left[i] - rate * (until - when)
                device.course.append((until, device.work["update"] - left[i] / 8))
                if not left[i]:
                    device.parts[2] = until - begin[i]
                elif gone[i] <= until:
                    device.parts[2] = FOREVER
            left, when = {i: each for i, each in left.items() if each and gone[i] > until}, until
        found = []
        for each in alone:
            device = self.devices[each[2]]
            end, leaves = now + ms(sum(device.parts)), device.spell(now)[1]
            found.append((min(leaves, end), leaves > end, each[2]) if device.parts else each)
        return found

    def over(self, now: int) -> list[tuple[int, bool, int]]:
        """Remove the sessions that are over, and return them."""
        ended = [each for each in self.running if each[0] <= now]
        for each in ended:
            self.running.remove(each)
            self.devices[each[2]].busy = False
            self.devices[each[2]].spend(each[0])
        return ended

    def next_change(self, now: int) -> int:
        """Return the next instant at which somebody may become ready."""
        later = [e for e, _, _ in self.running if e > now] + [d.free_at for d in self.devices if d.free_at > now]
        if self.every:
            later += [now + self.every - (now - phase) % self.every for phase in self.phases]
        return min(later + [d.spell(now)[1] for d in self.devices if d.taken < d.most], default=FOREVER)

    def versions(self) -> None:
        """Run a buffered server."""
        server, now, version, taken = self.server, 0, 0, 0
        while True:
            for _, whole, i in self.over(now):
                if whole and version < self.data["rounds"]:
                    self.devices[i].reported, taken = self.devices[i].reported + 1, taken + 1
                    self.devices[i].steps += self.devices[i].fit
                    if server["cooldown_from"] == "reported":
                        self.devices[i].rest(version, now)
                    if taken == server["buffer"]:
                        version, taken, self.closed = version + 1, 0, now
            if version >= self.data["rounds"]:
                for _, _, i in self.running:
                    self.devices[i].spend(now)
                return
            pool, limit = self.pool(version, now), now + ms(server["deadline"] or 1e12)
            count = min(server["concurrency"] - len(self.running), len(pool))
            self.after = ([self.after, *(cohort := self.choose(pool, count) if count else [])])[-1]
            for i in cohort:
                end, whole = self.start(i, now)
                self.running.append((min(end, limit), whole and end <= limit, i))
                if server["cooldown_from"] == "selected":
                    self.devices[i].rest(version, now)
            now = self.next_change(now)
            if now - self.closed > ms(server["patience"]):
                raise StuckError

    def rounds(self) -> None:
        server, now = self.server, 0
        wanted, deadline = math.ceil(round(server["cohort"] * server["over_select"], 9)), ms(server["deadline"] or 1e12)
        needed = max(1, server["gate"][0]) if server.get("gate") else 1
        least = {"proceed": needed}.get(server["shortage"], wanted) if server["law"] != "poisson" else 0
        for number in range(self.data["rounds"]):
            opened = now
            while True:
                self.over(now)
                pool = self.pool(number, now)
                many = len(pool)
                if server["law"] == "groups":
                    many = wanted * bool(self.whole(pool, wanted))
                if many >= least or server["shortage"] == "skip":
                    break
                now = self.next_change(now)
                if now - opened > ms(server["patience"]):
                    raise StuckError
            if many >= least:
                cohort = self.choose(pool, wanted if server["law"] == "poisson" else min(wanted, many or wanted))
                self.after = cohort[-1] if cohort else self.after
                sessions = self.upload(cohort, [(*self.start(i, now), i) for i in cohort], now)
                target = len(cohort) if server["law"] in {"poisson", "bernoulli"} else server["cohort"]
                ends, until = sorted(end for end, whole, _ in sessions if whole), now + deadline
                until = max(until, min([until + ms(server.get("overtime", 0.0)), *ends]))
                reports = [end for end in ends if end <= until]
                if server["cooldown_from"] == "selected":
                    for i in cohort:
                        self.devices[i].rest(number, now)
                full = bool(target) and len(reports) >= target
                reached = min(reports[target - 1] + ms(server.get("grace", 0.0)), until) if full else FOREVER
                closed = min(reached, max([now, *(end for end, _, _ in sessions)]), until)
                came = [i for end, whole, i in sessions if whole and end <= closed]
                taken, unmasked = self.passes(came, closed)
                for end, whole, i in sessions:
                    if closed == reached and end > closed:
                        self.devices[i].busy = False  # aborted
                        self.devices[i].spend(closed)
                        continue
                    self.running.append((end, whole, i))
                    if whole and end <= closed:
                        self.devices[i].reported += taken
                        self.devices[i].steps += taken * self.devices[i].fit
                        if server["cooldown_from"] == "reported":
                            self.devices[i].rest(number, end)
                now = unmasked
            self.closed = now
            now += ms(server["pause"])
        self.over(FOREVER)

    def passes(self, came: list[int], closed: int) -> tuple[bool, int]:
        """Say whether the sum of those who came is unmasked, and when."""
        gate = self.server.get("gate")
        if gate is None:
            return True, closed
        threshold, unmasking_s, drop_out = gate
        unmasked, stay = closed + ms(unmasking_s), 0
        for i in came:
            there, until = self.devices[i].spell(closed)
            stay += there and until > unmasked and self.draws.random() >= drop_out
        return stay >= threshold, unmasked
