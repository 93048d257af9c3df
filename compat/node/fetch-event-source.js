// @microsoft/fetch-event-source: made for pages. It reconnects by itself when its stream breaks,
// and when it ends, if `onclose` throws as its README says.
globalThis.window = globalThis;

const { fetchEventSource } = await import("@microsoft/fetch-event-source");
const { print, url } = await import("./print.js");

await fetchEventSource(url, {
  // A page that is hidden goes on hearing; without it the client takes a `document`.
  openWhenHidden: true,
  onmessage: (message) => print(message.id, message.event, message.data),
  onclose: () => {
    throw new Error("the server ended the stream: try again");
  },
  // Nothing returned: try again after the default time.
  onerror: () => {},
});
