// A client of `ledgeragent serve`: one class per session, one method per request (docs/sidecar.md).

import { isObject, parse, type Json, type JsonObject } from "./json.ts";
import type { Outcome } from "./host.ts";
import type { Verdict } from "./accept.ts";

/** The sidecar did not do it. Nothing may run on an error, whatever its code. */
export class SidecarError extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(`${code}: ${message}`);
    this.status = status;
    this.code = code;
  }
}

/** Thrown by a tool for a definite no: nothing was changed. */
export class ToolRefused extends Error {}

export interface ProposedCall {
  tool: string;
  /** The text that the model gave, as it came. */
  arguments: string;
  call_id: string;
}

export interface Review {
  call_id: string;
  tool: string;
  verdict: Verdict;
  request: string;
  ticket: string | null;
  message: string;
  user_message: string;
  error: { code: string; message: string } | null;
  /** What somebody must see and consent to (schemas/approval_request.schema.json); null when that is not what is wanting. */
  approval_request: JsonObject | null;
  /** Why grants were not taken for this call. */
  refused_grants: string[];
}

export type Tool = (args: JsonObject) => Promise<string> | string;

export interface SidecarOptions {
  url: string;
  token?: string;
  /** The session's clock, RFC 3339 with an offset; left out, the sidecar has its own. */
  now?: () => string;
  timeoutMs?: number;
}

export class Sidecar {
  readonly #options: SidecarOptions;

  constructor(options: SidecarOptions) {
    this.#options = options;
  }

  /** Open a session; `principal` is whom the host authenticated. */
  async open(domain: string, principal?: { id: string; claims?: JsonObject }): Promise<SidecarSession> {
    const opened = await this.ask("POST", "/v1/sessions", { domain, ...(principal !== undefined && { principal }) });
    return new SidecarSession(this, opened["session"] as string);
  }

  /** One request. With a key it is sent again when its answer was lost, and done once all the same. */
  async ask(method: string, path: string, body?: JsonObject, key?: string): Promise<JsonObject> {
    const { now } = this.#options;
    const sent = body === undefined ? undefined : JSON.stringify({ ...body, ...(now !== undefined && { now: now() }) });
    try {
      return await this.#once(method, path, sent, key);
    } catch (error) {
      if (key === undefined || error instanceof SidecarError) throw error;
      return await this.#once(method, path, sent, key);
    }
  }

  async #once(method: string, path: string, body: string | undefined, key: string | undefined): Promise<JsonObject> {
    const { url, token, timeoutMs } = this.#options;
    const response = await fetch(url + path, {
      method,
      headers: {
        ...(body !== undefined && { "Content-Type": "application/json" }),
        ...(token !== undefined && { Authorization: `Bearer ${token}` }),
        ...(key !== undefined && { "Idempotency-Key": key }),
      },
      ...(body !== undefined && { body }),
      signal: AbortSignal.timeout(timeoutMs ?? 30_000),
    });
    const answer = parse(await response.text());
    if (response.ok && isObject(answer)) return answer;
    const error = isObject(answer) ? answer["error"] : undefined;
    const { code, message } = isObject(error) ? error : {};
    throw new SidecarError(response.status, String(code ?? "unknown"), String(message ?? "no answer of a sidecar"));
  }
}

export class SidecarSession {
  readonly #sidecar: Sidecar;
  readonly id: string;

  constructor(sidecar: Sidecar, id: string) {
    this.#sidecar = sidecar;
    this.id = id;
  }

  /** A read: issued before it runs, observed when it returns. `newTurn`: a new model message begins with it. */
  async read(call: ProposedCall, tool: Tool, newTurn: boolean): Promise<string> {
    const issued = await this.#post("reads", { tool: call.tool, arguments: call.arguments, call_id: call.call_id, new_turn: newTurn });
    const args = issued["arguments"] as JsonObject;
    let content: string;
    let error = false;
    try {
      content = await tool(args);
    } catch (problem) {
      content = String(problem);
      error = true;
    }
    await this.#post("observations", { call_id: issued["call_id"] as string, content, error });
    return content;
  }

  /** What the gate says to the writes of one message, in order. `grants`: signed consents to some of them. */
  async review(calls: ProposedCall[], newTurn: boolean, grants: JsonObject[] = []): Promise<Review[]> {
    const body = { calls: calls as unknown as Json, new_turn: newTurn, grants };
    const given = await this.#post("reviews", body, crypto.randomUUID());
    return given["reviews"] as unknown as Review[];
  }

  /** Run an admitted write: redeem its ticket, run exactly the judged arguments, report what became of it. */
  async run(review: Review, tool: Tool): Promise<string> {
    if (review.ticket === null) throw new Error(`${review.tool} was not admitted: ${review.verdict}`);
    const redeemed = await this.#post("redemptions", { ticket: review.ticket }, crypto.randomUUID());
    const report = (outcome: Outcome, content: string | null): Promise<JsonObject> =>
      this.#post("outcomes", { ticket: review.ticket, outcome, content });
    let content: string;
    try {
      content = await tool(redeemed["arguments"] as JsonObject);
    } catch (problem) {
      await report(problem instanceof ToolRefused ? "refused" : "uncertain", null);
      throw problem;
    }
    await report("executed", content);
    return content;
  }

  /** The ledger as the last message of the next model request, never in the system role. */
  async ledger(): Promise<string> {
    return (await this.#sidecar.ask("GET", `${this.#path}/ledger`))["text"] as string;
  }

  async close(): Promise<void> {
    await this.#sidecar.ask("DELETE", this.#path);
  }

  get #path(): string {
    return `/v1/sessions/${this.id}`;
  }

  #post(what: string, body: JsonObject, key?: string): Promise<JsonObject> {
    return this.#sidecar.ask("POST", `${this.#path}/${what}`, body, key);
  }
}
