"""Judges whether the measurements of a long run are flat.

Only the second half of each series counts, since pools, caches and pages of the database fill during the first. The slope
is Theil and Sen's: the median of the slopes between all pairs of points, which single peaks and the few samples during a
fault do not change. A series is flat if it rises by no more than its bound from the beginning of the second half to its end.

The bounds:
- memory: 5 %, at least 6 MB, by which an allocator varies. For a service of 100 MB and 100 calls a second, 5 % is 28 bytes
  a call in an hour's run; a smaller leak shows in a longer run
- own descriptors, which are all but the connections that clients hold open: 4, since connections to providers come and go
- threads: none
- the database: 5 %, at least 1 MB, and 256 bytes for each row that is kept for a fixed time, such as the events of a day:
  in a run that is shorter than that time the number of these rows grows
- the database's log: one half, at least 5 MB, since it grows in pieces until a checkpoint
- rows: 2 %, at least 50
- the outbox: 200 notifications. What may have arrived when a connection was cut waits for minutes and up to an hour before it
  is sent again, so that several faults in the second half of a short run leave a few dozen each
"""

import dataclasses
import math
import statistics

MB = 1 << 20
# Longer series are reduced to so many points, to save time.
POINTS = 400
# A shorter series is not judged.
LEAST_POINTS, LEAST_SECONDS = 20, 100

HISTORY_BYTES = 256

#: By which share of its level, and by how much at least, each series may rise.
BOUNDS = {
    "rss": (0.05, 6 * MB),
    "private": (0.05, 6 * MB),
    "own": (0, 4),
    "threads": (0, 0.5),
    "database": (0.05, MB),
    "log": (0.5, 5 * MB),
    "rows": (0.02, 50),
    "outbox": (0, 200),
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
    """The verdict on each series that has a bound; None if there are too few samples. `series` has values by name, NaN for
    those that could not be read."""
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
