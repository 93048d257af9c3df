/** Where the paths of the protocol begin, by the address that an application gives. */
export function baseOf(url: string | URL): URL {
  const base = new URL(url, globalThis.location?.href);
  base.protocol = base.protocol.replace("ws", "http");
  base.pathname = base.pathname.replace(/\/*$/, "/");
  return base;
}
