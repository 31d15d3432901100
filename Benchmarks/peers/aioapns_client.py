"""A bare aioapns client: for each line `CONCURRENCY SECONDS` of its input it sends for that long, and prints a JSON line."""

import asyncio
import json
import ssl
import sys
import time
import urllib.parse
from pathlib import Path

import aioapns
from aioapns.connection import APNsProductionClientProtocol


async def main(keys, endpoint, tokens, payload):
    APNsProductionClientProtocol.APNS_SERVER = "127.0.0.1"
    APNsProductionClientProtocol.APNS_PORT = urllib.parse.urlsplit(endpoint).port
    description = json.loads((keys / "apns/simulator.json").read_text())
    client = aioapns.APNs(
        key=(keys / "apns" / description["key_file"]).read_text(), key_id=description["key_id"],
        team_id=description["team_id"], topic=description["topics"][0],
        ssl_context=ssl.create_default_context(cafile=str(keys / "ca.pem")))
    tokens = Path(tokens).read_text().split()
    payload = json.loads(payload)
    number = 0

    async def work(end, latencies):
        nonlocal number
        while (start := time.monotonic()) < end:
            number += 1
            request = aioapns.NotificationRequest(
                device_token=tokens[number % len(tokens)], message=payload, push_type=aioapns.PushType.ALERT,
                priority=aioapns.PRIORITY_HIGH)
            result = await client.send_notification(request)
            if not result.is_successful:
                raise SystemExit(f"refused: {result.description}")
            latencies.append(time.monotonic() - start)

    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        concurrency, seconds = line.split()
        latencies, start = [], time.monotonic()
        end = start + float(seconds)
        await asyncio.gather(*(work(end, latencies) for _ in range(int(concurrency))))
        latencies.sort()
        print(json.dumps({
            "requests": len(latencies), "elapsed": time.monotonic() - start, "p50": latencies[len(latencies) // 2],
            "p99": latencies[len(latencies) * 99 // 100]}), flush=True)


asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
