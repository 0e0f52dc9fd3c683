// Strict JSON in, canonical JSON out.
//
// JSON.parse takes the last of two equal keys and rounds numbers that a double cannot hold; then what was judged is not
// what somebody else reads. Only what I-JSON (RFC 7493) allows is taken here.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

const MAX_DEPTH = 32;
const MAX_FLOAT = 1e15;
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const SPACE = /[ \t\r\n]*/y;
const LONE_SURROGATE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;

export class NotJson extends Error {}

/** Parse one JSON text; throws NotJson for everything that two readers could understand differently. */
export function parse(text: string): Json {
  const reader = new Reader(text);
  const value = reader.value(MAX_DEPTH);
  reader.end();
  return value;
}

class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  value(depth: number): Json {
    this.#take(SPACE);
    const sign = this.#text[this.#at];
    if (sign === "{") return this.#object(depth);
    if (sign === "[") return this.#array(depth);
    if (sign === '"') return this.#string();
    for (const [word, meant] of [["true", true], ["false", false], ["null", null]] as const) {
      if (this.#text.startsWith(word, this.#at)) {
        this.#at += word.length;
        return meant;
      }
    }
    return this.#number();
  }

  end(): void {
    this.#take(SPACE);
    if (this.#at !== this.#text.length) throw new NotJson(`something follows at ${this.#at}`);
  }

  #object(depth: number): JsonObject {
    const found = new Map<string, Json>();
    this.#members("}", depth, () => {
      this.#take(SPACE);
      const key = this.#string();
      if (found.has(key)) throw new NotJson(`a key twice in one object at ${this.#at}`);
      this.#take(SPACE);
      this.#expect(":");
      found.set(key, this.value(depth - 1));
    });
    return Object.fromEntries(found); // defines keys, so that "__proto__" is one like any other
  }

  #array(depth: number): Json[] {
    const found: Json[] = [];
    this.#members("]", depth, () => found.push(this.value(depth - 1)));
    return found;
  }

  #members(close: string, depth: number, member: () => void): void {
    if (depth === 0) throw new NotJson(`nested more than ${MAX_DEPTH} levels deep`);
    this.#at += 1;
    this.#take(SPACE);
    if (this.#text[this.#at] === close) {
      this.#at += 1;
      return;
    }
    for (;;) {
      member();
      this.#take(SPACE);
      if (this.#text[this.#at] === close) {
        this.#at += 1;
        return;
      }
      this.#expect(",");
    }
  }

  #string(): string {
    const value = JSON.parse(this.#take(STRING)) as string;
    if (LONE_SURROGATE.test(value)) throw new NotJson("a lone surrogate, which is not text");
    return value;
  }

  #number(): number {
    const literal = this.#take(NUMBER);
    const value = Number(literal);
    const whole = /^-?[0-9]+$/.test(literal);
    if (whole ? !Number.isSafeInteger(value) : !(Math.abs(value) <= MAX_FLOAT)) {
      throw new NotJson("a number that a double cannot hold, or that is too large");
    }
    return value;
  }

  #take(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text);
    if (found === null) throw new NotJson(`not JSON at ${this.#at}`);
    this.#at += found[0].length;
    return found[0];
  }

  #expect(sign: string): void {
    if (this.#text[this.#at] !== sign) throw new NotJson(`no ${sign} at ${this.#at}`);
    this.#at += 1;
  }
}

/** The one text of a value: sorted keys, no spaces, ASCII only. */
export function canonical(value: Json): string {
  return write(value).replace(/[^\x00-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function write(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(write).join(",")}]`;
  if (!isObject(value)) return JSON.stringify(value);
  const keys = Object.keys(value).sort(byCodePoint);
  return `{${keys.map((key) => `${JSON.stringify(key)}:${write(value[key] as Json)}`).join(",")}}`;
}

/** Whether a value is an object, and neither null nor an array. */
export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether two values are the same, whatever the order of their keys. */
export function same(one: Json, other: Json): boolean {
  return canonical(one) === canonical(other);
}

/** Order of texts by code points, as most languages but this one have it. */
export function byCodePoint(one: string, other: string): number {
  const left = [...one];
  const right = [...other];
  for (let at = 0; at < Math.min(left.length, right.length); at += 1) {
    const difference = (left[at] as string).codePointAt(0)! - (right[at] as string).codePointAt(0)!;
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}

/** SHA-256 of the canonical text, as `sha256:<hex>`. */
export async function digest(value: Json): Promise<string> {
  const bytes = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(canonical(value)));
  return `sha256:${[...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
