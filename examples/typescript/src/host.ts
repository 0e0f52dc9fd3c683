// What a session remembers for its decisions: earlier writes, those of the same message, and rejected calls.

import { canonical, NotJson, parse, type Json, type JsonObject } from "./json.ts";
import type { Verdict } from "./accept.ts";

export type Outcome = "executed" | "refused" | "uncertain" | "withheld";

interface Write {
  callId: string;
  tool: string;
  arguments: Json;
  outcome: "pending" | "executed" | "uncertain";
  turn: number;
}

/** The arguments that are judged: parsed, or the text itself when it is not strict JSON (then it fits no tool). */
export function understood(text: string): Json {
  try {
    return parse(text);
  } catch (error) {
    if (error instanceof NotJson) return text;
    throw error;
  }
}

export class History {
  #turn = 0;
  #writes: Write[] = [];

  /** A new model message begins. */
  nextTurn(): number {
    this.#turn += 1;
    return this.#turn;
  }

  /** `history` and `siblings` of a call's gate input. */
  told(): { history: JsonObject[]; siblings: JsonObject[] } {
    const own = (write: Write): boolean => write.turn === this.#turn;
    const call = (write: Write): JsonObject => ({ tool: write.tool, arguments: write.arguments });
    return {
      history: this.#writes.filter((one) => !own(one)).map((one) => ({ ...call(one), outcome: one.outcome })),
      siblings: this.#writes.filter(own).map(call),
    };
  }

  /** A write was admitted: at once it is pending (and what it changes is stale, see Ledger.mark). */
  admit(callId: string, tool: string, args: Json): void {
    this.#writes.push({ callId, tool, arguments: args, outcome: "pending", turn: this.#turn });
  }

  /** What became of it. What did not happen is forgotten (and what it made stale is as it was). */
  report(callId: string, outcome: Outcome): void {
    const write = this.#writes.find((one) => one.callId === callId && one.outcome === "pending");
    if (write === undefined) throw new Error("no such write is pending");
    if (outcome === "refused" || outcome === "withheld") this.#writes = this.#writes.filter((one) => one !== write);
    else write.outcome = outcome;
  }
}

export class Rejections {
  readonly #counts = new Map<string, { ledger: string; count: number }>();

  /** How often this very call was rejected since the ledger last changed. `ledger`: a digest of values and stale paths. */
  of(tool: string, args: Json, ledger: string): number {
    const held = this.#counts.get(canonical([tool, args]));
    return held !== undefined && held.ledger === ledger ? held.count : 0;
  }

  /** After an accepted decision; an answer that was not accepted says nothing about the call. */
  note(tool: string, args: Json, ledger: string, verdict: Verdict): void {
    if (verdict === "allow") return;
    this.#counts.set(canonical([tool, args]), { ledger, count: this.of(tool, args, ledger) + 1 });
  }
}
