// The consumer library's own loop: it polls, hands over, deletes, prolongs and gives back.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
  CreateQueueCommand, GetQueueAttributesCommand, ReceiveMessageCommand, SQSClient, SendMessageCommand,
} from "@aws-sdk/client-sqs";
import { Consumer } from "sqs-consumer";
import { Producer } from "sqs-producer";

const expected = JSON.parse(readFileSync(process.env.COMPAT_EXPECTATIONS, "utf8"));
const clientOf = (accessKeyId, secretAccessKey) => new SQSClient({ credentials: { accessKeyId, secretAccessKey }, maxAttempts: 1 });
const sqs = clientOf(process.env.AWS_ACCESS_KEY_ID, process.env.AWS_SECRET_ACCESS_KEY);
const otherTenant = clientOf(process.env.OTHER_ACCESS_KEY_ID, process.env.OTHER_SECRET_ACCESS_KEY);
const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function create(Attributes = {}) {
  const QueueName = `q-${randomBytes(8).toString("hex")}${Attributes.FifoQueue ? ".fifo" : ""}`;
  return (await sqs.send(new CreateQueueCommand({ QueueName, Attributes }))).QueueUrl;
}

const send = (QueueUrl, MessageBody, options = {}) => sqs.send(new SendMessageCommand({ QueueUrl, MessageBody, ...options }));

async function counts(QueueUrl) {
  const { Attributes } = await sqs.send(new GetQueueAttributesCommand({
    QueueUrl, AttributeNames: ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"] }));
  return Object.values(Attributes).map(Number).reduce((a, b) => a + b, 0);
}

/** The consumer deletes after its handler returned, so the count may take a moment. */
async function emptied(QueueUrl) {
  const until = Date.now() + 5_000;
  while ((await counts(QueueUrl)) > 0) {
    assert.ok(Date.now() < until, "messages are left");
    await wait(50);
  }
}

/** Runs a consumer until `done(handled)` holds, then stops it; fails after twenty seconds or on an error of its client. */
async function consume(queueUrl, handler, done, options = {}) {
  const handled = [];
  let failure;
  const consumer = Consumer.create({
    queueUrl, sqs, waitTimeSeconds: 2,
    handleMessage: async (message) => { handled.push(message); await handler?.(message, handled.length); return message; },
    ...options,
  });
  consumer.on("error", (error) => { failure = error; });
  consumer.on("processing_error", () => {});
  consumer.start();
  const until = Date.now() + 20_000;
  while (!failure && !done(handled) && Date.now() < until) await wait(20);
  const stopped = new Promise((resolve) => consumer.once("stopped", resolve));
  consumer.stop();
  await stopped;
  if (failure) throw failure;
  assert.ok(done(handled), `handled ${JSON.stringify(handled.map((message) => message.Body))}`);
  return handled;
}

test("what was handled is deleted", async () => {
  const queueUrl = await create();
  for (const { body } of Object.values(expected.bodies)) await send(queueUrl, body);
  const texts = Object.values(expected.bodies).map(({ body }) => body).sort();
  const handled = await consume(queueUrl, null, (all) => all.length === texts.length, { batchSize: 10 });
  assert.deepEqual(handled.map((message) => message.Body).sort(), texts);
  await emptied(queueUrl);
});

test("a message sent while the consumer waits is handled promptly", async () => {
  const queueUrl = await create();
  let began;
  setTimeout(() => { began = Date.now(); send(queueUrl, "later"); }, 1_000);
  await consume(queueUrl, null, (all) => all.length === 1, { waitTimeSeconds: 20 });
  assert.ok(Date.now() - began < 8_000);
});

test("a message whose handler failed comes again at once where the consumer gives it back", async () => {
  const queueUrl = await create({ VisibilityTimeout: "600" });
  await send(queueUrl, "try twice");
  const handled = await consume(queueUrl, (_, count) => { if (count === 1) throw new Error("as meant"); },
    (all) => all.length === 2, { terminateVisibilityTimeout: true, attributeNames: ["ApproximateReceiveCount"] });
  assert.deepEqual(handled.map((message) => message.Attributes.ApproximateReceiveCount), ["1", "2"]);
});

test("a heartbeat keeps a slow handler's message hidden", async () => {
  const queueUrl = await create({ VisibilityTimeout: "2" });
  await send(queueUrl, "slow");
  let finished = false;
  const handled = await consume(queueUrl, async () => { await wait(4_500); finished = true; }, () => finished,
    { visibilityTimeout: 2, heartbeatInterval: 1 });
  assert.equal(handled.length, 1);
  await emptied(queueUrl);
});

test("a batch handler gets up to ten and its batch is deleted", async () => {
  const queueUrl = await create();
  for (let n = 0; n < 10; n++) await send(queueUrl, String(n));
  const seen = [];
  const consumer = Consumer.create({
    queueUrl, sqs, batchSize: 10, waitTimeSeconds: 2,
    handleMessageBatch: async (messages) => { seen.push(...messages.map((message) => message.Body)); return messages; } });
  consumer.start();
  const until = Date.now() + 20_000;
  while ((seen.length < 10 || (await counts(queueUrl)) > 0) && Date.now() < until) await wait(50);
  const stopped = new Promise((resolve) => consumer.once("stopped", resolve));
  consumer.stop();
  await stopped;
  assert.deepEqual(seen.sort(), [..."0123456789"]);
  assert.equal(await counts(queueUrl), 0);
});

test("a FIFO group is handled in order though one of it fails once", async () => {
  const queueUrl = await create({ FifoQueue: "true", ContentBasedDeduplication: "true", VisibilityTimeout: "600" });
  for (const text of ["a", "b", "c"]) await send(queueUrl, text, { MessageGroupId: "g" });
  let failed = false;
  const handled = await consume(queueUrl, (message) => {
    if (message.Body === "b" && !failed) { failed = true; throw new Error("as meant"); }
  }, (all) => all.length === 4, { batchSize: 1, terminateVisibilityTimeout: true, suppressFifoWarning: true });
  assert.deepEqual(handled.map((message) => message.Body), ["a", "b", "b", "c"]);
});

test("a message that always fails becomes a dead letter", async () => {
  const dead = await create();
  const { Attributes } = await sqs.send(new GetQueueAttributesCommand({ QueueUrl: dead, AttributeNames: ["QueueArn"] }));
  const queueUrl = await create({ RedrivePolicy: JSON.stringify({ deadLetterTargetArn: Attributes.QueueArn, maxReceiveCount: "2" }) });
  await send(queueUrl, "poison");
  let letters = [];
  setTimeout(async () => {
    while (!letters.length) letters = (await sqs.send(new ReceiveMessageCommand({ QueueUrl: dead, WaitTimeSeconds: 1 }))).Messages ?? [];
  }, 1_000);
  await consume(queueUrl, () => { throw new Error("as meant"); }, () => letters.length === 1,
    { terminateVisibilityTimeout: true, waitTimeSeconds: 1, pollingWaitTimeMs: 50 });
  assert.equal(letters[0].Body, "poison");
});

test("the producer sends in batches and tells the queue's size", async () => {
  const queueUrl = await create();
  const producer = Producer.create({ queueUrl, sqs });
  await producer.send(Array.from({ length: 25 }, (_, n) => ({ id: `id${n}`, body: `body ${n}` })));
  assert.equal(await producer.queueSize(), 25);
  await consume(queueUrl, null, (all) => all.length === 25, { batchSize: 10 });
});

test("a consumer of another tenant is told that the queue does not exist", async () => {
  const queueUrl = await create();
  await send(queueUrl, "secret");
  await assert.rejects(consume(queueUrl, null, () => false, { sqs: otherTenant }), /does not exist/);
  const handled = await consume(queueUrl, null, (all) => all.length === 1);
  assert.equal(handled[0].Body, "secret");
});
