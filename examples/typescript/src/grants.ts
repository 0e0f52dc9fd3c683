// Which signed grants a host takes for a call: of its keys, for exactly this call and these facts, in force by both
// clocks, not used before. Policies check again what they can see; the rest only a host can.

import { createHmac, createPublicKey, timingSafeEqual, verify, type KeyObject } from "node:crypto";

import { closed, list, name, one, type Check } from "./accept.ts";
import { canonical, digest, isObject, same, type Json, type JsonObject } from "./json.ts";

const CONTRACT = "ledgeragent.grant/1";

export interface ApprovalKey {
  id: string;
  /** The only kind of grant that it may sign. */
  kind: "approval" | "user_confirmation";
  algorithm: "ed25519" | "hmac-sha256";
  /** Base64: the public key's 32 bytes, or the shared secret. */
  key: string;
  /** In whose names it may sign approvals. */
  approvers: string[];
}

export interface Approvals {
  keys: ApprovalKey[];
  /** Names that agents run under: none of them can consent. */
  agents: string[];
  maxSeconds: number;
  /** The wall clock, RFC 3339. */
  wall: () => string;
}

/** Whether a grant is taken for a call. `used`: ids that admitted a call before; keep them with the session. */
export async function takes(signed: Json, input: JsonObject, from: Approvals, used: ReadonlySet<string>): Promise<boolean> {
  if (!isSigned(signed)) return false;
  const grant = signed["grant"] as JsonObject;
  const key = from.keys.find((held) => held.id === signed["key"]);
  return (
    key !== undefined &&
    key.kind === grant["kind"] &&
    verifies(grant, signed["signature"] as string, key) &&
    isGivenBy(grant["approver"] as string, key, input, from.agents) &&
    isForThis(grant, input) &&
    grant["facts"] === (await factsDigest(input)) &&
    isInForce(grant, input, from) &&
    !used.has(grant["id"] as string)
  );
}

/** Digest of what a decision looks at besides the call: the slice, what is stale in it, and the earlier writes. */
export function factsDigest(input: JsonObject): Promise<string> {
  const earlier = [...(input["history"] as JsonObject[]), ...(input["siblings"] as JsonObject[])];
  const writes = earlier.map((write) => [write["tool"] as Json, write["arguments"] as Json]);
  return digest([input["ledger"] as Json, input["stale"] as Json, writes]);
}

/** The key says which algorithm it is for, never the grant. */
function verifies(grant: JsonObject, signature: string, key: ApprovalKey): boolean {
  const given = Buffer.from(signature, "base64");
  if (given.toString("base64") !== signature) return false;
  const text = Buffer.from(`${CONTRACT}\n${canonical(grant)}`, "ascii");
  const raw = Buffer.from(key.key, "base64");
  if (key.algorithm === "ed25519") return verify(null, text, publicKey(raw), given);
  const own = createHmac("sha256", raw).update(text).digest();
  return own.length === given.length && timingSafeEqual(own, given);
}

function publicKey(raw: Buffer): KeyObject {
  return createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x: raw.toString("base64url") }, format: "jwk" });
}

/** An approval is anybody's but the principal's, whom nobody else can confirm for; without one it is nobody's. */
function isGivenBy(approver: string, key: ApprovalKey, input: JsonObject, agents: string[]): boolean {
  const principal = (input["session"] as JsonObject)["principal"];
  if (!isObject(principal) || agents.includes(approver)) return false;
  if (key.kind === "user_confirmation") return approver === principal["id"];
  return key.approvers.includes(approver) && approver !== principal["id"];
}

function isForThis(grant: JsonObject, input: JsonObject): boolean {
  const action = input["action"] as JsonObject;
  return (
    grant["domain"] === input["domain"] &&
    grant["session"] === (input["session"] as JsonObject)["id"] &&
    grant["tool"] === action["tool"] &&
    same(grant["arguments"] as Json, action["arguments"] as Json)
  );
}

/** By the session's clock, which may stand still, and by the wall clock; and by neither for longer than is taken. */
function isInForce(grant: JsonObject, input: JsonObject, from: Approvals): boolean {
  const expires = grant["expires"] as JsonObject;
  const now = Date.parse((input["session"] as JsonObject)["now"] as string);
  const wall = Date.parse(from.wall());
  const issued = Date.parse(grant["issued"] as string);
  const session = Date.parse(expires["session"] as string);
  const host = Date.parse(expires["host"] as string);
  const most = from.maxSeconds * 1000;
  return issued <= now && now < session && wall < host && session - issued <= most && host - wall <= most;
}

// The closed schema of a signed grant (schemas/grant.schema.json) --------------------------------------------------

const instant: Check = (value) =>
  typeof value === "string" && /T.*(Z|[+-][0-9]{2}:[0-9]{2})$/.test(value) && !Number.isNaN(Date.parse(value));
const signedSchema = closed({
  contract: one(CONTRACT),
  grant: closed({
    id: name,
    kind: one("approval", "user_confirmation"),
    predicates: list(name, 1),
    domain: name,
    session: name,
    tool: name,
    arguments: isObject,
    facts: name,
    approver: name,
    issued: instant,
    expires: closed({ session: instant, host: instant }),
  }),
  key: name,
  signature: name,
});

function isSigned(value: Json): value is JsonObject {
  return signedSchema(value);
}
