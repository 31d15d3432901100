"""A database that is away for a while."""

import threading

import pytest


class Call(threading.Thread):
    def __init__(self, function, *arguments):
        super().__init__()
        self.function, self.arguments, self.answer = function, arguments, None
        self.start()

    def run(self):
        self.answer = self.function(*self.arguments)

    def done(self):
        self.join()
        return self.answer


@pytest.mark.rules("kept-not-refused", "database-patience", "limit-database-patience", "answer-503-database", "differs-queued",
                   "differs-register-429")
@pytest.mark.settings(deadline="500ms")
@pytest.mark.option("waits-for-its-database")
def test_a_database_that_is_away_is_waited_for_for_twelve_seconds(world):
    server, old, new, late = world.server, world.apns, world.fcm, world.fcm2
    assert server.register(old).status == 200
    # With the providers away as well nothing can be done without it.
    with world.simulator.outage():
        with world.running.without_database():
            waits = [Call(server.notify, world.make_item("apns")), Call(server.register, new), Call(server.call, "POST", "server/deactivate")]
            told = [call.done() for call in waits]
            # Later ones, which it comes back for.
            waits = [Call(server.notify, world.make_item("apns")), Call(server.register, late), Call(server.register_in_clear, world.fcm3, world.user)]
            waits[-1].join(0.5)
        assert [call.done().status for call in waits] == [200, 200, 200]
    notified, registered, deactivated = told
    assert (notified.status, notified.body["code"], notified.header("Retry-After")) == (503, "SERVICE_UNAVAILABLE", "5")
    assert notified.body["msg"] == "Service temporarily unavailable"
    assert (registered.status, registered.body["code"], registered.header("Retry-After")) == (429, "RATE_LIMIT_HIT", "5")
    assert (deactivated.status, deactivated.header("Retry-After")) == (503, "5")
    assert [arrival["to"] for arrival in world.arrived(1)] == ["apns"]
    assert server.notify(world.make_item("fcm2")).status == 200
    assert [arrival["to"] for arrival in world.arrived(1)] == ["fcm2"]
