"""Which Firebase project a notification goes to."""

import pytest


@pytest.mark.rules("fcm-project", "fcm-request")
def test_fcm_is_asked_in_the_project_of_the_credential(world):
    assert world.server.register(world.fcm).status == 200
    assert world.server.notify(world.make_item("fcm")).body["android_successfully_sent_count"] == 1
    assert len(world.arrived(1)) == 1
    [delivery] = world.simulator.deliveries([world.fcm.address])
    assert delivery["project"] == world.running.project
