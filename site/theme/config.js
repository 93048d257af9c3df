// What the site is called, looks like, and leads to.

const item = (text, link) => ({ text, link });

const sidebar = [
  {
    text: "Start",
    items: [
      item("What it is", "/"),
      item("Install", "/install"),
      item("First event", "/tutorial"),
      item("Concepts", "/concepts"),
    ],
  },
  {
    text: "Build",
    items: [
      item("Moving to Encke", "/moving"),
      item("Your backend", "/backends"),
      item("Pusher Channels", "/pusher"),
      item("Mercure", "/mercure"),
      item("Clients that publish", "/publish"),
      item("The past of an id", "/past"),
      item("Events that stay", "/keep"),
      item("Presence", "/presence"),
      item("Members", "/members"),
      item("Durable streams", "/streams"),
      item("Chat room", "/examples/chat"),
      item("Shared cursors", "/examples/cursors"),
      item("Live dashboard", "/examples/dashboard"),
      item("Answers of a model", "/examples/answers"),
      item("Notifications of a table", "/examples/notifications"),
      item("A chat by the AI SDK", "/examples/assistant"),
      item("The log of a job", "/examples/job"),
      item("Laravel Echo", "/examples/echo"),
      item("Rooms of Socket.IO", "/examples/socketio"),
      item("Sites of Mercure", "/examples/mercure"),
      item("JavaScript", "/clients/js"),
      item("Python", "/clients/python"),
      item("Go", "/clients/go"),
      item("Erlang", "/erlang"),
      item("The Erlang application", "/clients/erlang"),
      item("Port programs", "/ketama"),
    ],
  },
  {
    text: "Run",
    items: [
      item("Configuration", "/options"),
      item("Operations", "/operations"),
      item("Security", "/security"),
      item("TLS", "/tls"),
      item("Tokens", "/tokens"),
      item("Keys of the API", "/keys"),
      item("Rate limits", "/rate-limits"),
      item("Cluster", "/cluster"),
      item("PostgreSQL", "/postgres"),
      item("Upgrade", "/upgrade"),
      item("Monitoring", "/monitoring"),
      item("Traces", "/traces"),
      item("Capacity", "/capacity"),
      item("Attacks", "/attacks"),
      item("Troubleshooting", "/troubleshooting"),
    ],
  },
  {
    text: "Reference",
    items: [
      item("Protocol", "/protocol"),
      item("Where a stream starts", "/stream-start"),
      item("From the reference hub", "/mercure-reference"),
      item("API", "/api"),
      item("The API in five languages", "/api-examples"),
      item("Errors", "/errors"),
      item("Promises and failures", "/promises"),
      item("Lines of the log", "/log-lines"),
      item("Commands", "/commands"),
      item("Options of the commands", "/command-options"),
      item("Terms", "/glossary"),
      item("TLS conformance", "/tls-conformance"),
    ],
  },
  {
    text: "Inside",
    items: [
      item("Architecture", "/architecture"),
      item("Figures", "/figures"),
      item("What the simulators see", "/simulators"),
      item("Decisions", "/decisions/"),
      item("Contributing", "/contributing"),
      item("Changelog", "/changelog"),
    ],
  },
];

/** The part of the sidebar called `text`: it leads to `link`, and shines on each of its pages. */
const part = (text, link) => {
  const links = sidebar.find((part) => part.text === text).items.map(({ link }) => link);
  const pages = links.map((link) => (link.endsWith("/") && link !== "/" ? `${link}.*` : link));
  return { text, link, activeMatch: `^(${pages.join("|")})$` };
};

export default {
  title: "Encke",
  description: "A push server for millions of connected users",
  // A folder that is served from anywhere below a host, and read from a disk.
  base: process.env.ENCKE_SITE_BASE ?? "/",
  cleanUrls: false,
  ignoreDeadLinks: false,
  lastUpdated: false,
  rewrites: { "decisions/README.md": "decisions/index.md" },
  themeConfig: {
    // All words of a question are in what is found, not one of them.
    search: {
      provider: "local",
      options: { miniSearch: { searchOptions: { combineWith: "AND" } } },
    },
    outline: { level: [2, 3] },
    nav: [
      part("Start", "/tutorial"),
      part("Build", "/backends"),
      part("Run", "/operations"),
      part("Reference", "/protocol"),
      part("Inside", "/architecture"),
    ],
    sidebar,
  },
};
