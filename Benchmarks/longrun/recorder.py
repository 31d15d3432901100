"""Calls, how they were answered and how long they took."""

import collections
import math


class Recorder:
    def __init__(self):
        self.calls = collections.Counter()
        self.wrong, self.excused = [], 0
        self.latencies, self.unanswered, self.skipped = [], 0, 0

    def add(self, what, status, latency, is_expected, is_excused, detail=""):
        """Records a call; `status` is None if there was no answer."""
        self.calls[what, status] += 1
        self.latencies.append(latency)
        if is_expected:
            return
        self.unanswered += 1
        if is_excused:
            self.excused += 1
        else:
            self.wrong.append(f"{what}: {status} {detail}"[:300])

    def take(self):
        """The calls since the last time; latencies are in milliseconds."""
        latencies, unanswered = sorted(self.latencies), self.unanswered
        self.latencies, self.unanswered = [], 0
        at = lambda share: round(1e3 * latencies[min(len(latencies) - 1, int(share * len(latencies)))], 2) if latencies else math.nan
        return {"calls": len(latencies), "unanswered": unanswered, "p50": at(0.5), "p99": at(0.99)}
