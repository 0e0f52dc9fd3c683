"use strict";
// Everything that comes from a recording reaches the document through `text`: as text nodes, never as markup.
(() => {
  const VERDICTS = ["block", "revise", "allow"];
  const CAUSES = { violated: "violated", missing: "never read", stale: "stale", error: "no decision" };
  const ROW = 64;
  const BUCKETS = 60; // at most; of few calls fewer, so that a bar is more than one call
  const PRINTED = 1000;
  const MASKED = /^\(masked\)$|^~[a-z2-7]{26}$/;

  const $ = (id) => document.getElementById(id);
  const number = (value) => value.toLocaleString("en-US");
  const plural = (count, one, many = one + "s") => `${number(count)} ${count === 1 ? one : many}`;
  const narrow = matchMedia("(max-width: 1180px)");

  function make(name, options = {}, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(options)) {
      if (value === null || value === undefined) continue;
      if (key === "class") element.className = value;
      else if (key === "on") for (const [event, run] of Object.entries(value)) element.addEventListener(event, run);
      else element.setAttribute(key, value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  }

  // Data ----------------------------------------------------------------------------------------------------------

  async function unpacked(id) {
    const text = atob($(id).textContent);
    const bytes = Uint8Array.from(text, (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  let index, entries, calls;
  const documents = new Map();

  function understood(packed) {
    const named = (at) => packed.strings[at];
    const [kind, id, title, domain, source, block, place, ids] = packed.entries;
    entries = kind.map((_, at) => ({
      at, kind: named(kind[at]), id: named(id[at]), title: named(title[at]), domain: named(domain[at]),
      source: named(source[at]), block: block[at], place: place[at], ids: ids[at], calls: [], searched: null,
    }));
    const [entry, step, tool, verdict, findings, time] = packed.calls;
    calls = entry.map((_, at) => ({
      at, entry: entries[entry[at]], step: step[at], tool: named(tool[at]), verdict: named(verdict[at]), time: time[at],
      findings: findings[at].map(([predicate, its, cause]) => (
        { predicate: named(predicate), verdict: named(its), cause: named(cause) })),
    }));
    for (const call of calls) call.entry.calls.push(call);
    index = packed;
  }

  async function documentOf(entry) {
    if (!documents.has(entry.block)) {
      if (documents.size > 40) documents.delete(documents.keys().next().value);
      documents.set(entry.block, unpacked(`block-${entry.block}`));
    }
    return (await documents.get(entry.block))[entry.place];
  }

  // Filters -------------------------------------------------------------------------------------------------------

  const filters = { words: "", verdicts: new Set(), tool: "", predicate: "", domain: "", from: null, to: null };

  const tests = {
    verdicts: (call) => filters.verdicts.size === 0 || filters.verdicts.has(call.verdict),
    tool: (call) => !filters.tool || call.tool === filters.tool,
    predicate: (call) => !filters.predicate || call.findings.some((one) => one.predicate === filters.predicate),
    span: (call) => filters.from === null || (placed(call) >= filters.from && placed(call) < filters.to),
  };
  let byTime = false;
  const placed = (call) => (byTime ? call.time : call.at);
  const aboutCalls = () => filters.verdicts.size > 0 || filters.tool || filters.predicate || filters.from !== null;
  const filtering = () => aboutCalls() || filters.words || filters.domain;
  const fits = (call, except) => Object.entries(tests).every(([name, test]) => name === except || test(call));

  function entryFits(entry) {
    if (filters.domain && entry.domain !== filters.domain) return false;
    if (!filters.words) return true;
    entry.searched ??= [entry.id, entry.title, entry.source, ...entry.ids.map((at) => index.strings[at])].join("\n").toLowerCase();
    return filters.words.split(/\s+/).every((word) => entry.searched.includes(word));
  }

  let found = [];
  let fitting = [];

  function apply() {
    fitting = entries.filter(entryFits);
    const only = aboutCalls();
    found = only ? fitting.filter((entry) => entry.calls.some((call) => fits(call))) : fitting;
    active = 0;
    showFilters();
    showCount();
    $("list").scrollTop = 0;
    showRows(true);
    if (!$("overview").hidden) showOverview();
  }

  const callsThatFit = (except) => fitting.flatMap((entry) => entry.calls.filter((call) => fits(call, except)));

  function counted(list, keys) {
    const counts = new Map();
    for (const call of list) for (const key of new Set(keys(call))) counts.set(key, (counts.get(key) ?? 0) + 1);
    return counts;
  }

  function showFilters() {
    const verdicts = counted(callsThatFit("verdicts"), (call) => [call.verdict]);
    for (const button of $("verdicts").children) {
      button.setAttribute("aria-pressed", String(filters.verdicts.has(button.dataset.verdict)));
      button.lastChild.textContent = number(verdicts.get(button.dataset.verdict) ?? 0);
    }
    fill($("tool"), "all tools", filters.tool, counted(callsThatFit("tool"), (call) => [call.tool]));
    fill($("predicate"), "all predicates", filters.predicate,
      counted(callsThatFit("predicate"), (call) => call.findings.map((one) => one.predicate)));
    $("domain").value = filters.domain;
    $("clear").hidden = !filtering();
    $("span").hidden = filters.from === null;
    if (filters.from !== null) {
      $("span").textContent = `${spanText(filters.from, filters.to)}  ×`;
      $("span").setAttribute("aria-label", `${spanText(filters.from, filters.to)}: remove this filter`);
    }
  }

  function fill(select, all, chosen, counts) {
    const names = [...counts.keys()].sort();
    if (chosen && !counts.has(chosen)) names.unshift(chosen);
    const options = names.map((name) => {
      const option = make("option", { value: name }, `${name} (${number(counts.get(name) ?? 0)})`);
      option.selected = name === chosen;
      return option;
    });
    select.replaceChildren(make("option", { value: "" }, all), ...options);
  }

  function showCount() {
    const shown = found.reduce((sum, entry) => sum + entry.calls.filter((call) => fits(call)).length, 0);
    const of = found.length === entries.length ? "" : ` of ${number(entries.length)}`;
    $("count").textContent = `${number(found.length)}${of} ${entries.length === 1 ? "conversation" : "conversations"}, ${plural(shown, "judged call")}`;
  }

  function toggle(name, value) {
    filters[name] = filters[name] === value ? "" : value;
    apply();
  }

  // The list ------------------------------------------------------------------------------------------------------

  let active = 0;
  let opened = null;
  let drawn = [-1, -1];

  function showRows(anew = false) {
    const list = $("list");
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
    const last = Math.min(found.length, Math.ceil((list.scrollTop + Math.max(list.clientHeight, 300)) / ROW) + 4);
    if (!anew && drawn[0] === first && drawn[1] === last) return;
    drawn = [first, last];
    $("rows").style.height = `${found.length * ROW}px`;
    $("rows").replaceChildren(...found.slice(first, last).map((entry, at) => row(entry, first + at)));
    if (found.length === 0) $("rows").append(make("p", { class: "none" }, "No conversation fits these filters."));
    if (found.length > active) list.setAttribute("aria-activedescendant", `row-${active}`);
    else list.removeAttribute("aria-activedescendant");
  }

  function row(entry, at) {
    const pills = VERDICTS.map((verdict) => [verdict, entry.calls.filter((call) => call.verdict === verdict)])
      .filter(([, some]) => some.length > 0)
      .map(([verdict, some]) => {
        const dim = aboutCalls() && !some.some((call) => fits(call));
        return make("span", { class: `pill ${verdict}${dim ? " dim" : ""}` }, `${some.length} ${verdict}`);
      });
    const element = make("div", {
      class: "row", title: plain(entry.title || entry.id), role: "option", id: `row-${at}`, "aria-selected": String(entry === opened),
      "aria-setsize": found.length, "aria-posinset": at + 1,
      on: { click: () => { active = at; open(entry); } },
    },
    make("span", { class: "name" }, words(entry.title || entry.id)),
    make("span", { class: "under" }, make("span", { class: "where" }, entry.domain, " · ", words(entry.title ? entry.id : entry.source)),
      make("span", { class: "pills" }, ...(pills.length ? pills : [make("span", { class: "pill none" }, "no write")]))));
    if (at === active) element.classList.add("active");
    element.style.top = `${at * ROW}px`;
    return element;
  }

  function moveTo(at) {
    const list = $("list");
    active = Math.max(0, Math.min(found.length - 1, at));
    if (active * ROW < list.scrollTop) list.scrollTop = active * ROW;
    else if ((active + 1) * ROW > list.scrollTop + list.clientHeight) list.scrollTop = (active + 1) * ROW - list.clientHeight;
    showRows(true);
  }

  function listKey(event) {
    const page = Math.max(1, Math.floor($("list").clientHeight / ROW) - 1);
    const targets = { ArrowDown: active + 1, ArrowUp: active - 1, PageDown: active + page, PageUp: active - page, Home: 0, End: found.length - 1 };
    if (event.key in targets) moveTo(targets[event.key]);
    else if ((event.key === "Enter" || event.key === " ") && found[active]) open(found[active]);
    else return;
    event.preventDefault();
  }

  // Values --------------------------------------------------------------------------------------------------------

  const BLANK = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
  // What does not print, or turns the direction of what follows, is shown as its number.
  const plain = (value) => String(value).replace(BLANK, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);

  function words(value) {
    return MASKED.test(value)
      ? make("span", { class: "masked", title: "hidden by redaction" }, value)
      : document.createTextNode(plain(value));
  }

  const dotted = (path) => path.join(".");
  const pathWords = (path) => make("code", { class: "path" }, ...path.flatMap((key, at) => (at ? [".", words(key)] : [words(key)])));

  function valueOf(value, path, marks) {
    const stale = marks.stale.get(JSON.stringify(path));
    const asked = marks.asked.has(JSON.stringify(path));
    const element = make("div", { class: `value${stale === undefined ? "" : " stale"}${asked ? " asked" : ""}` });
    if (value !== null && typeof value === "object" && Object.keys(value).length > 0) {
      const list = Array.isArray(value);
      element.append(make("dl", {}, ...Object.entries(value).flatMap(([key, inner]) => [
        make("dt", list ? { class: "element" } : {}, words(list ? `[${key}]` : key)),
        make("dd", {}, valueOf(inner, [...path, key], marks)),
      ])));
    } else element.append(scalar(value));
    if (stale !== undefined) element.prepend(make("span", { class: "tag stale" }, sinceText(stale)), " ");
    if (asked) element.prepend(make("span", { class: "hidden" }, "evidence: "));
    return element;
  }

  function scalar(value) {
    if (typeof value === "string") return make("span", { class: "text" }, value === "" ? "“”" : words(value));
    if (value !== null && typeof value === "object") return make("span", { class: "empty" }, Array.isArray(value) ? "empty list" : "empty object");
    return make("span", { class: "plain-value" }, value === null ? "null" : String(value));
  }

  function pretty(text) {
    try {
      const value = JSON.parse(text);
      if (value !== null && typeof value === "object") return JSON.stringify(value, null, 2);
    } catch { /* it is no JSON: shown as it is */ }
    return text;
  }

  function callWords(tool, args) {
    const inner = args !== null && typeof args === "object" && !Array.isArray(args)
      ? Object.entries(args).flatMap(([key, value], at) => [at ? ", " : "", make("span", { class: "key" }, words(key)), "=", argument(value)])
      : [argument(args)];
    return make("code", { class: "call" }, make("b", {}, words(tool)), "(", ...inner, ")");
  }

  const argument = (value) => (typeof value === "string" && MASKED.test(value)
    ? words(value) : make("span", { class: "given" }, plain(JSON.stringify(value))));

  // One conversation ----------------------------------------------------------------------------------------------

  let current = null;

  async function open(entry, step = null) {
    opened = entry;
    showRows(true);
    const own = await documentOf(entry);
    if (opened !== entry) return;
    current = { entry, steps: own.steps, own, step: null };
    $("overview").hidden = true;
    $("detail").hidden = false;
    document.body.classList.add("reading");
    showDetail();
    const shown = step ?? firstStep(entry);
    $("detail").scrollTop = 0;
    scrollTo(0, 0);
    await select(shown, true);
    $("detail").querySelector("h2").focus({ preventScroll: true });
    history.replaceState(null, "", `#${entry.at + 1}.${shown + 1}`);
  }

  function firstStep(entry) {
    const fit = aboutCalls() ? entry.calls.find((call) => fits(call)) : null;
    const worst = entry.calls.find((call) => call.verdict === "block") ?? entry.calls.find((call) => call.verdict !== "allow");
    return (fit ?? worst ?? entry.calls[0])?.step ?? 0;
  }

  function close() {
    opened = current = null;
    $("detail").hidden = true;
    $("overview").hidden = false;
    document.body.classList.remove("reading");
    showRows(true);
    showOverview();
    history.replaceState(null, "", "#");
    $("list").focus({ preventScroll: true });
  }

  function showDetail() {
    const { entry, own, steps } = current;
    const calls = entry.calls.map((call) => make("button", {
      type: "button", class: `jump ${call.verdict}`, "aria-label": `Step ${call.step + 1}: ${call.tool}, ${call.verdict}`,
      on: { click: () => select(call.step, true) },
    }, `${call.step + 1} ${call.verdict}`));
    const ledger = make("section", { id: "ledger", class: "ledger", "aria-label": "Ledger" });
    const timeline = make("ol", { id: "timeline", class: "timeline", "aria-label": "Steps" },
      ...steps.map((step, at) => stepItem(step, at)));
    timeline.addEventListener("keydown", stepKey);
    $("detail").replaceChildren(
      make("div", { class: "head" },
        make("button", { type: "button", class: "plain back", on: { click: close } }, "← Overview"),
        make("h2", { tabindex: "-1" }, words(entry.title || entry.id)),
        make("p", { class: "facts" }, ...aboutEntry(entry, own)),
        redactionNote(steps),
        make("div", { class: "jumps", role: "group", "aria-label": "Judged calls" }, ...calls)),
      make("div", { class: "columns" }, timeline, ledger));
  }

  function aboutEntry(entry, own) {
    const first = own.steps.find((step) => step.kind === "write") ?? {};
    const policy = own.policy ?? first.policy;
    const parts = [
      ["id", words(entry.id)], ["domain", entry.domain], ["from", words(entry.source)],
      ["clock", own.now ?? first.now], ["reward", own.reward], ["principal", own.principal ? words(own.principal) : null],
      ["engine", own.engine ?? first.engine],
      ["policies", policy?.revision ? make("code", { title: `${policy.revision}, gate ${policy.gate}` }, policy.revision.slice(0, 19)) : null],
    ];
    return parts.filter(([, value]) => value !== null && value !== undefined)
      .map(([name, value]) => make("span", {}, make("i", {}, name), " ", value instanceof Node ? value : plain(value)));
  }

  function redactionNote(steps) {
    const redacted = steps.find((step) => step.redacted)?.redacted;
    if (redacted === undefined) return null;
    const forms = { redacted: "What may not be logged is masked.", pseudonyms: "Texts that may not be logged are replaced by stand-ins.", encrypted: "What may not be logged is masked; the original was sealed (ledgeragent records open)." };
    const again = { exactly: "It can be judged again exactly.", by_equality: "It can be judged again where rules only compare texts with each other.", when_opened: "It can be judged again once opened.", no: "It cannot be judged again." };
    const places = new Map();
    for (const step of steps) {
      for (const path of step.redacted?.masked ?? []) places.set(dotted(path), "masked");
      for (const path of step.redacted?.pseudonyms ?? []) places.set(dotted(path), "stand-in");
    }
    return make("details", { class: "note" },
      make("summary", {}, `Redacted records: ${forms[redacted.form]} ${again[redacted.judged_again]}`),
      make("ul", {}, ...[...places].sort().map(([place, what]) => make("li", {}, make("code", {}, plain(place)), ` ${what}`))));
  }

  const NAMES = { said: "says", read: "read", write: "write", other: "return" };

  function stepItem(step, at) {
    const head = make("button", { type: "button", class: "step-head", tabindex: "-1", on: { click: () => select(at) } },
      make("span", { class: "at" }, String(at + 1)), ...stepTitle(step));
    return make("li", { class: `step ${step.kind} ${step.verdict ?? ""}`, id: `step-${at}` }, head, make("div", { class: "body" }, ...stepBody(step, at)));
  }

  function stepTitle(step) {
    if (step.kind === "said") return [make("span", { class: "who" }, step.who)];
    if (step.kind === "other") return [make("span", { class: "who" }, "a return that answers no call: not taken")];
    const kind = step.by ? `${step.by}'s own call` : NAMES[step.kind];
    return [make("span", { class: "who" }, kind), callWords(step.tool, step.arguments),
      step.verdict ? make("span", { class: `badge ${step.verdict}` }, step.verdict) : null,
      step.enforced === false ? make("span", { class: "tag" }, "shadow: not held back") : null].filter(Boolean);
  }

  function stepBody(step, at) {
    if (step.kind === "said") return [make("p", { class: "words" }, words(step.text))];
    const parts = [];
    if (step.problem) parts.push(make("p", { class: "bad" }, "not taken: ", words(step.problem)));
    if (step.failure) parts.push(failureItem(step.failure));
    for (const finding of step.findings ?? []) parts.push(findingItem(finding, at));
    if (step.reads?.length) {
      parts.push(make("p", { class: "asks" }, "It asks for ", ...step.reads.flatMap(([tool, args, ask], one) => [
        one ? ", " : "", callWords(tool, args), ask.length ? ` with ${ask.join(", ")} from the user` : ""])));
    }
    if (step.kind === "write" && step.verdict === "allow" && !step.findings.length) parts.push(make("p", { class: "fine" }, "Every predicate that guards it holds."));
    if (step.outcome) parts.push(make("p", { class: "became" }, current.entry.kind === "session" ? "what became of it: " : "recorded without the gate: ", make("b", {}, step.outcome)));
    if (step.failed && !step.outcome) parts.push(make("p", { class: "bad" }, "The tool says that it failed."));
    for (const [path, why] of step.kept_out ?? []) parts.push(make("p", { class: "bad" }, "not a fact: ", words(path), ": ", words(why)));
    parts.push(...changesOf(step));
    if (step.returned !== undefined) parts.push(folded("What the tool returned", () => [make("pre", {}, words(pretty(step.returned)))]));
    if (step.request) parts.push(folded("The decision in full", () => [decisionList(step)]));
    return parts;
  }

  function folded(title, content) {
    const element = make("details", {}, make("summary", {}, title));
    element.addEventListener("toggle", () => { if (element.childElementCount === 1) element.append(...content()); });
    element.unfold = () => { if (element.childElementCount === 1) element.append(...content()); element.open = true; };
    return element;
  }

  function failureItem([code, message]) {
    return make("div", { class: "finding block" }, make("p", { class: "rule" }, make("code", {}, code), make("span", { class: "cause" }, "no decision, so it is blocked")),
      message ? make("p", { class: "message" }, words(message)) : null);
  }

  function findingItem(finding, at) {
    const rule = index.rules[finding.predicate];
    const missing = finding.missing.map(([path, cause]) => make("li", {}, factButton(path, at), ` ${CAUSES[cause] === "stale" ? staleWords(path, at) : "was never read"}`));
    const known = new Set(finding.missing.map(([path]) => dotted(path)));
    const evidence = finding.paths.filter((path) => !known.has(dotted(path)));
    return make("div", { class: `finding ${finding.verdict}` },
      make("p", { class: "rule" }, make("code", {}, finding.predicate), make("span", { class: `cause ${finding.verdict}` }, `${finding.verdict}: ${CAUSES[finding.cause]}`),
        finding.mode === "shadow" ? make("span", { class: "tag" }, "in shadow") : null,
        finding.consent ? make("span", { class: "tag" }, words(finding.consent)) : null),
      rule ? make("p", { class: "title" }, rule.title) : null,
      make("p", { class: "message" }, words(finding.message)),
      missing.length ? make("ul", { class: "missing" }, ...missing) : null,
      evidence.length ? make("p", { class: "evidence" }, "looked at ", ...evidence.flatMap((path, one) => [one ? " " : "", factButton(path, at)])) : null,
      rule ? folded("The rule and its remedy", () => [make("p", {}, rule.description), make("p", {}, make("b", {}, "Remedy: "), rule.remedy)]) : null);
  }

  const factButton = (path, at) => make("button", { type: "button", class: "fact", on: { click: () => showFact(path, at) } }, pathWords(path));

  function staleWords(path, at) {
    for (const record of ledgerAt(at).values()) {
      for (const [one, since] of record.stale) if (overlap(one, path)) return `is ${sinceText(since)}`;
    }
    return "is stale";
  }

  function sinceWhat(since) {
    const step = current.steps[since];
    return current.entry.kind === "conversation" && step?.kind === "write" ? ` (${plain(step.tool)})` : "";
  }

  const overlap = (one, other) => one.slice(0, other.length).every((key, at) => key === other[at] || key === "?");

  function changesOf(step) {
    const stored = (step.changes ?? []).filter((change) => change.read);
    const stale = (step.changes ?? []).flatMap((change) => (change.stale ?? []).map(([path]) => path));
    const fresh = (step.changes ?? []).filter((change) => !change.read && change.stale?.length === 0);
    return [
      stored.length ? changeLine("added", "ledger + ", stored.map((change) => change.path)) : null,
      step.kind === "write" && stale.length ? changeLine("aged", "made stale: ", stale) : null,
      fresh.length ? changeLine("added", "fresh again: ", fresh.map((change) => change.path)) : null,
      step.kind === "read" && step.returned !== undefined && !step.by && !stored.length && !step.problem ? make("p", { class: "same" }, "ledger unchanged") : null,
    ].filter(Boolean);
  }

  function changeLine(kind, label, paths) {
    const some = paths.slice(0, 6).flatMap((path, at) => [at ? ", " : "", pathWords(path)]);
    return make("p", { class: kind }, label, ...some, paths.length > 6 ? ` and ${number(paths.length - 6)} more` : "");
  }

  function decisionList(step) {
    const call = (one) => `${one.tool}(${JSON.stringify(one.arguments)})${one.outcome ? `: ${one.outcome}` : ""}`;
    const lists = { "earlier writes": step.history.map(call), "same message": step.siblings.map(call), overrides: step.overrides.map((one) => `${one.target}: ${one.mode || one.verdict || "changed"}, by ${one.owner} until ${one.expires}: ${one.reason}${one.applied ? "" : " (not applied)"}`) };
    const parts = { "request": step.request, "call id": step.call_id, "decided at": step.at, "session's clock": step.now, "turn": step.turn,
      "principal": step.principal ? `${step.principal.id} (${step.principal.source})` : "none", "earlier rejections": step.rejections,
      "policies": step.policy.revision || "none", "gate": step.policy.gate || "none", "engine": step.engine, "latency": `${step.latency_ms} ms` };
    const rows = [...Object.entries(parts), ...Object.entries(lists).flatMap(([name, all]) => all.map((one) => [name, one]))];
    return make("dl", { class: "full" }, ...rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, words(String(value)))]));
  }

  async function select(at, scroll = false) {
    const { steps, entry } = current;
    if (!steps.length) return;
    current.step = Math.max(0, Math.min(steps.length - 1, at));
    for (const item of $("timeline").children) {
      const own = item.id === `step-${current.step}`;
      item.classList.toggle("selected", own);
      item.firstChild.tabIndex = own ? 0 : -1;
      if (own) item.firstChild.setAttribute("aria-current", "step");
      else item.firstChild.removeAttribute("aria-current");
    }
    showLedger();
    history.replaceState(null, "", `#${entry.at + 1}.${current.step + 1}`);
    if (scroll) $(`step-${current.step}`).firstChild.scrollIntoView({ block: "nearest" });
  }

  function stepKey(event) {
    if (event.target.closest(".ledger") || !event.target.classList.contains("step-head")) return;
    const last = current.steps.length - 1;
    const targets = { ArrowDown: current.step + 1, ArrowUp: current.step - 1, Home: 0, End: last };
    if (!(event.key in targets)) return;
    event.preventDefault();
    select(targets[event.key]);
    $(`step-${current.step}`).firstChild.focus({ preventScroll: true });
    $(`step-${current.step}`).firstChild.scrollIntoView({ block: "nearest" });
  }

  // The ledger ----------------------------------------------------------------------------------------------------

  /** The records as a step met them: a judged call as the gate saw them, any other step as it left them. */
  function ledgerAt(at) {
    const own = current.steps[at];
    if (own.facts) return new Map(own.facts.map((fact) => [JSON.stringify(fact.path), { stale: [], ...fact }]));
    const ledger = new Map();
    const upto = own.kind === "write" ? at - 1 : at;
    for (const step of current.steps.slice(0, upto + 1)) {
      for (const change of step.changes ?? []) {
        const key = JSON.stringify(change.path);
        ledger.set(key, { ...ledger.get(key), stale: [], ...change });
      }
    }
    return ledger;
  }

  function showLedger(asked = null) {
    const at = current.step;
    const step = current.steps[at];
    const ledger = [...ledgerAt(at).values()];
    const saw = step.saw ? new Set(step.saw.map((path) => JSON.stringify(path))) : null;
    const evidence = new Set((asked ? [asked] : (step.findings ?? []).flatMap((finding) => finding.paths)).map((path) => JSON.stringify(path)));
    const lead = ledger.filter((record) => (saw ? saw.has(JSON.stringify(record.path)) : true));
    const rest = saw ? ledger.filter((record) => !saw.has(JSON.stringify(record.path))) : [];
    const changed = new Set(step.kind === "write" ? [] : (step.changes ?? []).map((change) => JSON.stringify(change.path)));
    const items = (some, opens) => some.map((record) => recordItem(record, evidence, changed, opens));
    const title = step.kind === "write" ? `What the gate saw at step ${at + 1}` : `Ledger after step ${at + 1}`;
    $("ledger").replaceChildren(...[
      make("h3", {}, title),
      make("p", { class: "sum" }, ledger.length ? `${plural(ledger.length, "record")}${saw ? `, ${number(lead.length)} of them this decision could look at` : ""}` : "Nothing has been read yet."),
      make("div", { class: "records" }, ...items(lead, true)),
      rest.length ? make("h4", {}, "The rest of the ledger") : null,
      rest.length ? make("div", { class: "records" }, ...items(rest, false)) : null,
    ].filter(Boolean));
    $("ledger").addEventListener("keydown", recordKey);
    placeLedger();
  }

  function recordItem(record, evidence, changed, opens) {
    const key = JSON.stringify(record.path);
    const marks = { stale: new Map(record.stale.map(([path, since]) => [JSON.stringify(path), since])), asked: evidence };
    const within = [...evidence].some((one) => overlap(record.path, JSON.parse(one)));
    const element = folded("", () => {
      const lines = [make("p", { class: "origin" }, ...origin(record))];
      for (const [path, since] of record.stale) {
        if (!("value" in record) || !inside(record.value, path.slice(record.path.length))) {
          lines.push(make("p", { class: "aged" }, pathWords(path), ` ${sinceText(since)}${"value" in record ? "" : "; its value was withheld from the decision"}`));
        }
      }
      if ("value" in record) lines.push(valueOf(record.value, record.path, marks));
      return lines;
    });
    element.className = "record";
    element.dataset.path = key;
    element.firstChild.append(pathWords(record.path),
      changed.has(key) ? make("span", { class: "tag new" }, record.read?.step === current.step ? "read here" : "changed") : "",
      record.stale.length ? make("span", { class: "tag stale" }, "stale") : "",
      within ? make("span", { class: "tag asked" }, "evidence") : "");
    if (opens && (within || changed.has(key) || record.stale.length > 0)) element.unfold();
    return element;
  }

  const inside = (value, path) => path.every((key) => {
    const there = value !== null && typeof value === "object" && Object.hasOwn(value, key);
    value = there ? value[key] : undefined;
    return there;
  });

  const sinceText = (since) => (current.entry.kind === "session"
    ? `stale, first seen so at step ${since + 1}` : `stale since step ${since + 1}${sinceWhat(since)}`);

  function origin(record) {
    const read = record.read;
    if (!read) return ["Where it was read is not on record."];
    const words_ = ["read by ", make("code", {}, words(read.tool))];
    if (read.step !== undefined) words_.push(" at ", make("button", { type: "button", class: "link", on: { click: () => { select(read.step, true); $(`step-${read.step}`).firstChild.focus({ preventScroll: true }); } } }, `step ${read.step + 1}`));
    if (read.call_id) words_.push(", call ", words(read.call_id));
    words_.push(`, turn ${read.turn}, ${read.at}`);
    for (const since of new Set(record.stale.map(([, one]) => one))) words_.push(make("span", { class: "aged" }, ` · ${sinceText(since)}`));
    return words_;
  }

  function recordKey(event) {
    if (event.target.tagName !== "SUMMARY" || !["ArrowDown", "ArrowUp"].includes(event.key)) return;
    const all = [...$("ledger").querySelectorAll("summary")].filter((one) => one.offsetParent !== null);
    const next = all[all.indexOf(event.target) + (event.key === "ArrowDown" ? 1 : -1)];
    if (next) next.focus();
    event.preventDefault();
  }

  function showFact(path, at) {
    if (current.step !== at) select(at);
    showLedger(path);
    const record = [...$("ledger").querySelectorAll(".record")].find((one) => overlap(JSON.parse(one.dataset.path), path));
    if (!record) {
      $("ledger").querySelector(".sum").append(make("span", { class: "aged", role: "status" }, " ", pathWords(path), " is not in it."));
      $("ledger").scrollIntoView({ block: "nearest" });
      return;
    }
    record.unfold();
    (record.querySelector(".value.asked") ?? record).scrollIntoView({ block: "center" });
    record.firstChild.focus({ preventScroll: true });
  }

  function placeLedger() {
    const home = narrow.matches ? $(`step-${current.step}`) : $("detail").querySelector(".columns");
    if ($("ledger").parentElement !== home) home.append($("ledger"));
  }

  // The overview --------------------------------------------------------------------------------------------------

  function showOverview() {
    const shown = callsThatFit();
    const tiles = VERDICTS.map((verdict) => tile(verdict, shown.filter((call) => call.verdict === verdict).length, shown.length));
    $("overview").replaceChildren(
      make("div", { class: "tiles" }, make("div", { class: "tile" }, make("b", {}, number(found.length)), make("span", {}, "conversations")),
        make("div", { class: "tile" }, make("b", {}, number(shown.length)), make("span", {}, "judged calls")), ...tiles),
      figure(byTime ? "Verdicts over time" : "Verdicts over the sequence of calls", byTime ? "By the host's clock. A bar filters." : "In the order of the files: these recordings do not say when. A bar filters.", sequence()),
      make("div", { class: "pair" },
        figure("Findings per predicate", "How many calls each predicate held back, and why. A row filters.", bars("predicate", predicateRows())),
        figure("Verdicts per tool", "A row filters.", bars("tool", toolRows()))),
      make("p", { class: "help" }, make("kbd", {}, "/"), " search  ", make("kbd", {}, "↑"), make("kbd", {}, "↓"), " move  ", make("kbd", {}, "Enter"), " open  ", make("kbd", {}, "Esc"), " back"));
  }

  const tile = (verdict, count, all) => make("div", { class: `tile ${verdict}` }, make("b", {}, number(count)), make("span", {}, `${verdict}${all ? `, ${(100 * count / all).toFixed(1)} %` : ""}`));

  const figure = (title, note, ...content) => make("figure", {}, make("figcaption", {}, make("h2", {}, title), make("span", {}, note)), ...content);

  function legend(parts) {
    return make("p", { class: "legend" }, ...parts.map(([kind, label]) => make("span", {}, make("i", { class: `swatch ${kind}`, "aria-hidden": "true" }), label)));
  }

  function spanText(from, to) {
    if (!byTime) return `calls ${number(from + 1)} to ${number(Math.min(to, calls.length))}`;
    const at = (time) => new Date(time).toISOString().slice(0, to - from < 7200000 ? 19 : 16).replace("T", " ");
    return `${at(from)} to ${at(to)}Z`;
  }

  function sequence() {
    const all = byTime ? calls.filter((call) => call.time !== null) : calls;
    if (!all.length) return make("p", { class: "none" }, "No judged call.");
    const start = byTime ? all.reduce((least, call) => Math.min(least, call.time), Infinity) : 0;
    const end = byTime ? all.reduce((most, call) => Math.max(most, call.time), 0) + 1 : calls.length;
    const width = Math.max(1, Math.ceil((end - start) / Math.min(BUCKETS, Math.max(12, Math.ceil(all.length / 3)))));
    const buckets = Array.from({ length: Math.ceil((end - start) / width) }, () => ({ block: 0, revise: 0, allow: 0 }));
    for (const call of callsThatFit("span")) if (placed(call) !== null) buckets[Math.floor((placed(call) - start) / width)][call.verdict] += 1;
    const most = Math.max(1, ...buckets.map((one) => one.block + one.revise + one.allow));
    const chart = make("div", { class: "sequence", role: "group", "aria-label": "Verdicts, in order; arrow keys move, Enter filters" }, ...buckets.map((bucket, at) => {
      const from = start + at * width;
      const chosen = filters.from === from;
      const button = make("button", {
        type: "button", class: "bucket", tabindex: at === 0 ? "0" : "-1", "aria-pressed": String(chosen),
        title: `${spanText(from, from + width)}: ${bucket.block} block, ${bucket.revise} revise, ${bucket.allow} allow`,
        "aria-label": `${spanText(from, from + width)}: ${bucket.block} block, ${bucket.revise} revise, ${bucket.allow} allow`,
        on: { click: () => { [filters.from, filters.to] = chosen ? [null, null] : [from, from + width]; apply(); } },
      }, ...["allow", "revise", "block"].map((verdict) => {
        const part = make("span", { class: verdict });
        part.style.height = `${100 * bucket[verdict] / most}%`;
        return part;
      }));
      return button;
    }));
    chart.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const next = step && chart.children[[...chart.children].indexOf(event.target) + step];
      if (!next) return;
      event.preventDefault();
      event.target.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
    return make("div", {}, legend(VERDICTS.map((verdict) => [verdict, verdict])),
      make("div", { class: "scaled" }, make("span", { class: "scale" }, number(most)), chart),
      make("p", { class: "axis" }, make("span", {}, byTime ? spanText(start, end).split(" to ")[0] + "Z" : "call 1"), make("span", {}, byTime ? spanText(start, end).split(" to ")[1] : `call ${number(calls.length)}`)));
  }

  function rowsOf(list, keys, kinds) {
    const rows = new Map();
    for (const call of list) {
      for (const [name, kind] of keys(call)) {
        if (!rows.has(name)) rows.set(name, { name, total: 0, parts: Object.fromEntries(kinds.map((one) => [one, 0])) });
        rows.get(name).parts[kind] += 1;
        rows.get(name).total += 1;
      }
    }
    return [...rows.values()].sort((one, other) => other.total - one.total || (one.name < other.name ? -1 : 1));
  }

  const KINDS = { "block": "block", "error": "block: no decision", "violated": "revise: violated", "missing": "revise: never read", "stale": "revise: stale" };

  function predicateRows() {
    const kind = (one) => (one.cause === "error" ? "error" : one.verdict === "block" ? "block" : one.cause);
    const rows = rowsOf(callsThatFit("predicate"), (call) => call.findings.map((one) => [one.predicate, kind(one)]), Object.keys(KINDS));
    const labels = Object.entries(KINDS).filter(([name]) => rows.some((one) => one.parts[name] > 0));
    return [rows, labels];
  }

  const toolRows = () => [rowsOf(callsThatFit("tool"), (call) => [[call.tool, call.verdict]], VERDICTS), VERDICTS.map((one) => [one, one])];

  function bars(name, [rows, labels]) {
    if (!rows.length) return make("p", { class: "none" }, "Nothing to count.");
    const most = rows[0].total;
    return make("div", {}, legend(labels), make("div", { class: "bars" }, ...rows.map((one) => {
      const said = labels.filter(([kind]) => one.parts[kind]).map(([kind, label]) => `${one.parts[kind]} ${label}`).join(", ");
      const bar = make("span", { class: "bar-of", "aria-hidden": "true" }, ...labels.filter(([kind]) => one.parts[kind] > 0).map(([kind]) => {
        const part = make("i", { class: `swatch ${kind}` });
        part.style.width = `${100 * one.parts[kind] / most}%`;
        return part;
      }));
      return make("button", { type: "button", class: "bar-row", "aria-pressed": String(filters[name] === one.name), "aria-label": `${plain(one.name)}: ${said}`, title: said, on: { click: () => toggle(name, one.name) } },
        make("span", { class: "label" }, words(one.name)), bar, make("span", { class: "total" }, number(one.total)));
    })));
  }

  // Printing ------------------------------------------------------------------------------------------------------

  function printed() {
    const rows = found.slice(0, PRINTED).map((entry, at) => row(entry, at));
    if (found.length > PRINTED) rows.push(make("p", { class: "none" }, `and ${number(found.length - PRINTED)} more: filter before printing`));
    if (!current) $("rows").replaceChildren(...rows);
  }

  // Start ---------------------------------------------------------------------------------------------------------

  function keys(event) {
    const typing = ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName);
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      $("search").focus();
      $("search").select();
    } else if (event.key === "Escape") {
      if (event.target === $("search")) {
        if ($("search").value) { $("search").value = filters.words = ""; apply(); } else $("list").focus();
      } else if (current) close();
      else if (filtering()) clear();
      else return;
      event.preventDefault();
    }
  }

  function clear() {
    Object.assign(filters, { words: "", verdicts: new Set(), tool: "", predicate: "", domain: "", from: null, to: null });
    $("search").value = "";
    apply();
  }

  function listen() {
    for (const verdict of VERDICTS) {
      const button = make("button", { type: "button", class: `toggle ${verdict}`, "data-verdict": verdict, "aria-pressed": "false", on: { click: () => {
        if (!filters.verdicts.delete(verdict)) filters.verdicts.add(verdict);
        apply();
      } } }, verdict, " ", make("span", { class: "n" }, ""));
      $("verdicts").append(button);
    }
    let waiting = 0;
    $("search").addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => { filters.words = $("search").value.trim().toLowerCase(); apply(); }, 80);
    });
    $("search").addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === "ArrowDown") { event.preventDefault(); $("list").focus(); } });
    for (const name of ["tool", "predicate", "domain"]) $(name).addEventListener("change", (event) => { filters[name] = event.target.value; apply(); });
    fill($("domain"), "all domains", "", counted(entries, (entry) => [entry.domain]));
    $("clear").addEventListener("click", clear);
    $("span").addEventListener("click", () => { filters.from = filters.to = null; apply(); });
    $("list").addEventListener("scroll", () => showRows());
    $("list").addEventListener("keydown", listKey);
    document.addEventListener("keydown", keys);
    addEventListener("resize", () => showRows());
    addEventListener("beforeprint", printed);
    addEventListener("afterprint", () => showRows(true));
    narrow.addEventListener("change", () => { if (current) placeLedger(); });
  }

  function showAbout() {
    const { about } = index;
    const some = about.files.slice(0, 4).join(", ") + (about.files.length > 4 ? ` and ${about.files.length - 4} more` : "");
    $("about").append(
      make("span", { class: about.masked ? "tag" : "tag warn" }, about.masked ? "redacted: allow-listed values only" : "holds personal data"),
      ` ${plural(entries.length, "conversation")} · ${plural(calls.length, "judged call")} · `, words(some), ` · made ${about.made.slice(0, 10)} by ledgeragent ${about.version}`);
  }

  async function start() {
    understood(await unpacked("index"));
    byTime = calls.length > 0 && calls.every((call) => call.time !== null);
    showAbout();
    listen();
    apply();
    const [, at, step] = /^#(\d+)\.(\d+)$/.exec(location.hash) ?? [];
    if (at && entries[at - 1]) await open(entries[at - 1], step - 1);
    document.documentElement.dataset.ready = String(Math.round(performance.now()));
  }

  start().catch((error) => {
    $("count").textContent = `This page could not be opened: ${error.message}`;
    throw error;
  });
})();
