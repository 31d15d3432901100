"""Long runs of mixed load with faults: who calls, what goes wrong, what is measured, and what is made of it."""
