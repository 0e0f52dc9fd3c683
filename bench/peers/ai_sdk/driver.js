// @ai-sdk/policy-opa: the approval function that `opaPolicy` makes, over a server and over WebAssembly.
//
// The facts are in the runtime context. By default the policy is also sent the messages of the conversation, which hold
// the same reads again; the variants "…, facts alone" leave them out by `toInput`. Before anything is answered, one call
// goes through `generateText`, to see that the function is asked and obeyed there.

import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { generateText, jsonSchema, tool } from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import { httpPolicyClient, opaPolicy, wasmPolicyClient } from '@ai-sdk/policy-opa';

const [casesFile, policies] = process.argv.slice(2);
const cases = JSON.parse(readFileSync(casesFile, 'utf8'));
const clients = {
  server: httpPolicyClient({ url: process.env.OPA_URL }),
  wasm: await wasmPolicyClient({
    wasm: readFileSync(`${policies}/../policy.wasm`),
    data: JSON.parse(readFileSync(`${policies}/../data.json`, 'utf8')),
  }),
};
const path = 'agent/call/decision';
const toInput = ({ toolCall, runtimeContext }) => ({
  tool: { name: toolCall.toolName },
  args: toolCall.input,
  runtimeContext,
});
const approvals = {
  'server': opaPolicy({ client: clients.server, path }),
  'server, facts alone': opaPolicy({ client: clients.server, path, toInput }),
  'in process': opaPolicy({ client: clients.wasm, path }),
  'in process, facts alone': opaPolicy({ client: clients.wasm, path, toInput }),
};

function messagesOf(reads) {
  return reads.flatMap((read, number) => {
    const named = { toolCallId: `r${number}`, toolName: read.tool };
    return [
      { role: 'assistant', content: [{ type: 'tool-call', ...named, input: read.arguments }] },
      { role: 'tool', content: [{ type: 'tool-result', ...named, output: { type: 'json', value: read.content } }] },
    ];
  });
}

function prepare(variant, one) {
  const toolCall = { type: 'tool-call', toolCallId: 'c1', toolName: one.tool, input: one.arguments };
  const asked = { toolCall, tools: {}, toolsContext: {}, runtimeContext: one.state, messages: messagesOf(one.reads) };
  return () => approvals[variant](asked);
}

async function ranInGenerateText(one) {
  let ran = false;
  const call = { type: 'tool-call', toolCallId: 'c1', toolName: one.tool, input: JSON.stringify(one.arguments) };
  const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
  await generateText({
    model: new MockLanguageModelV4({
      doGenerate: async () => ({ content: [call], finishReason: { unified: 'tool-calls' }, usage, warnings: [] }),
    }),
    tools: {
      [one.tool]: tool({
        inputSchema: jsonSchema({ type: 'object' }),
        execute: async () => {
          ran = true;
          return 'done';
        },
      }),
    },
    toolApproval: approvals.server,
    runtimeContext: one.state,
    messages: [{ role: 'user', content: 'Another lamp, please.' }, ...messagesOf(one.reads)],
  });
  return ran;
}

for (const [name, wanted] of [['allowed@50', true], ['violated@50', false]]) {
  if ((await ranInGenerateText(cases[name])) !== wanted) throw new Error(`generateText does not obey the policy: ${name}`);
}

const { dependencies } = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8'));
const versions = { ...dependencies, node: process.versions.node };
const say = document => process.stdout.write(`${JSON.stringify(document)}\n`);
say({ versions });
const prepared = new Map();
for await (const line of createInterface({ input: process.stdin })) {
  const [variant, name] = JSON.parse(line);
  if (!prepared.has(line)) prepared.set(line, prepare(variant, cases[name]));
  const began = performance.now();
  const decision = await prepared.get(line)();
  const ms = performance.now() - began;
  say({ ms, allowed: decision.type === 'approved', said: `${decision.type}: ${decision.reason ?? ''}` });
}
