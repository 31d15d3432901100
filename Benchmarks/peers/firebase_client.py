"""A bare firebase-admin client: for each line `CONCURRENCY SECONDS` of its input it sends for that long from as many
threads, and prints a JSON line."""

import json
import os
import sys
import threading
import time
from pathlib import Path

keys, endpoint, tokens, payload = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]).read_text().split(), json.loads(sys.argv[4])
os.environ["REQUESTS_CA_BUNDLE"] = str(keys / "ca.pem")

import firebase_admin
from firebase_admin import credentials, messaging
from firebase_admin.messaging import _MessagingService

account = json.loads((keys / "fcm/default.json").read_text())
_MessagingService.FCM_URL = endpoint + "/v1/projects/{0}/messages:send"
app = firebase_admin.initialize_app(credentials.Certificate(account), {"httpTimeout": 30})


def work(number, end, latencies):
    while (start := time.monotonic()) < end:
        number += 1
        messaging.send(
            messaging.Message(token=tokens[number % len(tokens)], data=payload, android=messaging.AndroidConfig(priority="high")),
            app=app)
        latencies.append(time.monotonic() - start)


for line in sys.stdin:
    concurrency, seconds = line.split()
    latencies, start = [], time.monotonic()
    threads = [
        threading.Thread(target=work, args=(1000 * number, start + float(seconds), latencies)) for number in range(int(concurrency))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    latencies.sort()
    print(json.dumps({
        "requests": len(latencies), "elapsed": time.monotonic() - start, "p50": latencies[len(latencies) // 2],
        "p99": latencies[len(latencies) * 99 // 100]}), flush=True)
