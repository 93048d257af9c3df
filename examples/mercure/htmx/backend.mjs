// A poll: each vote is an update with the whole result, as HTML that htmx puts into all pages.
import { escape, listen, page, publish, serve } from "../shared.mjs";

const TOPIC = "https://example.com/polls/1";
const votes = { Tea: 0, Coffee: 0 };
// Behind which update the result stands.
let place = "earliest";

const result = () => Object.entries(votes).map(([drink, count]) => {
  return `<tr><th>${drink}</th><td id="${drink}">${count}</td></tr>`;
}).join("\n");

serve({
  // After a gap htmx asks with the gap's own place.
  "GET /": ({ after }) => page(import.meta.url, {
    hub: escape(listen(TOPIC, after ?? place)),
    result: result(),
  }),
  "POST /votes": async ({ drink }) => {
    if (!Object.hasOwn(votes, drink)) return { status: 400 };
    votes[drink] += 1;
    place = await publish({ topic: TOPIC, data: result() });
    return { status: 204 };
  },
});
