/**
 * A network of its own that can fall silent: a client's host, a router and a server's host, each a
 * network namespace of the kernel (ip-netns(8)), tied by pairs of veth.
 *
 * A cut is a pair of blackhole routes at the router: it drops what both sides send, and tells
 * nobody, as a phone's network does that is gone. Both hosts still see their own link up.
 */

import { type ChildProcess, execFile, spawn, type SpawnOptions } from "node:child_process";
import { once } from "node:events";
import type { TestContext } from "node:test";
import { promisify } from "node:util";
import { atEnd } from "../ends.js";

const run = promisify(execFile);

/** Of the networks for benchmarks (RFC 2544), which lead nowhere. */
const CLIENT = "198.18.1.2";
export const SERVER = "198.18.2.2";

export class Network {
  private constructor(
    readonly client: Host,
    readonly router: Host,
    readonly server: Host,
  ) {}

  /** Makes one that ends with the test; throws where this machine cannot. */
  static async make(test: TestContext): Promise<Network> {
    const hosts = [];
    for (let n = 0; n < 3; n++) {
      hosts.push(await Host.make(test));
    }
    const [client, router, server] = hosts;
    await client.link(router, "198.18.1");
    await server.link(router, "198.18.2");
    await router.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward");
    return new Network(client, router, server);
  }

  /** From now on nothing comes through. */
  async cut(): Promise<void> {
    await this.#blackholes("add");
  }

  async mend(): Promise<void> {
    await this.#blackholes("del");
  }

  async #blackholes(change: "add" | "del"): Promise<void> {
    await this.router.run("ip", "route", change, "blackhole", `${CLIENT}/32`);
    await this.router.run("ip", "route", change, "blackhole", `${SERVER}/32`);
  }
}

/** One namespace, which lasts as long as a process in it. */
class Host {
  private constructor(readonly holder: ChildProcess) {}

  static async make(test: TestContext): Promise<Host> {
    const say = "ip link set lo up && echo up && exec cat";
    const holder = spawn("unshare", ["--net", "sh", "-c", say], { stdio: "pipe" });
    atEnd(test, () => holder.kill("SIGKILL"));
    const failed = once(holder, "close").then(() => Promise.reject(new Error("no namespace")));
    await Promise.race([once(holder.stdout!, "data"), failed]);
    failed.catch(() => {});
    return new Host(holder);
  }

  /** A pair of interfaces between this host, which is `net`.2, and `router`, its way out. */
  async link(router: Host, net: string): Promise<void> {
    const name = `to${net.replaceAll(".", "-")}`;
    const peer = ["peer", "name", name, "netns", `${router.holder.pid}`];
    await this.run("ip", "link", "add", "eth0", "type", "veth", ...peer);
    await this.run("ip", "address", "add", `${net}.2/24`, "dev", "eth0");
    await router.run("ip", "address", "add", `${net}.1/24`, "dev", name);
    await this.run("ip", "link", "set", "eth0", "up");
    await router.run("ip", "link", "set", name, "up");
    await this.run("ip", "route", "add", "default", "via", `${net}.1`);
  }

  #inside(command: string[]): string[] {
    return [`--net=/proc/${this.holder.pid}/ns/net`, ...command];
  }

  async run(...command: string[]): Promise<void> {
    await run("nsenter", this.#inside(command));
  }

  /** Starts a program there that ends with the test. */
  spawn(test: TestContext, command: string[], options: SpawnOptions): ChildProcess {
    const child = spawn("nsenter", this.#inside(command), options);
    const ended = once(child, "exit");
    atEnd(test, () => {
      child.kill("SIGKILL");
      return ended;
    });
    return child;
  }
}
