"""Sygnal with the simulator as Apple: `sygnal_server.py APNS_ENDPOINT`. SYGNAL_CONF names its configuration."""

import sys
import urllib.parse

from aioapns.connection import APNsProductionClientProtocol

APNsProductionClientProtocol.APNS_SERVER = "127.0.0.1"
APNsProductionClientProtocol.APNS_PORT = urllib.parse.urlsplit(sys.argv[1]).port

from sygnal.sygnal import main

main()
