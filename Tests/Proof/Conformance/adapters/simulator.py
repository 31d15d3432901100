"""The simulator's own push service, in the place of any that is not push-bouncer's: the senders' half of WebPush.md."""

from . import Implementation as Base
from . import Running, Unsupported


class Implementation(Base):
    roles = ("webpush_gateway",)
    claims = ("checks-of-headers", "checks-of-vapid", "longest-body")

    def start(self, settings):
        if settings:
            raise Unsupported(f"unknown settings: {', '.join(settings)}")
        return Service(self.simulator)


class Service(Running):
    def __init__(self, simulator):
        self.simulator, self.push_service = simulator, self
        self.url, self.ca_file = simulator.webpush, simulator.keys / "ca.pem"

    def subscribe(self, key):
        if key is None:
            raise Unsupported("subscriptions are for one sender")
        return self.simulator.subscribe(key)
