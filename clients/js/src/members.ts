/**
 * Who is in a room: sets that follow what the server tells of its members.
 *
 * A list replaces what was known, and is told as the members who differ, so that nobody sees a
 * connection that went and came back.
 */

import { Ears } from "./listeners.js";
import type { Member, Members, MembersListeners } from "./types.js";

/** What the server says about members. */
export interface MembersMessage {
  members?: { of: string; count: number; list?: Member[] };
  joined?: Member & { of: string; count?: number };
  left?: Member & { of: string; count?: number };
}

/** The rooms that one client looks at. */
export class Rooms {
  #all = new Map<string, Set<Room>>();

  /** `watch` asks for the members of a room; `leave` is told when nobody looks at it any more. */
  constructor(
    readonly watch: (id: string) => void,
    readonly leave: (id: string) => void = () => {},
  ) {}

  get ids(): string[] {
    return [...this.#all.keys()];
  }

  /** A set of the members of `id`, from now on. */
  look(id: string): Members {
    let rooms = this.#all.get(id);
    const room = new Room(id, () => {
      if (rooms!.delete(room) && !rooms!.size) {
        this.#all.delete(id);
        this.leave(id);
      }
    });
    if (rooms) {
      room.take([...rooms][0]);
      rooms.add(room);
    } else {
      this.#all.set(id, (rooms = new Set([room])));
      this.watch(id);
    }
    return room;
  }

  /** Hears a message of the server's, if it is one about members. */
  hear(message: MembersMessage): void {
    const { of } = message.members ?? message.joined ?? message.left ?? {};
    this.#all.get(of!)?.forEach((room) => room.hear(message));
  }
}

class Room implements Members {
  list: readonly Member[] = [];
  count = 0;
  isKnown = false;
  #ears = new Ears();

  constructor(
    readonly of: string,
    readonly stop: () => void,
  ) {}

  on<K extends keyof MembersListeners>(what: K, listener: MembersListeners[K]): () => void {
    return this.#ears.on(what, listener);
  }

  /** As another one of the same room. */
  take({ list, count, isKnown }: Members): void {
    Object.assign(this, { list, count, isKnown });
  }

  hear({ members, joined, left }: MembersMessage): void {
    const told = members ?? joined ?? left!;
    if (members?.list) {
      this.#turn(members.list);
    } else if (told.count) {
      // There are too many for a list.
      this.#turn([], told.count);
    } else if (joined) {
      const { of, ...member } = joined;
      // Who is there already has other `info`.
      const list = [...this.list];
      const at = list.findIndex(({ id }) => id === member.id);
      list[at < 0 ? list.length : at] = member;
      this.#turn(list);
    } else {
      this.#turn(this.list.filter(({ id }) => id !== left!.id));
    }
  }

  #turn(list: readonly Member[], count = list.length): void {
    const before = this.list;
    Object.assign(this, { list, count, isKnown: true });
    // Whom a count leaves out has not left.
    if (count === list.length) {
      without(before, list).forEach((member) => this.#ears.tell("leave", member));
    }
    without(list, before).forEach((member) => this.#ears.tell("join", member));
    this.#ears.tell("change", this);
  }
}

function without(list: readonly Member[], others: readonly Member[]): Member[] {
  const ids = new Set(others.map(({ id }) => id));
  return list.filter(({ id }) => !ids.has(id));
}
