// Clients of two tenants, fresh queues and the expectations every suite shares.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import {
  CreateQueueCommand, GetQueueAttributesCommand, ReceiveMessageCommand, SQSClient, SendMessageCommand,
} from "@aws-sdk/client-sqs";

export const expected = JSON.parse(readFileSync(process.env.COMPAT_EXPECTATIONS, "utf8"));
export const createdByUse = process.env.COMPAT_BY_USE === "1";

// Far above any wake-up, far below the twenty seconds a poll would wait.
export const promptly = 5_000;

/** A client whose endpoint comes from the environment, as a user would set it; one attempt, so that no retry hides an error. */
export const clientOf = (accessKeyId, secretAccessKey) =>
  new SQSClient({ credentials: { accessKeyId, secretAccessKey }, maxAttempts: 1 });

export const sqs = clientOf(process.env.AWS_ACCESS_KEY_ID, process.env.AWS_SECRET_ACCESS_KEY);
export const secondClient = clientOf(process.env.AWS_ACCESS_KEY_ID, process.env.AWS_SECRET_ACCESS_KEY);
export const otherTenant = clientOf(process.env.OTHER_ACCESS_KEY_ID, process.env.OTHER_SECRET_ACCESS_KEY);

export const freshName = (suffix = "") => `q-${randomBytes(8).toString("hex")}${suffix}`;
export const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
export const bodies = (messages) => messages.map((message) => message.Body);

export async function create(Attributes = {}) {
  const QueueName = freshName(Attributes.FifoQueue === "true" ? ".fifo" : "");
  return (await sqs.send(new CreateQueueCommand({ QueueName, Attributes }))).QueueUrl;
}

export const createFifo = (attributes = {}) => create({ FifoQueue: "true", ...attributes });

export async function attribute(QueueUrl, name) {
  const answer = await sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: [name] }));
  return answer.Attributes?.[name];
}

export async function receive(QueueUrl, options = {}, client = sqs) {
  const answer = await client.send(
    new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 0, ...options }),
  );
  return answer.Messages ?? [];
}

/** Long polls until so many messages came. */
export async function receiveUntil(QueueUrl, number, options = {}, client = sqs) {
  const until = Date.now() + 20_000;
  const got = [];
  while (got.length < number && Date.now() < until) got.push(...(await receive(QueueUrl, { WaitTimeSeconds: 2, ...options }, client)));
  assert.equal(got.length, number, `messages: ${JSON.stringify(bodies(got))}`);
  return got;
}

let deduplicated = 0;

export async function sendGroup(QueueUrl, MessageGroupId, ...texts) {
  const answers = [];
  for (const MessageBody of texts) {
    const MessageDeduplicationId = `d${process.pid}-${deduplicated++}`;
    answers.push(await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody, MessageGroupId, MessageDeduplicationId })));
  }
  return answers;
}

/** Expects the error of that name in expectations.json, as this SDK raises it. */
export async function refused(promise, name) {
  const { shape, status, message } = expected.errors[name];
  await assert.rejects(promise, (error) => {
    assert.equal(error.name, shape);
    if (status) assert.equal(error.$metadata.httpStatusCode, status);
    if (message) assert.equal(error.message, message);
    assert.equal(error.$fault, "client");
    return true;
  });
}

/** A long poll of another client, begun once its request is on the way; `returned` fails if it does not return promptly. */
export async function waitingReceive(QueueUrl, options = {}) {
  const client = clientOf(process.env.AWS_ACCESS_KEY_ID, process.env.AWS_SECRET_ACCESS_KEY);
  const sent = new Promise((resolve) => {
    client.middlewareStack.add((next) => async (request) => { resolve(); return next(request); }, { step: "finalizeRequest", priority: "low" });
  });
  const poll = receive(QueueUrl, { WaitTimeSeconds: 20, ...options }, client);
  await sent;
  await wait(300); // lets the request arrive; a send that overtakes it would only make the test weaker
  return {
    async returned(within = promptly) {
      const late = wait(within).then(() => { throw new Error(`the receive still waits ${within} ms after a message came`); });
      late.catch(() => {});
      return Promise.race([poll, late]);
    },
  };
}

/** The attributes of expectations.json in this SDK's form. */
export const messageAttributes = () =>
  Object.fromEntries(Object.entries(expected.attributes).map(([name, { DataType, StringValue, BinaryBase64 }]) => [
    name, BinaryBase64 ? { DataType, BinaryValue: new Uint8Array(Buffer.from(BinaryBase64, "base64")) } : { DataType, StringValue },
  ]));
