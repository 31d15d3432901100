"""Runs the cases that are data."""

from pathlib import Path

import pytest

from conformance import cases, judging


def load():
    for folder in sorted(path for path in Path(cases.HERE, "cases").iterdir() if path.is_dir()):
        for case in cases.load(folder.name):
            marks = [pytest.mark.rules(*case.rules), pytest.mark.settings(**case.settings)]
            if case.option:
                marks.append(pytest.mark.option(case.option))
            yield pytest.param(case, marks=marks)


@pytest.mark.parametrize("case", load())
def test_case(case, world):
    judging.run(case, world)
