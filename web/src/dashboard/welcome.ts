// What to do with a server that nobody has used yet: instead of zeros the commands that make the
// first figures.

import type { Facts, Sample } from "./api";
import { byId, setText } from "../shared/dom";

export class Welcome {
  private readonly panel = byId("welcome");

  /** Puts the server's own addresses into the commands. */
  to({ public_url: streams, token, session }: Facts): void {
    const api = location.origin;
    // Who has logged in here did so by a key, and a terminal has no session.
    const key = session ? " -H 'Authorization: Bearer KEY'" : "";
    const listen =
      token === undefined
        ? `curl -N ${streams}/stream/alice`
        : `encke listen alice --url ${streams} --token-key FILE`;
    setText(byId("welcome-listen"), listen);
    const send = (path: string, body: string): string => `curl ${api}${path} --json '${body}'`;
    setText(byId("welcome-send"), send("/send", '{"about":"alice","data":"hello"}') + key);
    const pair = '[{"subscriber":"bob","subscribee":"alice"}]';
    setText(byId("welcome-follow"), send("/subscriptions/add", pair) + key);
  }

  /** Shows it as long as nobody is online and nothing was sent or stored. */
  show(sample: Sample): void {
    const { connections_open, subscriptions, events, deliveries } = sample;
    const isEmpty = connections_open + subscriptions + events + deliveries === 0;
    this.panel.hidden = !isEmpty;
    document.body.toggleAttribute("data-empty", isEmpty);
  }
}
