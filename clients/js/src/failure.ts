/**
 * Refusals as errors: what a `problem+json` (RFC 9457) says, in an `Error`.
 */

import type { Failure } from "./types.js";

/** A problem as the server words it. */
interface Problem {
  status?: number;
  title?: string;
  detail?: string;
  instance?: string;
}

/** How long a server that is full is left alone when it does not say, or not to this page. */
const BUSY_S = 5;

/** No wait is longer, whatever a server asks for: a longer one would overflow the timer. */
const DAY_S = 86_400;

/** The error of a problem; one without words gets `otherwise`. */
export function failure(problem: Problem, otherwise: string): Failure {
  const { status, title, detail } = problem;
  const words = [title, detail].filter(Boolean).join(": ");
  return Object.assign(new Error(words || otherwise), { status });
}

/** The error of an answer that is not what was asked for. */
export async function refusal(response: Response): Promise<Failure> {
  const { status, statusText, headers } = response;
  // A proxy's page of HTML is no JSON and tells nobody what to do.
  const problem: Problem | null = await response.json().catch(() => null);
  const error = failure({ ...problem, status }, `HTTP ${status} ${statusText}`);
  const unsaid = [429, 503].includes(status) ? BUSY_S : 0;
  const asked = +headers.get("retry-after")!;
  // One below zero would end each wait before it has begun.
  error.retryAfterMs = 1000 * Math.min(asked > 0 ? asked : unsaid, DAY_S);
  // Only what the server itself says is final. What a proxy says while something is deployed, or
  // another application at this address, passes. Encke's problems repeat the status, say what to
  // do and have no `instance`, which other makers of problems give.
  const isOwn =
    headers.get("content-type")?.startsWith("application/problem+json") &&
    problem?.status === status &&
    problem.detail &&
    !problem.instance;
  error.final = !!isOwn && status < 500 && ![408, 425, 429].includes(status);
  return error;
}
