// The SDK's second major version. It posts every call to the queue URL that it was given, whatever its endpoint is.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import AWS from "aws-sdk";

const expected = JSON.parse(readFileSync(process.env.COMPAT_EXPECTATIONS, "utf8"));
const clientOf = (accessKeyId, secretAccessKey) =>
  new AWS.SQS({ endpoint: process.env.AWS_ENDPOINT_URL_SQS, region: process.env.AWS_REGION, accessKeyId, secretAccessKey, maxRetries: 0 });
const sqs = clientOf(process.env.AWS_ACCESS_KEY_ID, process.env.AWS_SECRET_ACCESS_KEY);
const otherTenant = clientOf(process.env.OTHER_ACCESS_KEY_ID, process.env.OTHER_SECRET_ACCESS_KEY);

const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const bodies = (messages) => messages.map((message) => message.Body);

async function create(Attributes = {}) {
  const QueueName = `q-${randomBytes(8).toString("hex")}${Attributes.FifoQueue ? ".fifo" : ""}`;
  return (await sqs.createQueue({ QueueName, Attributes }).promise()).QueueUrl;
}

async function receive(QueueUrl, options = {}, client = sqs) {
  const answer = await client.receiveMessage({ QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 0, ...options }).promise();
  return answer.Messages ?? [];
}

async function receiveUntil(QueueUrl, number, options = {}, client = sqs) {
  const until = Date.now() + 20_000;
  const got = [];
  while (got.length < number && Date.now() < until) got.push(...(await receive(QueueUrl, { WaitTimeSeconds: 2, ...options }, client)));
  assert.equal(got.length, number);
  return got;
}

async function refused(request, name) {
  const { code, status } = expected.errors[name];
  await assert.rejects(request.promise(), (error) => {
    assert.equal(error.code, code);
    if (status) assert.equal(error.statusCode, status);
    return true;
  });
}

test("every call goes to the queue URL, which names the endpoint", async () => {
  const QueueUrl = await create();
  assert.ok(QueueUrl.startsWith(`${process.env.AWS_ENDPOINT_URL_SQS}/`));
  const request = sqs.sendMessage({ QueueUrl, MessageBody: "m" });
  await request.promise();
  assert.equal(request.httpRequest.endpoint.href, QueueUrl);
});

for (const [kind, { body, md5 }] of Object.entries(expected.bodies)) {
  test(`a body comes back exactly as sent: ${kind}`, async () => {
    const QueueUrl = await create();
    assert.equal((await sqs.sendMessage({ QueueUrl, MessageBody: body }).promise()).MD5OfMessageBody, md5);
    const [message] = await receiveUntil(QueueUrl, 1);
    assert.deepEqual([message.Body, message.MD5OfBody], [body, md5]);
  });
}

test("attributes of every type come back exactly as sent", async () => {
  const QueueUrl = await create();
  const MessageAttributes = Object.fromEntries(Object.entries(expected.attributes).map(([name, value]) => [name,
    value.BinaryBase64 ? { DataType: value.DataType, BinaryValue: Buffer.from(value.BinaryBase64, "base64") } : value]));
  const sent = await sqs.sendMessage({ QueueUrl, MessageBody: "m", MessageAttributes }).promise();
  assert.equal(sent.MD5OfMessageAttributes, expected.attributes_md5);
  const [message] = await receiveUntil(QueueUrl, 1, { MessageAttributeNames: ["All"], AttributeNames: ["All"] });
  assert.equal(message.Attributes.ApproximateReceiveCount, "1");
  for (const [name, value] of Object.entries(MessageAttributes)) {
    assert.equal(message.MessageAttributes[name].DataType, value.DataType);
    assert.deepEqual(message.MessageAttributes[name].BinaryValue ?? message.MessageAttributes[name].StringValue,
      value.BinaryValue ?? value.StringValue, name);
  }
});

test("batches send, change and delete by id, and name what failed", async () => {
  const QueueUrl = await create();
  const sent = await sqs.sendMessageBatch({ QueueUrl, Entries: [
    { Id: "a", MessageBody: "a" }, { Id: "bad", MessageBody: "\u0001" }, { Id: "b", MessageBody: "b" }] }).promise();
  assert.deepEqual(sent.Successful.map((entry) => entry.Id), ["a", "b"]);
  assert.deepEqual(sent.Failed.map((entry) => [entry.Id, entry.Code, entry.SenderFault]), [["bad", "InvalidMessageContents", true]]);
  const taken = await receiveUntil(QueueUrl, 2, { VisibilityTimeout: 600 });
  const entries = taken.map(({ ReceiptHandle }, n) => ({ Id: `m${n}`, ReceiptHandle }));
  const changed = await sqs.changeMessageVisibilityBatch({
    QueueUrl, Entries: entries.map((entry) => ({ ...entry, VisibilityTimeout: 0 })) }).promise();
  assert.equal(changed.Successful.length, 2);
  const again = await receiveUntil(QueueUrl, 2);
  const deleted = await sqs.deleteMessageBatch({ QueueUrl, Entries: [
    ...again.map(({ ReceiptHandle }, n) => ({ Id: `d${n}`, ReceiptHandle })), { Id: "bad", ReceiptHandle: "garbage" }] }).promise();
  assert.equal(deleted.Successful.length, 2);
  assert.deepEqual(deleted.Failed.map((entry) => entry.Code), ["ReceiptHandleIsInvalid"]);
});

test("a waiting receive returns when another client sends", async () => {
  const QueueUrl = await create();
  const polled = sqs.receiveMessage({ QueueUrl, WaitTimeSeconds: 20 });
  const sent = new Promise((resolve) => polled.on("sign", resolve));
  const poll = polled.promise();
  await sent;
  await wait(300);
  await clientOf(process.env.AWS_ACCESS_KEY_ID, "x").sendMessage({ QueueUrl, MessageBody: "woken" }).promise();
  const late = wait(5_000).then(() => { throw new Error("the receive still waits"); });
  late.catch(() => {});
  assert.deepEqual(bodies((await Promise.race([poll, late])).Messages), ["woken"]);
});

test("a taken message is hidden until it is given back, and gone once deleted", async () => {
  const QueueUrl = await create();
  await sqs.sendMessage({ QueueUrl, MessageBody: "m" }).promise();
  const [first] = await receiveUntil(QueueUrl, 1, { VisibilityTimeout: 600 });
  assert.deepEqual(await receive(QueueUrl), []);
  await sqs.changeMessageVisibility({ QueueUrl, ReceiptHandle: first.ReceiptHandle, VisibilityTimeout: 0 }).promise();
  const [again] = await receiveUntil(QueueUrl, 1, { VisibilityTimeout: 1 });
  await sqs.deleteMessage({ QueueUrl, ReceiptHandle: again.ReceiptHandle }).promise();
  await wait(1_300);
  assert.deepEqual(await receive(QueueUrl, { WaitTimeSeconds: 1 }), []);
});

test("a FIFO queue keeps order, locks its groups and drops duplicates", async () => {
  const QueueUrl = await create({ FifoQueue: "true" });
  const send = (MessageBody, MessageGroupId) =>
    sqs.sendMessage({ QueueUrl, MessageBody, MessageGroupId, MessageDeduplicationId: MessageBody }).promise();
  for (const text of ["a1", "a2", "a1"]) await send(text, "a");
  await send("b1", "b");
  const [head] = await receiveUntil(QueueUrl, 1, { MaxNumberOfMessages: 1 });
  assert.equal(head.Body, "a1");
  assert.deepEqual(bodies(await receive(QueueUrl, { WaitTimeSeconds: 2 })), ["b1"]);
  await sqs.deleteMessage({ QueueUrl, ReceiptHandle: head.ReceiptHandle }).promise();
  assert.deepEqual(bodies(await receiveUntil(QueueUrl, 1)), ["a2"]);
});

test("redrive moves a message after its last receive", async () => {
  const dead = await create();
  const { Attributes } = await sqs.getQueueAttributes({ QueueUrl: dead, AttributeNames: ["QueueArn"] }).promise();
  const QueueUrl = await create({ RedrivePolicy: JSON.stringify({ deadLetterTargetArn: Attributes.QueueArn, maxReceiveCount: 1 }) });
  await sqs.sendMessage({ QueueUrl, MessageBody: "poison" }).promise();
  await receiveUntil(QueueUrl, 1, { VisibilityTimeout: 0 });
  assert.deepEqual(await receive(QueueUrl, { WaitTimeSeconds: 1 }), []);
  assert.deepEqual(bodies(await receiveUntil(dead, 1)), ["poison"]);
});

test("tags are added, listed and removed", async () => {
  const QueueUrl = await create();
  await sqs.tagQueue({ QueueUrl, Tags: { team: "blue", kind: "" } }).promise();
  await sqs.untagQueue({ QueueUrl, TagKeys: ["kind"] }).promise();
  assert.deepEqual((await sqs.listQueueTags({ QueueUrl }).promise()).Tags, { team: "blue" });
});

test("errors carry the codes that this version's users match on", async () => {
  const QueueUrl = await create();
  await sqs.purgeQueue({ QueueUrl }).promise();
  await refused(sqs.purgeQueue({ QueueUrl }), "purge in progress");
  await refused(sqs.deleteMessage({ QueueUrl, ReceiptHandle: "garbage" }), "garbage handle");
  await refused(sqs.sendMessageBatch({ QueueUrl, Entries: [] }), "empty batch");
  await refused(sqs.setQueueAttributes({ QueueUrl, Attributes: { DelaySeconds: "901" } }), "attribute out of range");
  await sqs.deleteQueue({ QueueUrl }).promise();
  await refused(sqs.getQueueAttributes({ QueueUrl, AttributeNames: ["All"] }), "missing queue");
});

test("tenants do not see each other", async () => {
  const QueueUrl = await create();
  await sqs.sendMessage({ QueueUrl, MessageBody: "secret" }).promise();
  assert.ok(!((await otherTenant.listQueues().promise()).QueueUrls ?? []).includes(QueueUrl));
  await refused(otherTenant.receiveMessage({ QueueUrl }), "missing queue");
  assert.deepEqual(bodies(await receiveUntil(QueueUrl, 1)), ["secret"]);
});
