// The public port out of this page's reach: what that means and what cures it, by what can be seen
// from here.

import type { State } from "./live";
import { byId, el } from "../shared/dom";

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

export class Reach {
  private readonly banner = byId("reach");
  private publicUrl = "";

  /** Where the public port is. */
  to(publicUrl: string): void {
    this.publicUrl = publicUrl;
  }

  /** The connection is in another state. */
  turned(state: State): void {
    const isOut = state === "unreachable";
    if (this.banner.hidden === !isOut) return;
    this.banner.hidden = !isOut;
    this.banner.replaceChildren(...(isOut ? this.words() : []));
  }

  private words(): HTMLElement[] {
    const what = el(
      "p",
      {},
      "This page reaches the API, and not the public port at ",
      el("code", {}, this.publicUrl),
      ", where streams are. It asks for the figures instead, every other second; " +
        "“Send and watch” has nothing to watch.",
    );
    return [what, el("p", {}, ...this.cure())];
  }

  private cure(): (string | HTMLElement)[] {
    const code = (text: string): HTMLElement => el("code", {}, text);
    const { protocol, hostname } = new URL(this.publicUrl);
    if (location.protocol === "https:" && protocol === "http:") {
      return [
        "A page that came by TLS may open no plain stream. Serve streams by TLS, ",
        code("encke serve --tls-listen 0.0.0.0:8443"),
        ", or say where a proxy does: ",
        code("--public-url https://push.example.org"),
        ".",
      ];
    }
    if (LOOPBACK.test(hostname) && !LOOPBACK.test(location.hostname)) {
      return [
        "That is an address of the server's own machine. Let it listen to others, ",
        code("encke serve --listen 0.0.0.0:8000"),
        " (with ",
        code("--token-key FILE"),
        " or ",
        code("--open"),
        "), or say where browsers reach it: ",
        code("--public-url https://push.example.org"),
        ".",
      ];
    }
    return [
      "If browsers reach it elsewhere (a proxy, a container, a tunnel), say so: ",
      code("encke serve --public-url https://push.example.org"),
      ". If not, open its port in the firewall, or in the tunnel: ",
      code(`ssh -L ${new URL(this.publicUrl).port || "8000"}:${new URL(this.publicUrl).host} …`),
      ". A server that is full, or a bound for one address, refuses streams too: see its log.",
    ];
  }
}
