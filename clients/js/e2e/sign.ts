/** Tokens as an application signs them. */

import { createHmac, randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A secret in a file, for `--token-key`. */
export class Secret {
  readonly #secret = randomBytes(32).toString("hex");

  private constructor(readonly file: string) {}

  static async make(): Promise<Secret> {
    const secret = new Secret(join(await mkdtemp(join(tmpdir(), "encke-tokens-")), "secret"));
    await writeFile(secret.file, secret.#secret, { mode: 0o600 });
    return secret;
  }

  remove(): Promise<void> {
    return rm(join(this.file, ".."), { recursive: true, force: true });
  }

  /** A token that says so. */
  sign(claims: { sub: string; iat?: number; exp: number; encke?: object }): string {
    const part = (json: object) => Buffer.from(JSON.stringify(json)).toString("base64url");
    const text = `${part({ alg: "HS256" })}.${part(claims)}`;
    return `${text}.${createHmac("sha256", this.#secret).update(text).digest("base64url")}`;
  }
}
