"""Pusher's library for Python: what a backend sends, asks and ends."""

import json
import sys

import pusher

_, api, app_id, key, secret, socket_id = sys.argv
host, port = api.split(":")
backend = pusher.Pusher(
    app_id=app_id, key=key, secret=secret, host=host, port=int(port), ssl=False
)
backend.trigger(["news", "private-rj"], "photo", {"photo": 789}, socket_id)
backend.trigger_batch([
    {"channel": "news", "name": "1", "data": "first"},
    {"channel": "news", "name": "2", "data": "second"},
])
backend.send_to_user("bob", "hello", {"to": "bob"})
told = {
    "channels": backend.channels_info("presence-", ["user_count"])["channels"],
    "channel": backend.channel_info("news", ["subscription_count"]),
    "users": backend.users_info("presence-room")["users"],
}
print(json.dumps(told))
backend.terminate_user_connections("bob")
