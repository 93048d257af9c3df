// What the site is called, looks like, and leads to.

const item = (text, link) => ({ text, link });

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
    search: { provider: "local" },
    outline: { level: [2, 3] },
    nav: [
      item("Start", "/tutorial"),
      item("Build", "/backends"),
      item("Run", "/operations"),
      item("Reference", "/protocol"),
      item("Inside", "/architecture"),
    ],
    sidebar: [
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
          item("Sites of Mercure", "/examples/mercure"),
          item("JavaScript", "/clients/js"),
          item("Python", "/clients/python"),
          item("Go", "/clients/go"),
          item("Erlang", "/erlang"),
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
          item("Troubleshooting", "/troubleshooting"),
        ],
      },
      {
        text: "Reference",
        items: [
          item("Protocol", "/protocol"),
          item("Where a stream starts", "/stream-start"),
          item("API", "/api"),
          item("Errors", "/errors"),
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
          item("Decisions", "/decisions/"),
          item("Contributing", "/contributing"),
          item("Changelog", "/changelog"),
        ],
      },
    ],
  },
};
