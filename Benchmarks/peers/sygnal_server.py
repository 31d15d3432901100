"""Sygnal from its sources, with the simulator as Apple: `sygnal_server.py SOURCES APNS_ENDPOINT`. SYGNAL_CONF names its
configuration."""

import sys
import urllib.parse

sys.path.insert(0, sys.argv[1])

from aioapns.connection import APNsProductionClientProtocol

APNsProductionClientProtocol.APNS_SERVER = "127.0.0.1"
APNsProductionClientProtocol.APNS_PORT = urllib.parse.urlsplit(sys.argv[2]).port

from sygnal.sygnal import main

main()
