// Whether a host may accept an answer of the policy decision point. Anything else than a decision that proves itself is
// a block with an error of its own: there is no way from here to an allow but the one at the end of `accept`.

import { isObject, NotJson, parse, type Json, type JsonObject } from "./json.ts";

export type Verdict = "allow" | "revise" | "block";

export interface Answer {
  status: number;
  body: string;
}

export interface Revisions {
  revision: string;
  gate: string;
}

export type Judged =
  | { accepted: true; verdict: Verdict; decision: JsonObject; error: null }
  | { accepted: false; verdict: "block"; decision: null; error: string };

const NOT_JUDGED = ["gate.input", "gate.tool", "gate.arguments"];
const OWN = [...NOT_JUDGED, "gate.unguarded", "gate.loop", "gate.floor", "gate.frozen"];
const RANK: Record<string, number> = { allow: 0, revise: 1, block: 2 };

export function refused(error: string): Judged {
  return { accepted: false, verdict: "block", decision: null, error };
}

/**
 * What an answer is worth.
 *
 * `input`: what was sent; its `grants` are those that this host verified for the call. `guardedBy`: the predicates that tools.json says guard the tool, sorted; null when
 * it declares no such tool. `proved`: revisions for which the domain's vectors held.
 */
export function accept(answer: Answer, input: JsonObject, guardedBy: string[] | null, proved: Revisions[]): Judged {
  const result = resultOf(answer);
  if (typeof result === "string") return refused(result);
  const decision = result.value;
  if (!isDecision(decision) || !agrees(decision) || !isObliged(decision)) return refused("decision.schema");
  if (decision["request"] !== input["request"]) return refused("decision.request");
  if (!isGranted(decision, input["grants"] as JsonObject[])) return refused("decision.grant");
  const policy = decision["policy"] as JsonObject;
  if (!proved.some((one) => one.revision === policy["revision"] && one.gate === policy["gate"])) {
    return refused("decision.revision");
  }
  if (guardedBy === null && decision["verdict"] === "allow") return refused("decision.predicates");
  const judged = findingsOf(decision).some((one) => NOT_JUDGED.includes(one["predicate"] as string)) ? [] : guardedBy ?? [];
  const listed = decision["predicates"] as string[];
  if (listed.length !== judged.length || listed.some((id, at) => id !== judged[at])) return refused("decision.predicates");
  return { accepted: true, verdict: decision["verdict"] as Verdict, decision, error: null };
}

/** The result of OPA's answer, or the error that it is instead. */
export function resultOf(answer: Answer): { value: Json } | string {
  if (answer.status === 401 || answer.status === 403) return "engine.refused";
  if (answer.status === 500) return "engine.evaluation";
  if (answer.status !== 200) return "engine.status";
  let document: Json;
  try {
    document = parse(answer.body);
  } catch (error) {
    if (error instanceof NotJson) return "engine.answer";
    throw error;
  }
  if (!isObject(document)) return "engine.answer";
  return Object.hasOwn(document, "result") ? { value: document["result"] as Json } : "engine.undefined";
}

/** Whether the verdict is that of the worst finding in force, the gate's own all are in force, and none is made up. */
function agrees(decision: JsonObject): boolean {
  const findings = findingsOf(decision);
  const inForce = findings.filter((one) => one["mode"] === "enforce");
  const worst = Math.max(0, ...inForce.map((one) => RANK[one["verdict"] as string] as number));
  const known = [...(decision["predicates"] as string[]), ...OWN];
  return (
    RANK[decision["verdict"] as string] === worst &&
    findings.every((one) => known.includes(one["predicate"] as string)) &&
    findings.every((one) => one["mode"] === "enforce" || !OWN.includes(one["predicate"] as string))
  );
}

/** Whether every obligation is of one violated finding of its own, and exactly what is lifted has one with a grant. */
function isObliged(decision: JsonObject): boolean {
  const obligations = decision["obligations"] as JsonObject[];
  const lifted = findingsOf(decision).filter((one) => one["mode"] === "lifted").map((one) => one["predicate"]);
  const asked = obligations.map((one) => one["predicate"]);
  return (
    new Set(asked).size === asked.length &&
    lifted.every((id) => asked.includes(id)) &&
    obligations.every((one) => !OWN.includes(one["predicate"] as string) && isFound(one, findingsOf(decision)))
  );
}

function isFound(obligation: JsonObject, findings: JsonObject[]): boolean {
  const mode = obligation["grant"] === null ? "enforce" : "lifted";
  return findings.some(
    (one) => one["predicate"] === obligation["predicate"] && one["status"] === "violated" && one["mode"] === mode,
  );
}

/** Whether what is lifted is lifted by a grant that was given, of that kind and for that predicate. */
function isGranted(decision: JsonObject, given: JsonObject[]): boolean {
  const fulfilled = (decision["obligations"] as JsonObject[]).filter((one) => one["grant"] !== null);
  return fulfilled.every((one) =>
    given.some(
      (grant) =>
        grant["id"] === one["grant"] &&
        grant["kind"] === one["kind"] &&
        (grant["predicates"] as string[]).includes(one["predicate"] as string),
    ),
  );
}

function findingsOf(decision: JsonObject): JsonObject[] {
  return decision["findings"] as JsonObject[];
}

// The decision's closed schema (schemas/decision.schema.json) ------------------------------------------------------

export type Check = (value: Json) => boolean;

const text: Check = (value) => typeof value === "string";
export const name: Check = (value) => typeof value === "string" && value.length > 0;
const truth: Check = (value) => typeof value === "boolean";
const count: Check = (value) => Number.isInteger(value) && (value as number) >= 0 && (value as number) <= 1_000_000_000;
export const one = (...choices: Json[]): Check => (value) => choices.includes(value);
const orNull = (inner: Check): Check => (value) => value === null || inner(value);
export const list = (inner: Check, least = 0): Check => (value) => Array.isArray(value) && value.length >= least && value.every(inner);

export function closed(fields: Record<string, Check>): Check {
  const names = Object.keys(fields);
  return (value) =>
    isObject(value) &&
    Object.keys(value).length === names.length &&
    names.every((key) => Object.hasOwn(value, key) && (fields[key] as Check)(value[key] as Json));
}

const path = list(text, 1);
const decisionSchema = closed({
  contract: one("ledgeragent.decision/1"),
  request: text,
  verdict: one("allow", "revise", "block"),
  findings: list(
    closed({
      predicate: name,
      status: one("violated", "unknown"),
      verdict: one("revise", "block"),
      mode: one("enforce", "shadow", "lifted"),
      message: text,
      paths: list(path),
      missing: list(closed({ path, cause: one("missing", "stale") })),
    }),
  ),
  predicates: list(name),
  overrides: list(
    closed({ target: name, mode: text, verdict: text, owner: text, reason: text, expires: text, applied: truth }),
  ),
  obligations: list(
    closed({ kind: one("approval", "user_confirmation"), predicate: name, approvers: orNull(list(name)), grant: orNull(name) }),
  ),
  policy: closed({
    revision: name,
    gate: name,
    sequence: closed({ domain: count, gate: count, overrides: count, floor: count, freeze: count }),
  }),
});

function isDecision(value: Json): value is JsonObject {
  return decisionSchema(value);
}
