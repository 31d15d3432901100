"""Whether what was measured in a long run is flat.

Of each series the second half counts: the first is for what fills once (pools, caches, pages of the database). Its slope
is Theil and Sen's, the median of the slopes between all pairs of points, which neither single peaks nor a fault's few
samples move. Flat is what rises by no more than its bound from the beginning of the second half to its end.

The bounds: 5 % of memory, which for a service of 100 MB and 100 calls a second is 28 bytes a call in an hour's run (what
leaks less shows in a longer one), but at least 6 MB, which is what an allocator gives and takes; no more than 4
descriptors of its own (all but the connections that clients hold open), for those to providers come and go; no thread; of
the database 5 %, at least 1 MB; of its log one half, for it comes in pieces that checkpoints leave, at least 5 MB; of the
rows 2 %, at least 50; of the outbox 20 notifications, for it empties when a fault ends. Rows that stay for a fixed time,
such as the events of a day, grow in a shorter run: for each the database may have 256 bytes more.
"""

import dataclasses
import math
import statistics

MB = 1 << 20
# So many points show a slope; more only take time.
POINTS = 400
# What is shorter says nothing.
LEAST_POINTS, LEAST_SECONDS = 20, 100

HISTORY_BYTES = 256

#: Of each series: which share of it, and how much at least, it may rise.
BOUNDS = {
    "rss": (0.05, 6 * MB),
    "private": (0.05, 6 * MB),
    "own": (0, 4),
    "threads": (0, 0.5),
    "database": (0.05, MB),
    "log": (0.5, 5 * MB),
    "rows": (0.02, 50),
    "outbox": (0, 20),
}


@dataclasses.dataclass
class Verdict:
    """Of one series."""

    name: str
    level: float
    rise: float
    bound: float

    @property
    def is_flat(self):
        return self.rise <= self.bound

    def __str__(self):
        word = "flat" if self.is_flat else "NOT FLAT"
        return f"{self.name:<12} {_amount(self.name, self.level):>10}  {_amount(self.name, self.rise, '+'):>10} of {_amount(self.name, self.bound)}  {word}"


def judge(seconds, series, least=(LEAST_POINTS, LEAST_SECONDS)):
    """The verdict on each series that has a bound, or None where there is too little of it. `series` are values by name;
    what could not be read is NaN."""
    verdicts = []
    half = (seconds[0] + seconds[-1]) / 2 if seconds else 0
    rises = {}
    for name in ("history", *BOUNDS):
        points = [(x, y) for x, y in zip(seconds, series[name]) if x >= half and not math.isnan(y)]
        if len(points) < least[0] or points[-1][0] - points[0][0] < least[1]:
            return None
        rises[name] = slope(points) * (points[-1][0] - points[0][0])
        if name in BOUNDS:
            share, amount = BOUNDS[name]
            level = statistics.median(y for _, y in points)
            bound = max(share * level, amount) + (HISTORY_BYTES * rises["history"] if name == "database" else 0)
            verdicts.append(Verdict(name, level, rises[name], bound))
    return verdicts


def slope(points):
    """Theil and Sen's."""
    if len(points) > POINTS:
        size = math.ceil(len(points) / POINTS)
        blocks = [points[start:start + size] for start in range(0, len(points), size)]
        points = [tuple(statistics.median(values) for values in zip(*block)) for block in blocks]
    slopes = [
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for index, earlier in enumerate(points) for later in points[index + 1:] if later[0] > earlier[0]]
    return statistics.median(slopes)


def _amount(name, value, sign=""):
    if name in ("rss", "private", "database", "log"):
        return f"{value / MB:{sign}.1f} MB"
    return f"{value:{sign}.0f}"
