// Asks Open Policy Agent for decisions, and believes only answers that prove themselves.

import { accept, refused, resultOf, type Answer, type Judged, type Revisions } from "./accept.ts";
import { isObject, same, type Json, type JsonObject } from "./json.ts";

export interface Vector {
  name: string;
  input: JsonObject;
  decision: JsonObject;
}

export interface GateOptions {
  /** Of the OPA server. */
  url: string;
  token?: string;
  domain: string;
  /** Predicates by declared write, sorted, from tools.json; `guards` makes it. */
  guardedBy: Map<string, string[]>;
  /** The domain's vectors. */
  vectors: Vector[];
  /** Budget of one question. */
  timeoutMs?: number;
}

/** Which predicates guard the tools of a tools.json; what changes nothing is guarded by none. */
export function guards(tools: JsonObject): Map<string, string[]> {
  const declared = tools["tools"] as JsonObject[];
  return new Map(declared.map((one) => [one["name"] as string, [...((one["guarded_by"] as string[] | undefined) ?? [])].sort()]));
}

export class Gate {
  readonly #options: GateOptions;
  readonly #proved: Revisions[] = [];

  constructor(options: GateOptions) {
    if (options.vectors.length === 0) throw new Error("a gate that cannot be proved is not built: give it vectors");
    this.#options = options;
  }

  /** One decision. Never throws for anything the server does. `input.request` must be a random id, new each
   * time, and `input.grants` those that the host itself verified for this call. */
  async judge(input: JsonObject): Promise<Judged> {
    if (this.#proved.length === 0) {
      const error = await this.prove();
      if (error !== null) return refused(error);
    }
    const answer = await this.#ask("decision", input);
    if (typeof answer === "string") return refused(answer);
    const judged = this.#accepted(answer, input);
    if (judged.error !== "decision.revision") return judged;
    // Other policies came into use: they are proved before their first decision counts.
    const error = await this.prove();
    return error !== null ? refused(error) : this.#accepted(answer, input);
  }

  /** Run the vectors against the server: null when they hold, else the error's code. */
  async prove(): Promise<string | null> {
    const seen: Revisions[] = [];
    for (const vector of this.#options.vectors) {
      const request = crypto.randomUUID();
      const answer = await this.#ask("proof", { ...vector.input, request });
      if (typeof answer === "string") return answer;
      const result = resultOf(answer);
      if (typeof result === "string") return result;
      const held = proves(vector, result.value, typeof vector.input["request"] === "string" ? request : "");
      if (typeof held === "string") return held;
      seen.push(held);
    }
    const [first, ...others] = seen;
    if (first === undefined || others.some((one) => !same({ ...one }, { ...first }))) return "decision.revision";
    this.#proved.push(first);
    return null;
  }

  #accepted(answer: Answer, input: JsonObject): Judged {
    const tool = (input["action"] as JsonObject)["tool"] as string;
    return accept(answer, input, this.#options.guardedBy.get(tool) ?? null, this.#proved);
  }

  async #ask(rule: "decision" | "proof", input: JsonObject): Promise<Answer | string> {
    const { url, token, domain, timeoutMs } = this.#options;
    // Without strict-builtin-errors a built-in's error would turn into an undefined condition.
    const where = `${url}/v1/data/ledgeragent/${domain}/${rule}?strict-builtin-errors=true`;
    try {
      const response = await fetch(where, {
        method: "POST",
        headers: { "Content-Type": "application/json", ...(token !== undefined && { Authorization: `Bearer ${token}` }) },
        body: JSON.stringify({ input }),
        redirect: "manual",
        signal: AbortSignal.timeout(timeoutMs ?? 2_000),
      });
      return { status: response.status, body: await response.text() };
    } catch (error) {
      return error instanceof DOMException && error.name === "TimeoutError" ? "engine.timeout" : "engine.unreachable";
    }
  }
}

/** The revisions that answered a vector as it must be answered, else the error's code. */
function proves(vector: Vector, answered: Json, request: string): Revisions | string {
  if (!isObject(answered)) return "decision.schema";
  const { request: echo, policy, ...decision } = answered;
  if (echo !== request) return "decision.request";
  if (!isObject(policy)) return "decision.schema";
  const { revision, gate } = policy;
  if (typeof revision !== "string" || typeof gate !== "string") return "decision.schema";
  return same(decision, vector.decision) ? { revision, gate } : "decision.proof";
}
