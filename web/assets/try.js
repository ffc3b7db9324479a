// Two buttons that do what the program beside them does, in the visitor's own tenant. Nothing is sent before a click.

import { Refused, ask, clock } from "./service.js";
import { identifier } from "./tenant.js";

const QUEUE = "orders";
const box = document.querySelector("[data-try]");
const list = box?.querySelector("[data-happened]");
const KEEPS = 6;

if (box) {
  for (const program of document.querySelectorAll("[data-protocol=sqs] .program code")) markActs(program);
  const field = box.querySelector("#try-body");
  box.querySelector("[data-send]").addEventListener("click", act(async () => {
    const MessageBody = field.value;
    if (!MessageBody) return tell("A message needs at least one character.", true);
    const { MessageId } = await sqs("SendMessage", { QueueUrl: await queue(), MessageBody });
    done("send");
    tell(`Sent “${MessageBody}”. Its id is ${MessageId}.`);
  }));
  box.querySelector("[data-receive]").addEventListener("click", act(async () => {
    const QueueUrl = await queue();
    const { Messages = [] } = await sqs("ReceiveMessage", { QueueUrl, MaxNumberOfMessages: 1, WaitTimeSeconds: 1 });
    if (Messages.length === 0) return tell("Nothing to receive: the queue is empty, or another receiver has its messages.");
    await sqs("DeleteMessage", { QueueUrl, ReceiptHandle: Messages[0].ReceiptHandle });
    done("receive");
    tell(`Received “${Messages[0].Body}” and deleted it.`);
  }));
  // Enter in the field sends, as in any form.
  box.querySelector("form").addEventListener("submit", (event) => { event.preventDefault(); box.querySelector("[data-send]").click(); });
}

/** A call to the SQS front end, as an SDK makes it. The identifier is in a header, so that no log of addresses has it. */
function sqs(action, parameters) {
  const day = new Date().toISOString().slice(0, 10).replaceAll("-", "");
  return ask("/try/sqs", {
    method: "POST",
    headers: {
      "Content-Type": "application/x-amz-json-1.0",
      "X-Amz-Target": `AmazonSQS.${action}`,
      Authorization: `AWS4-HMAC-SHA256 Credential=${identifier()}/${day}/us-east-1/sqs/aws4_request, SignedHeaders=host, Signature=${"0".repeat(64)}`,
    },
    body: JSON.stringify(parameters),
  });
}

const queue = async () => (await sqs("CreateQueue", { QueueName: QUEUE })).QueueUrl;

function act(work) {
  return async ({ target }) => {
    target.disabled = true;
    try {
      await work();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      const name = (error.body?.__type ?? "").split("#").pop();
      tell(error.status === 429 ? "Refused: your address is banned for a while." : `Refused: ${name ? `${name}, ` : ""}${error.message}.`.replace(/\.\.$/, "."), true);
    } finally {
      target.disabled = false;
      target.focus();
    }
  };
}

function tell(text, bad = false) {
  const item = document.createElement("li");
  const time = document.createElement("time");
  time.textContent = clock(Date.now());
  const words = document.createElement("span");
  words.textContent = text;
  if (bad) words.className = "bad";
  item.append(time, words);
  list.prepend(item);
  while (list.children.length > KEEPS) list.lastChild.remove();
}

// --- the lines that do it -------------------------------------------------------------------------------------------

/** Wraps the statements that send, receive and delete, to show what a button stands for. */
function markActs(code) {
  let act = null, depth = 0;
  for (const line of lines(code)) {
    const text = line.textContent;
    if (!act && !/^\s*(import|"|using)\b/.test(text)) {
      if (/send[-_]?message/i.test(text)) act = "send";
      else if (/(receive|delete)[-_]?message/i.test(text)) act = "receive";
    }
    if (!act) continue;
    line.classList.add("act", act);
    for (const sign of text) depth += "({[".includes(sign) ? 1 : ")}]".includes(sign) ? -1 : 0;
    // A statement ends where its brackets close; the block that a loop opens is not part of it.
    if (depth <= (/\{\s*$/.test(text) ? 1 : 0)) { act = null; depth = 0; }
  }
}

/** The code's lines as elements; tokens never span lines. */
function lines(code) {
  const made = [];
  let line = null;
  const nodes = [...code.childNodes];
  code.replaceChildren();
  const add = (node) => {
    if (!line) { line = document.createElement("span"); made.push(line); code.append(line); }
    line.append(node);
  };
  for (const node of nodes) {
    if (node.nodeType !== Node.TEXT_NODE) { add(node); continue; }
    node.data.split("\n").forEach((part, index) => {
      if (index > 0) { line = null; code.append("\n"); }
      if (part) add(part);
    });
  }
  return made;
}

function done(name) {
  for (const line of document.querySelectorAll(".act")) line.classList.toggle("done", line.classList.contains(name));
}
