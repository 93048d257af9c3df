// A shop: what is left of each book is a topic, and each sale an update of it, as JSON.
import { listen, page, publish, serve } from "../shared.mjs";

const topic = (book) => `https://example.com/books/${book}`;
const left = { 1: 100, 2: 100 };
// Behind which update they stand.
let place = "earliest";

serve({
  "GET /": () => page(import.meta.url, {}),
  // After a gap the page asks with the gap's own place.
  "GET /books": ({ after }) => ({
    type: "application/json",
    body: JSON.stringify({ left, hub: listen(topic("{id}"), after ?? place) }),
  }),
  "POST /sales": async ({ book }) => {
    if (!Object.hasOwn(left, book)) return { status: 400 };
    left[book] -= 1;
    const data = JSON.stringify({ book, left: left[book] });
    place = await publish({ topic: topic(book), type: "sold", data });
    return { status: 204 };
  },
});
