"""The examples of Documentation/Simulator.md do what the page says."""

import json
import os
import re
import subprocess
import sys

import pytest

from conformance.matching import Matcher, differences
from conformance.rules import DOCUMENTS
from conformance.simulator import Simulator

PAGE = DOCUMENTS.parent / "Simulator.md"


def wanted(value):
    """`"..."` is any text, and a member of that name any others."""
    if isinstance(value, dict):
        if "..." in value:
            return Matcher("any")
        return {name: wanted(item) for name, item in value.items()}
    if isinstance(value, list):
        return [wanted(item) for item in value]
    return Matcher("text") if value == "..." else value


def test_the_examples_of_the_page(tmp_path):
    if not os.environ.get("CONFORMANCE_PROGRAM"):
        pytest.skip("there is no simulator")
    simulator = Simulator(os.environ["CONFORMANCE_PROGRAM"])
    try:
        environment = {
            **os.environ, "APNS": simulator.apns, "FCM": simulator.fcm, "WEBPUSH": simulator.webpush, "CONTROL": simulator.control,
            "KEYS": str(simulator.keys), "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}
        examples = re.findall(r"```sh\n(.*?)```\n\n```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
        assert len(examples) == len(re.findall("```sh\n", PAGE.read_text())) > 5
        for commands, answer in examples:
            done = subprocess.run(["bash", "-e", "-c", commands], env=environment, cwd=tmp_path, capture_output=True, text=True)
            assert done.returncode == 0, f"{commands}\n{done.stderr}"
            found = list(differences(wanted(json.loads(answer)), json.loads(done.stdout)))
            assert not found, f"{commands}\n" + "\n".join(found)
    finally:
        simulator.stop()
