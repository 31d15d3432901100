"""Long runs of mixed load with faults: the callers, the faults, the measurements and the verdict."""
