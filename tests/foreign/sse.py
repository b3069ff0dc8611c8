"""Reads a run's stream with the PyPI package httpx-sse and prints each event as a line of JSON.

    python sse.py URL TOKEN

The package leaves reconnecting to its caller: this one resumes after the last id that the package told, until 204.
"""

import json
import sys
import time

import httpx
import httpx_sse

url, token = sys.argv[1:]
last_id, retry = "", 0.1


def say(kind, event_id, data):
    print(json.dumps({"type": kind, "id": event_id, "data": data}), flush=True)


def read(client):
    """One connection, to its end or its break. True when the server says that nothing follows."""
    global last_id, retry
    headers = {"authorization": f"Bearer {token}"}
    if last_id:
        headers["last-event-id"] = last_id
    with httpx_sse.connect_sse(client, "GET", url, headers=headers) as source:
        if source.response.status_code == 204:
            return True
        source.response.raise_for_status()
        for event in source.iter_sse():
            say(event.event, event.id, event.data)
            last_id = event.id or last_id
            retry = event.retry / 1000 if event.retry is not None else retry
    return False


with httpx.Client(timeout=30) as client:
    while True:
        try:
            if read(client):
                break
        except httpx.TransportError:
            pass
        time.sleep(min(retry, 0.1))
say("closed", "", "204")
