// What a web site does that uses playdar.js, in its order and with its names, written anew: calls
// are script tags whose answers name a function, the token is asked for in a popup, which hands it
// back from the site's own receiver page, and results are awaited or polled for.

const Playdar = { nop() {} };

/** What came back, for the test to read. */
const told = { stats: [], resolutions: [], results: [], longs: [], errors: [] };

Playdar.client = {
  token: null,
  popup: null,
  polls: 0,

  url(method, handler, parameters = {}) {
    const query = { ...parameters, call_id: Date.now(), method };
    query.jsonp = `Playdar.client.${handler}`;
    if (this.token) query.auth = this.token;
    return `${Playdar.daemon}/api/?${new URLSearchParams(query)}`;
  },

  load(url) {
    const script = document.createElement("script");
    script.onerror = () => told.errors.push(new URL(url).search);
    script.src = url;
    document.head.append(script);
  },

  stat() {
    this.load(this.url("stat", "handleStat"));
  },

  handleStat(response) {
    told.stats.push(response);
  },

  startAuth() {
    const receiverurl = new URL("receiver.html", location.href).href;
    const asked = new URLSearchParams({ website: location.href, name: "A site", receiverurl });
    this.popup = open(`${Playdar.daemon}/auth_1/?${asked}`, "PD_auth", "width=500,height=260");
  },

  auth_callback(token) {
    document.cookie = `Playdar.Auth=${token}; path=/`;
    this.popup.close();
    this.token = token;
    this.stat();
  },

  resolve(artist, track, qid) {
    // The original sends what it has not as the word.
    const query = { artist, album: "", track, qid, results: undefined };
    this.load(this.url("resolve", "handleResolution", query));
  },

  handleResolution({ qid }) {
    told.resolutions.push(qid);
    this.load(this.url("get_results_long", "handleResultsLong", { qid }));
    this.poll(qid);
  },

  handleResultsLong(response) {
    told.longs.push(response);
  },

  poll(qid) {
    this.polls += 1;
    this.load(this.url("get_results", "handleResults", { qid, poll: this.polls }));
  },

  /** Polls on as the original does: as often and as long as the daemon says. */
  handleResults(response) {
    told.results.push(response);
    const every = response.poll_interval || response.refresh_interval;
    const isLast = every <= 0 || response.solved === true;
    if (isLast || this.polls >= (response.poll_limit || 4)) return;
    setTimeout(() => this.poll(response.qid), every);
  },

  clearAuth() {
    const asked = new URLSearchParams({ revoke: this.token, jsonp: "Playdar.nop" });
    this.load(`${Playdar.daemon}/authcodes?${asked}`);
  },
};

Playdar.daemon = new URLSearchParams(location.search).get("daemon");
addEventListener("DOMContentLoaded", () => {
  document.getElementById("connect").addEventListener("click", () => Playdar.client.startAuth());
  Playdar.client.stat();
});
Object.assign(globalThis, { Playdar, told });
