"""One client that is named by the first argument reads the stream of the second one."""

import asyncio
import sys
import time

from hear import PAUSE_S, URL, Place, show


def httpx_sse():
    """It does not reconnect; its README shows how, with the last id in the header."""
    import httpx
    from httpx_sse import connect_sse

    last_id = ""
    while True:
        headers = {"Last-Event-ID": last_id} if last_id else {}
        try:
            # Between events there is silence: only a connect may time out.
            with httpx.Client(timeout=httpx.Timeout(10, read=None)) as client:
                with connect_sse(client, "GET", URL, headers=headers) as source:
                    # Where the stream begins, so that a cut before the first event loses nothing.
                    last_id = source.response.headers.get("Encke-Next", last_id)
                    for event in source.iter_sse():
                        last_id = event.id
                        show(event.id, event.event, event.data)
        except httpx.TransportError:
            pass
        time.sleep(PAUSE_S)


def sseclient_py():
    """It reads what requests fetches, and neither of them reconnects."""
    import requests
    import sseclient

    last_id = None
    while True:
        headers = {"Accept": "text/event-stream"}
        if last_id:
            headers["Last-Event-ID"] = last_id
        try:
            with requests.get(URL, stream=True, headers=headers, timeout=(10, None)) as response:
                # Where the stream begins, so that a cut before the first event loses nothing.
                last_id = response.headers.get("Encke-Next", last_id)
                for event in sseclient.SSEClient(response).events():
                    last_id = event.id or last_id
                    show(event.id, event.event, event.data)
        except requests.RequestException:
            pass
        time.sleep(PAUSE_S)


async def aiohttp_sse_client():
    """It reconnects where the stream ends well; where it breaks, the program does."""
    from datetime import timedelta

    import aiohttp
    from aiohttp_sse_client.client import EventSource

    last_id = None
    pause = timedelta(seconds=PAUSE_S)
    while True:
        headers = {"Last-Event-ID": last_id} if last_id else {}
        try:
            async with EventSource(URL, reconnection_time=pause, headers=headers) as source:
                async for event in source:
                    last_id = event.last_event_id
                    show(event.last_event_id, event.type, event.data)
        except (aiohttp.ClientError, OSError):
            pass
        await asyncio.sleep(PAUSE_S)


async def websockets():
    import websockets

    place = Place()
    while True:
        try:
            async with websockets.connect(place.address()) as socket:
                await socket.send(Place.ASK)
                async for text in socket:
                    place.hear(text)
        except (OSError, EOFError, websockets.WebSocketException):
            pass
        await asyncio.sleep(PAUSE_S)


def websocket_client():
    import websocket

    place = Place()
    while True:
        try:
            socket = websocket.create_connection(place.address(), timeout=None)
            socket.send(Place.ASK)
            while text := socket.recv():
                place.hear(text)
        except (OSError, websocket.WebSocketException):
            pass
        time.sleep(PAUSE_S)


client = globals()[sys.argv[1]]
if asyncio.iscoroutinefunction(client):
    asyncio.run(client())
else:
    client()
