// Facts, what writes made stale, and the slice of them that a decision is given.
//
// Which returns may become facts (declared reads, each issued by this session and answered once, checked against the
// ledger schema) is not done here: docs/http-contract.md lists it.

import { byCodePoint, isObject, type Json, type JsonObject } from "./json.ts";
import { ANY, fill, fillWidely, isPrefix, member, type Path, type Pattern, type Scope } from "./paths.ts";

export interface Slice {
  ledger: JsonObject;
  stale: Path[];
}

export class Ledger {
  readonly #depths: Record<string, number>;
  readonly #facts: JsonObject;
  readonly #marks: Pattern[] = [];

  /** `depths`: how many keys lead to a record, by the first key. `facts`: whole records under their paths. */
  constructor(depths: Record<string, number>, facts: JsonObject) {
    this.#depths = depths;
    this.#facts = facts;
  }

  /** A write was admitted: what it `changes` is stale from now on. */
  mark(changes: Path[], args: Json, principal: string | null): void {
    const scope = this.#scope(args, principal);
    this.#marks.push(...changes.flatMap((template) => fillWidely(template, scope)));
  }

  /** What a call of a tool that `needs` these paths is decided on. */
  slice(needs: Path[], args: Json, principal: string | null): Slice {
    const scope = this.#scope(args, principal);
    const wanted = needs.flatMap((template) => fill(template, scope)).flatMap((pattern) => this.#atHand(pattern));
    const taken: Path[] = [];
    const stale: Path[] = [];
    const ledger: JsonObject = {};
    for (const path of unique(wanted).sort((one, other) => one.length - other.length || byKeys(one, other))) {
      if (taken.some((above) => isPrefix(above, path))) continue;
      taken.push(path);
      const record = this.#recordOf(path);
      if (record === undefined) continue;
      const over = this.#staleIn(record);
      stale.push(...over.filter((one) => concerns(one, path)));
      placeKnown(ledger, path, record, this.#fresh(record, over));
    }
    return { ledger, stale: unique(stale).sort(byKeys) };
  }

  #scope(args: Json, principal: string | null): Scope {
    return { arguments: args, principal, lookup: (path) => this.#lookup(path) };
  }

  #lookup(path: Path): Json | undefined {
    const record = this.#recordOf(path);
    if (record === undefined) return undefined;
    return valueAt(this.#fresh(record, this.#staleIn(record)), path.slice(record.length));
  }

  /** The path of the record that a path lies in, if it was read. */
  #recordOf(path: Path): Path | undefined {
    const depth = this.#depth(path);
    if (depth === undefined || path.length < depth) return undefined;
    const record = path.slice(0, depth);
    return valueAt(this.#facts, record) === undefined ? undefined : record;
  }

  #depth(path: Path): number | undefined {
    const first = path[0];
    return first !== undefined && Object.hasOwn(this.#depths, first) ? this.#depths[first] : undefined;
  }

  /** A pattern with every `*` replaced by the keys that are there. */
  #atHand(pattern: Pattern): Path[] {
    const where = pattern.indexOf(ANY);
    if (where < 0) return [pattern as Path];
    const above = pattern.slice(0, where) as Path;
    const depth = this.#depth(above);
    if (depth === undefined) return [];
    const keys = Object.keys((valueAt(this.#facts, above) as JsonObject | undefined) ?? {});
    if (!isObject(valueAt(this.#facts, above)) || keys.length === 0) return above.length >= depth ? [above] : [];
    return keys.flatMap((key) => this.#atHand([...above, key, ...pattern.slice(where + 1)]));
  }

  #staleIn(record: Path): Path[] {
    const value = valueAt(this.#facts, record);
    const marks = this.#marks.filter((mark) => isPrefix(mark.slice(0, record.length), record));
    const found = unique(marks.flatMap((mark) => within(record, value, mark.slice(record.length))));
    return found.filter((one) => !found.some((other) => other.length < one.length && isPrefix(other, one)));
  }

  #fresh(record: Path, stale: Path[]): Json | undefined {
    const whole = valueAt(this.#facts, record);
    return stale.reduce<Json | undefined>((value, one) => without(value, one.slice(record.length)), whole);
  }
}

/** The stale paths that a pattern gives in a record: `*` stands for the keys it has. */
function within(path: Path, value: Json | undefined, rest: Pattern): Path[] {
  const [key, ...further] = rest;
  if (key === undefined) return [path];
  if (key !== ANY) return within([...path, key], member(value, key), further);
  return isObject(value) ? Object.keys(value).flatMap((one) => within([...path, one], value[one], further)) : [];
}

function without(value: Json | undefined, path: Path): Json | undefined {
  const [key, ...rest] = path;
  if (key === undefined) return undefined;
  const inner = member(value, key);
  if (inner === undefined) return value;
  const left = without(inner, rest);
  const others = Object.entries(value as JsonObject).filter(([name]) => name !== key);
  return Object.fromEntries(left === undefined ? others : [...others, [key, left]]);
}

/** Whether a stale path lies on, above or below a path; one that ends in `?` concerns all its neighbours. */
function concerns(stale: Path, path: Path): boolean {
  return isPrefix(path, stale) || isPrefix(stale.at(-1) === "?" ? stale.slice(0, -1) : stale, path);
}

/** Put what a record has under a path into the slice; where it lacks it, the containers above it. */
function placeKnown(slice: JsonObject, path: Path, record: Path, fresh: Json | undefined): void {
  if (fresh === undefined) return;
  let value = fresh;
  let reach = record.length;
  for (let inner = member(value, path[reach] ?? ""); reach < path.length && inner !== undefined; ) {
    value = inner;
    reach += 1;
    inner = member(value, path[reach] ?? "");
  }
  const whole = reach === path.length || !isObject(value);
  let node = slice;
  for (const key of path.slice(0, whole ? reach - 1 : reach)) node = child(node, key);
  if (whole) define(node, path[reach - 1] as string, value);
}

function child(node: JsonObject, key: string): JsonObject {
  const there = member(node, key);
  if (isObject(there)) return there;
  const made: JsonObject = {};
  define(node, key, made);
  return made;
}

function define(node: JsonObject, key: string, value: Json): void {
  Object.defineProperty(node, key, { value, enumerable: true, configurable: true, writable: true });
}

function valueAt(value: Json | undefined, path: Path): Json | undefined {
  return path.reduce<Json | undefined>((inner, key) => member(inner, key), value);
}

function unique(paths: Path[]): Path[] {
  return [...new Map(paths.map((path) => [JSON.stringify(path), path])).values()];
}

function byKeys(one: Path, other: Path): number {
  for (let at = 0; at < Math.min(one.length, other.length); at += 1) {
    const order = byCodePoint(one[at] as string, other[at] as string);
    if (order !== 0) return order;
  }
  return one.length - other.length;
}
