"""mercure-publisher: each line of standard input is an update as JSON, each line of standard output
the id that the hub has answered."""

import json
import pathlib
import sys

from mercure_publisher import MercureConfig, MercurePublisher

_, hub, key = sys.argv
secret = pathlib.Path(key).read_text()
config = MercureConfig(hub_url=hub, publisher_jwt_key=secret, publish_topics=["*"])
with MercurePublisher(config) as publisher:
    for line in sys.stdin:
        update = json.loads(line)
        print(publisher.publish(update.pop("topic"), update.pop("data"), **update), flush=True)
