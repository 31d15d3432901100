import importlib
import os
import re
import sys
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))

from adapters import Unsupported  # noqa: E402
from conformance import bouncer, proxy  # noqa: E402

OPTIONS = yaml.safe_load(Path(__file__).with_name("options.yaml").read_text())


# `run` sets them: an adapter's name, and the push-bouncer executable, whose `simulate` is the fake of Apple and Google.
ADAPTER = importlib.import_module(f"adapters.{os.environ['CONFORMANCE_IMPLEMENTATION']}").Implementation
PROGRAM = os.environ["CONFORMANCE_PROGRAM"]


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="also what takes half a minute each")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    if ADAPTER.is_shared and not hasattr(config, "workerinput"):
        config.option.numprocesses, config.option.dist = 0, "no"


def suite_of(item):
    """The suite of a data case or of a story, by its folder; None for what is about no implementation."""
    case = getattr(item, "callspec", None) and item.callspec.params.get("case")
    return case.suite if case else item.path.parent.name if item.path.parent.parent.name == "stories" else None


def pytest_collection_modifyitems(config, items):
    others = [item for item in items if suite_of(item) not in (None, *ADAPTER.roles)
              or item.get_closest_marker("slow") and not config.getoption("--slow")]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]
    for item in items:
        for marker in item.iter_markers("option"):
            name = marker.args[0]
            assert name in OPTIONS, f"{item.nodeid}: options.yaml has no {name}"
            if name not in ADAPTER.claims:
                item.add_marker(pytest.mark.xfail(strict=False, reason=f"may differ: {OPTIONS[name]}"))

    # Those with the same settings come one after the other, so that one service at a time is enough.
    def settings(item):
        return repr(sorted((name, repr(value)) for marker in item.iter_markers("settings") for name, value in marker.kwargs.items()))

    first = {}
    for item in items:
        first.setdefault(settings(item), len(first))
    items.sort(key=lambda item: first[settings(item)])


@pytest.fixture(scope="session")
def implementation():
    simulator = ADAPTER.simulator(PROGRAM)
    made = ADAPTER(PROGRAM, simulator)
    made.current = None
    yield made
    if made.current:
        made.current[1].stop()
    made.stop()
    simulator.stop()


@pytest.fixture
def running(request, implementation):
    """The implementation with the settings of the test."""
    settings = {name: value for marker in request.node.iter_markers("settings") for name, value in marker.kwargs.items()}
    try:
        if implementation.current is None or implementation.current[0] != settings:
            if implementation.current:
                implementation.current[1].stop()
                implementation.current = None
            implementation.current = (settings, implementation.start(settings))
        yield implementation.current[1]
    except Unsupported as reason:
        pytest.skip(str(reason))
    last_words = implementation.current and implementation.current[1].last_words()
    if last_words is not None:
        print(f"The implementation has ended. Its log ends with:\n{last_words}")
    if implementation.current and (implementation.current[1].is_spent or last_words is not None):
        implementation.current[1].stop()
        implementation.current = None


@pytest.fixture
def world(request, running, implementation):
    """What the cases of the suite speak of, new for each."""
    made = importlib.import_module(f"worlds.{suite_of(request.node)}").World(running, implementation.simulator)
    yield made
    made.close(request.node.name)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    try:
        return (yield)
    except Unsupported as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session", autouse=True)
def nothing_comes_late(request):
    """Checks that pushes that must not arrive do not arrive later either."""
    if not any("running" in item.fixturenames for item in request.session.items):
        yield
        return
    simulator = request.getfixturevalue("implementation").simulator
    yield
    late = [*simulator.late(), *proxy.shared().late(), *bouncer.shared().late()]
    assert not late, "\n".join(late)


def pytest_make_parametrize_id(config, val):
    # As people read it: pytest would escape what is not a name.
    if hasattr(val, "exchanges"):
        return re.sub(r"[\[\]]", "", f"{val.suite} {val.file.removesuffix('.yaml')}: {val.name}")
