"""Sygnal from its sources, with the simulator as Apple: `sygnal_server.py SOURCES APNS_PORT` (SYGNAL_CONF names its
configuration)."""

import sys

sys.path.insert(0, sys.argv[1])

from aioapns.connection import APNsProductionClientProtocol

APNsProductionClientProtocol.APNS_SERVER = "127.0.0.1"
APNsProductionClientProtocol.APNS_PORT = int(sys.argv[2])

from sygnal.sygnal import main

main()
