// Runs the shared contract vectors: node dist/conformance.js SCHEMAS [OPA_URL]; OPA_TOKEN in the environment.
//
// Prints what was passed as JSON lines, and what failed; the exit status is 1 when something did.

import { readFile } from "node:fs/promises";
import { join } from "node:path";

import { accept, type Answer, type Revisions, type Verdict } from "./accept.ts";
import { takes, type ApprovalKey } from "./grants.ts";
import { History, Rejections, understood, type Outcome } from "./host.ts";
import { canonical, digest, parse, same, type Json, type JsonObject } from "./json.ts";
import { Ledger } from "./ledger.ts";
import { Gate, guards, type Vector } from "./opa.ts";
import type { Path } from "./paths.ts";

type Run = (vector: JsonObject) => boolean | Promise<boolean>;

const HOST: Record<string, Run> = {
  "ledgeragent.host-acceptance/1": (vector) => {
    const answer = vector["answer"] as unknown as Answer;
    const proved = [vector["proved"] as unknown as Revisions];
    const judged = accept(answer, vector["input"] as JsonObject, vector["guarded_by"] as string[] | null, proved);
    const { accepted, verdict, error } = judged;
    return same({ accepted, verdict, error }, { accepted: vector["accepted"]!, verdict: vector["verdict"]!, error: vector["error"]! });
  },
  "ledgeragent.host-slices/1": (vector) => {
    const principal = vector["principal"] as string | null;
    const ledger = new Ledger(vector["depths"] as Record<string, number>, vector["facts"] as JsonObject);
    for (const write of vector["changed"] as JsonObject[]) {
      ledger.mark(write["changes"] as Path[], write["arguments"] as Json, principal);
    }
    const slice = ledger.slice(vector["needs"] as Path[], vector["arguments"] as Json, principal);
    return same({ ledger: slice.ledger, stale: slice.stale }, { ledger: vector["ledger"]!, stale: vector["stale"]! });
  },
  "ledgeragent.host-histories/1": (vector) => {
    const history = new History();
    // The sessions of the vectors begin at turn 0, as this one does.
    return (vector["steps"] as JsonObject[]).every((step) => {
      if ("outcome" in step) {
        history.report(step["call_id"] as string, step["outcome"] as Outcome);
        return true;
      }
      const turn = history.nextTurn();
      return (
        turn === step["turn"] &&
        (step["calls"] as JsonObject[]).every((call) => {
          const told = history.told();
          if (call["verdict"] === "allow") {
            history.admit(call["call_id"] as string, call["tool"] as string, call["arguments"] as Json);
          }
          return same({ ...told }, { history: call["history"]!, siblings: call["siblings"]! });
        })
      );
    });
  },
  "ledgeragent.host-rejections/1": (vector) => {
    const rejections = new Rejections();
    return (vector["steps"] as JsonObject[]).every((step) => {
      const call = [step["tool"] as string, step["arguments"] as Json, step["ledger"] as string] as const;
      const count = rejections.of(...call);
      rejections.note(...call, step["verdict"] as Verdict);
      return count === step["rejections"];
    });
  },
  "ledgeragent.host-canonical/1": async (vector) => {
    const text = vector["text"] as string;
    const value = understood(text);
    if (vector["canonical"] === null) return value === text;
    return canonical(value) === vector["canonical"] && (await digest(value)) === vector["digest"];
  },
  "ledgeragent.host-grants/1": async (vector) => {
    const from = {
      keys: vector["keys"] as unknown as ApprovalKey[],
      agents: vector["agents"] as string[],
      maxSeconds: vector["max_seconds"] as number,
      wall: () => vector["wall"] as string,
    };
    const used = new Set(vector["used"] as string[]);
    return (await takes(vector["signed"] as Json, vector["input"] as JsonObject, from, used)) === vector["taken"];
  },
};

async function read(...parts: string[]): Promise<JsonObject> {
  return JSON.parse(await readFile(join(...parts), "utf8")) as JsonObject;
}

async function host(file: JsonObject): Promise<string[]> {
  const run = HOST[file["contract"] as string];
  if (run === undefined) return [`contract ${String(file["contract"])} is not known here`];
  const failed: string[] = [];
  for (const vector of file["vectors"] as JsonObject[]) {
    // A vector that throws fails like any other.
    const passed = await Promise.resolve(vector).then(run).catch(() => false);
    if (!passed) failed.push(vector["name"] as string);
  }
  return failed;
}

/** The proof of a domain, and then each vector's input for a decision that must be accepted. */
async function gate(schemas: string, url: string, domain: string, vectors: Vector[]): Promise<string[]> {
  const token = process.env["OPA_TOKEN"];
  const own = new Gate({
    url,
    domain,
    vectors,
    guardedBy: guards(await read(schemas, domain, "tools.json")),
    ...(token !== undefined && { token }),
  });
  const problem = await own.prove();
  if (problem !== null) return [`the proof: ${problem}`];
  const failed: string[] = [];
  for (const vector of vectors) {
    if (typeof vector.input["request"] !== "string") continue; // malformed on purpose: no host sends it
    const request = crypto.randomUUID();
    const judged = await own.judge({ ...vector.input, request });
    if (!judged.accepted || judged.verdict !== vector.decision["verdict"]) failed.push(vector.name);
  }
  return failed;
}

async function main(schemas: string, url: string | undefined): Promise<number> {
  const index = await read(schemas, "vectors", "index.json");
  let status = 0;
  for (const row of index["files"] as JsonObject[]) {
    const file = parse(await readFile(join(schemas, "vectors", row["file"] as string), "utf8")) as JsonObject;
    const isHost = row["kind"] === "host";
    if (!isHost && url === undefined) continue;
    const failed = isHost
      ? await host(file)
      : await gate(schemas, url as string, row["domain"] as string, file["vectors"] as unknown as Vector[]);
    status = failed.length > 0 ? 1 : status;
    console.log(JSON.stringify({ file: row["file"], vectors: (file["vectors"] as Json[]).length, failed }));
  }
  return status;
}

const [schemas, url] = process.argv.slice(2);
if (schemas === undefined) {
  console.error("usage: node dist/conformance.js SCHEMAS [OPA_URL]");
  process.exitCode = 2;
} else {
  process.exitCode = await main(schemas, url);
}
