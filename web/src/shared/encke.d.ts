// The client library by its name, which build.mjs leads to clients/js/src: its own types, but its
// sources are checked there, by its own rules.

declare module "encke" {
  export type Connection<E = unknown> = import("../../../clients/js/src/types").Connection<E>;
  export type EnckeEvent<T = unknown> = import("../../../clients/js/src/types").EnckeEvent<T>;
  export type Options = import("../../../clients/js/src/types").Options;
  export type State = import("../../../clients/js/src/types").State;
  export type TransportName = import("../../../clients/js/src/types").TransportName;
  export function connect<E = unknown>(url: string | URL, options: Options): Connection<E>;
}
