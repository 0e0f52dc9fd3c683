// A small agent behind a sidecar: node dist/agent.js SIDECAR_URL; SIDECAR_TOKEN in the environment.
//
// The model is a script and the shop a few lines, so that what is left is the loop: reads fill the ledger, writes go
// through the gate, what is refused goes back to the model as the call's result. Prints one JSON line per result.

import { Sidecar, type ProposedCall, type SidecarSession, type Tool } from "./sidecar.ts";

interface Message {
  role: "user" | "assistant" | "tool";
  content: string;
  calls?: ProposedCall[];
}

/** A chat model: the conversation and the ledger in, the next message out. */
type Model = (conversation: Message[], ledger: string) => Promise<Message> | Message;

/** The tools that only look; every other one is a write, for the sidecar too. */
type Reads = ReadonlySet<string>;

/** Let the model work until it says something without calling a tool. */
export async function turn(
  session: SidecarSession,
  model: Model,
  tools: Record<string, Tool>,
  reads: Reads,
  conversation: Message[],
  most = 16,
): Promise<string> {
  for (let generated = 0; generated < most; generated += 1) {
    const message = await model(conversation, await session.ledger());
    conversation.push(message);
    if (message.calls === undefined || message.calls.length === 0) return message.content;
    for (const content of await answers(session, message.calls, tools, reads)) {
      conversation.push({ role: "tool", content });
    }
  }
  return "I could not finish this; a colleague will take over.";
}

/** The result of each call of one message, in order. */
async function answers(
  session: SidecarSession,
  calls: ProposedCall[],
  tools: Record<string, Tool>,
  reads: Reads,
): Promise<string[]> {
  const given = new Map<ProposedCall, string>();
  const looking = calls.filter((call) => reads.has(call.tool));
  for (const [at, call] of looking.entries()) {
    given.set(call, await session.read(call, tools[call.tool] ?? unknownTool, at === 0));
  }
  const writes = calls.filter((call) => !reads.has(call.tool));
  const reviews = writes.length > 0 ? await session.review(writes, looking.length === 0) : [];
  for (const [at, call] of writes.entries()) {
    const review = reviews[at];
    if (review === undefined) throw new Error("a review is missing");
    // Only a ticket lets a write run; without one the model reads why.
    const ran = review.ticket === null ? review.message : await session.run(review, tools[call.tool] ?? unknownTool);
    given.set(call, ran);
    console.log(JSON.stringify({ tool: call.tool, verdict: review.verdict, result: ran }));
  }
  return calls.map((call) => given.get(call) as string);
}

function unknownTool(): string {
  throw new Error("there is no such tool");
}

// A shop and a script -----------------------------------------------------------------------------------------------

const order = {
  order_id: "#W4001",
  user_id: "ines_marchetti_4021",
  address: { address1: "", address2: "", city: "", country: "", state: "", zip: "" },
  items: [],
  status: "pending",
  payment_history: [],
};

const shop: Record<string, Tool> = {
  find_user_id_by_email: () => order.user_id,
  get_order_details: (args) => (args["order_id"] === order.order_id ? JSON.stringify(order) : "Error: no such order"),
  cancel_pending_order: (args) => {
    order.status = "cancelled";
    return `Order ${String(args["order_id"])} is cancelled.`;
  },
};
const looks: Reads = new Set(["find_user_id_by_email", "get_order_details"]);

const call = (tool: string, args: object, id: string): ProposedCall => ({
  tool,
  arguments: JSON.stringify(args),
  call_id: id,
});
const cancel = { order_id: order.order_id, reason: "no longer needed" };

const script: Message[] = [
  { role: "assistant", content: "", calls: [call("find_user_id_by_email", { email: "ines.marchetti@example.com" }, "1")] },
  { role: "assistant", content: "", calls: [call("cancel_pending_order", cancel, "2")] },
  { role: "assistant", content: "", calls: [call("get_order_details", { order_id: order.order_id }, "3")] },
  { role: "assistant", content: "", calls: [call("cancel_pending_order", cancel, "4")] },
  { role: "assistant", content: "", calls: [call("cancel_pending_order", cancel, "5")] },
  { role: "assistant", content: "Your order is cancelled." },
];

async function main(url: string): Promise<void> {
  const token = process.env["SIDECAR_TOKEN"];
  const sidecar = new Sidecar({ url, ...(token !== undefined && { token }) });
  const session = await sidecar.open("retail");
  const conversation: Message[] = [{ role: "user", content: "Cancel my order #W4001, I no longer need it." }];
  try {
    const said = await turn(session, () => script.shift() as Message, shop, looks, conversation);
    console.log(JSON.stringify({ said, ledger: await session.ledger() }));
  } finally {
    await session.close();
  }
}

const [url] = process.argv.slice(2);
if (url === undefined) {
  console.error("usage: node dist/agent.js SIDECAR_URL");
  process.exitCode = 2;
} else {
  await main(url);
}
