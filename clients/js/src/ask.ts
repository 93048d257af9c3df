/**
 * One request by `fetch`, as SSE and long poll make it.
 *
 * `Accept` is a header that needs no preflight (Fetch, section 2.2.2); `Last-Event-ID` is not,
 * which is why the cursor travels in the query. A token does not: addresses stand in logs.
 */

import { refusal } from "./failure.js";
import type { Link } from "./link.js";

/** The answer, once its head is here and says what was asked for. */
export async function ask(link: Link, url: URL, accept: string): Promise<Response> {
  const { signal, token } = link;
  const headers = { accept, ...(token && { authorization: `Bearer ${token}` }) };
  const response = await fetch(url, { headers, cache: "no-store", signal });
  // A captive portal answers 200 with a page of its own.
  if (!response.ok || !response.headers.get("content-type")?.startsWith(accept)) {
    throw await refusal(response);
  }
  return response;
}
