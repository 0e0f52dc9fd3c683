// Templates of ledger paths, as tools.json has them: keys in which placeholders stand for what is only known at run time.
//
//   {arguments.x}  {arguments.x[*].y}  {principal}  {ledger: orders.{arguments.order_id}.items[*].product_id}
//   *  every key at hand          ?  (last key) whatever is not there

import { isObject, type Json, type JsonObject } from "./json.ts";

export type Path = string[];

/** Stands for every key; no text, so that an id that reads `*` is not taken for it. */
export const ANY = Symbol("*");
export type Pattern = (string | typeof ANY)[];

export interface Scope {
  arguments: Json;
  principal: string | null;
  /** The fresh value under a path; undefined when it was not read, is not there, or is stale. */
  lookup: (path: Path) => Json | undefined;
}

type Part = string | { root: "arguments" | "principal" | "ledger"; steps: Step[] };
interface Step {
  name: string | Part[];
  spread: boolean;
}

/** Every pattern that a path template takes; nothing when a key cannot be filled in. */
export function fill(template: Path, scope: Scope): Pattern[] {
  return filled(template, scope, []);
}

/** Like `fill`, but a key that cannot be filled in stands for every key: for staleness, where more is safer. */
export function fillWidely(template: Path, scope: Scope): Pattern[] {
  return filled(template, scope, [ANY]);
}

function filled(template: Path, scope: Scope, otherwise: Pattern): Pattern[] {
  const choices = template.map((key): Pattern => {
    if (key === "*") return [ANY];
    const texts = values(parts(key), scope).filter((value) => typeof value === "string");
    return texts.length > 0 ? texts : otherwise;
  });
  return product(choices);
}

/** Whether a pattern equals or lies above a path. */
export function isPrefix(pattern: readonly (string | typeof ANY)[], path: readonly (string | typeof ANY)[]): boolean {
  return pattern.length <= path.length && pattern.every((key, at) => key === ANY || key === path[at]);
}

function values(template: Part[], scope: Scope): Json[] {
  const only = template[0];
  if (template.length === 1 && only !== undefined && typeof only !== "string") return placed(only, scope);
  const choices = template.map((part) => (typeof part === "string" ? [part] : placed(part, scope).filter(isText).map(String)));
  return product(choices).map((texts) => texts.join(""));
}

function isText(value: Json): boolean {
  return typeof value === "string" || (typeof value === "number" && Number.isInteger(value));
}

function placed(part: Exclude<Part, string>, scope: Scope): Json[] {
  if (part.root === "principal") return scope.principal === null ? [] : [scope.principal];
  if (part.root === "arguments") return below(scope.arguments, part.steps, scope);
  // A list inside a record is walked; the keys before the first one are looked up as one path.
  const first = part.steps.findIndex((step) => step.spread);
  const plain = first < 0 ? part.steps.length : first + 1;
  const paths = product(part.steps.slice(0, plain).map((step) => names(step, scope)));
  return paths.flatMap((path) => {
    const value = scope.lookup(path);
    if (value === undefined) return [];
    const items = first < 0 ? [value] : elements(value);
    return items.flatMap((item) => below(item, part.steps.slice(plain), scope));
  });
}

function below(value: Json, steps: Step[], scope: Scope): Json[] {
  const [step, ...rest] = steps;
  if (step === undefined) return [value];
  return names(step, scope).flatMap((name) => {
    const inner = step.name === "" ? value : member(value, name);
    if (inner === undefined) return [];
    return (step.spread ? elements(inner) : [inner]).flatMap((item) => below(item, rest, scope));
  });
}

function names(step: Step, scope: Scope): string[] {
  if (typeof step.name === "string") return [step.name];
  return values(step.name, scope).filter((value) => typeof value === "string");
}

function elements(value: Json): Json[] {
  if (Array.isArray(value)) return value;
  return isObject(value) ? Object.values(value) : [];
}

/** An own member of an object, else undefined. */
export function member(value: Json | undefined, name: string): Json | undefined {
  return isObject(value) && Object.hasOwn(value, name) ? (value as JsonObject)[name] : undefined;
}

/** Every way to take one of each. */
function product<T>(choices: T[][]): T[][] {
  return choices.reduce<T[][]>((sofar, next) => sofar.flatMap((row) => next.map((one) => [...row, one])), [[]]);
}

// Parsing ---------------------------------------------------------------------------------------------------------

function parts(source: string): Part[] {
  const found: Part[] = [];
  let at = 0;
  while (at < source.length) {
    const start = source.indexOf("{", at);
    if (start < 0) return [...found, source.slice(at)];
    if (start > at) found.push(source.slice(at, start));
    const end = closing(source, start);
    found.push(placeholder(source.slice(start + 1, end)));
    at = end + 1;
  }
  return source === "" ? [""] : found;
}

function closing(source: string, start: number): number {
  let depth = 0;
  for (let at = start; at < source.length; at += 1) {
    if (source[at] === "{") depth += 1;
    if (source[at] === "}") depth -= 1;
    if (depth === 0) return at;
  }
  throw new Error(`template ${source} has a { without its }`);
}

function placeholder(body: string): Exclude<Part, string> {
  if (body === "principal") return { root: "principal", steps: [] };
  if (body.startsWith("ledger:")) return { root: "ledger", steps: steps(body.slice("ledger:".length).trim()) };
  const rest = /^arguments(?:\.|(?=\[)|$)(.*)$/s.exec(body);
  if (rest === null) throw new Error(`template placeholder {${body}} must begin with arguments, principal or ledger:`);
  return { root: "arguments", steps: rest[1] ? steps(rest[1]) : [] };
}

function steps(text: string): Step[] {
  return split(text).map((one) => {
    const spread = one.endsWith("[*]");
    const name = spread ? one.slice(0, -"[*]".length) : one;
    return { name: name.includes("{") ? parts(name) : name, spread };
  });
}

/** Split at the dots outside braces. */
function split(text: string): string[] {
  const found = [""];
  let depth = 0;
  for (const sign of text) {
    if (sign === "{") depth += 1;
    if (sign === "}") depth -= 1;
    if (sign === "." && depth === 0) found.push("");
    else found[found.length - 1] += sign;
  }
  return found;
}
