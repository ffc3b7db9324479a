import assert from "node:assert/strict";
import { test } from "node:test";
import {
  ChangeMessageVisibilityBatchCommand, ChangeMessageVisibilityCommand, DeleteMessageBatchCommand, DeleteMessageCommand,
  SendMessageBatchCommand, SendMessageCommand,
} from "@aws-sdk/client-sqs";
import {
  bodies, create, expected, messageAttributes, receive, receiveUntil, refused, sqs, wait, waitingReceive,
} from "./support.mjs";

for (const [kind, { body, md5 }] of Object.entries(expected.bodies)) {
  test(`a body comes back exactly as sent: ${kind}`, async () => {
    const QueueUrl = await create();
    const sent = await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: body }));
    assert.equal(sent.MD5OfMessageBody, md5);
    const [message] = await receiveUntil(QueueUrl, 1);
    assert.equal(message.Body, body);
    assert.equal(message.MD5OfBody, md5);
    assert.equal(message.MessageId, sent.MessageId);
  });
}

test("attributes of every type come back exactly as sent", async () => {
  const QueueUrl = await create();
  const MessageAttributes = messageAttributes();
  const sent = await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: "m", MessageAttributes }));
  assert.equal(sent.MD5OfMessageAttributes, expected.attributes_md5);
  const [message] = await receiveUntil(QueueUrl, 1, { MessageAttributeNames: ["All"] });
  assert.equal(message.MD5OfMessageAttributes, expected.attributes_md5);
  assert.deepEqual(Object.keys(message.MessageAttributes).sort(), Object.keys(MessageAttributes).sort());
  for (const [name, value] of Object.entries(MessageAttributes)) {
    const got = message.MessageAttributes[name];
    assert.equal(got.DataType, value.DataType, name);
    assert.equal(got.StringValue, value.StringValue, name);
    if (value.BinaryValue) assert.deepEqual(Buffer.from(got.BinaryValue), Buffer.from(value.BinaryValue), name);
  }
});

test("the digest of attributes covers only those asked for", async () => {
  const QueueUrl = await create();
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: "m", MessageAttributes: messageAttributes() }));
  for (const [names, md5] of Object.entries(expected.attributes_md5_of)) {
    const [message] = await receiveUntil(QueueUrl, 1, { MessageAttributeNames: names.split(","), VisibilityTimeout: 0 });
    assert.equal(message.MD5OfMessageAttributes, md5, names);
  }
});

test("a batch answers each entry by its id and a bad entry fails alone", async () => {
  const QueueUrl = await create();
  const answer = await sqs.send(new SendMessageBatchCommand({
    QueueUrl,
    Entries: [{ Id: "good", MessageBody: "good" }, { Id: "bad", MessageBody: "\u0001" }, { Id: "fine", MessageBody: "fine" }],
  }));
  assert.deepEqual(answer.Successful.map((entry) => entry.Id), ["good", "fine"]);
  assert.deepEqual(answer.Failed.map(({ Id, Code, SenderFault }) => ({ Id, Code, SenderFault })),
    [{ Id: "bad", Code: "InvalidMessageContents", SenderFault: true }]);
  assert.deepEqual(bodies(await receiveUntil(QueueUrl, 2)).sort(), ["fine", "good"]);
});

const text = (Id) => ({ Id, MessageBody: "x" });
for (const [error, Entries] of [
  ["empty batch", []],
  ["eleven entries", Array.from({ length: 11 }, (_, n) => text(`e${n}`))],
  ["same id twice", [text("e"), text("e")]],
  ["bad batch id", [text("e e")]],
]) {
  test(`a malformed batch is refused whole: ${error}`, async () => {
    await refused(sqs.send(new SendMessageBatchCommand({ QueueUrl: await create(), Entries })), error);
  });
}

test("characters outside of the service's set are refused", async () => {
  await refused(sqs.send(new SendMessageCommand({ QueueUrl: await create(), MessageBody: "\u0000" })), "bad characters");
});

test("a delayed message comes when its delay is over and not before", async () => {
  const QueueUrl = await create();
  const began = performance.now();
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: "later", DelaySeconds: 2 }));
  assert.deepEqual(await receive(QueueUrl), []);
  assert.deepEqual(bodies(await receiveUntil(QueueUrl, 1)), ["later"]);
  assert.ok(performance.now() - began >= 1_900);
});

test("a waiting receive returns when another client sends", async () => {
  const QueueUrl = await create();
  const waiting = await waitingReceive(QueueUrl);
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: "woken" }));
  assert.deepEqual(bodies(await waiting.returned()), ["woken"]);
});

test("a waiting receive returns when a visibility timeout ends", async () => {
  const QueueUrl = await create();
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: "again" }));
  await receiveUntil(QueueUrl, 1, { VisibilityTimeout: 2 });
  const waiting = await waitingReceive(QueueUrl);
  assert.deepEqual(bodies(await waiting.returned(10_000)), ["again"]);
});

test("a waiting receive of an empty queue waits its time and answers none", async () => {
  const QueueUrl = await create();
  const began = performance.now();
  assert.deepEqual(await receive(QueueUrl, { WaitTimeSeconds: 2 }), []);
  assert.ok(performance.now() - began >= 1_900);
});

test("a taken message is hidden and comes back counted", async () => {
  const QueueUrl = await create();
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: "m" }));
  const [first] = await receiveUntil(QueueUrl, 1, { VisibilityTimeout: 2, MessageSystemAttributeNames: ["All"] });
  assert.deepEqual(Object.keys(first.Attributes).sort(),
    ["ApproximateFirstReceiveTimestamp", "ApproximateReceiveCount", "SenderId", "SentTimestamp"]);
  assert.deepEqual(await receive(QueueUrl), []);
  const [again] = await receiveUntil(QueueUrl, 1, { MessageSystemAttributeNames: ["ApproximateReceiveCount"] });
  assert.equal(again.MessageId, first.MessageId);
  assert.deepEqual(again.Attributes, { ApproximateReceiveCount: "2" });
});

test("giving a message back makes it visible at once", async () => {
  const QueueUrl = await create();
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: "m" }));
  const [{ ReceiptHandle }] = await receiveUntil(QueueUrl, 1, { VisibilityTimeout: 600 });
  await sqs.send(new ChangeMessageVisibilityCommand({ QueueUrl, ReceiptHandle, VisibilityTimeout: 0 }));
  assert.deepEqual(bodies(await receiveUntil(QueueUrl, 1)), ["m"]);
});

test("a batch changes the visibility it can and names the rest", async () => {
  const QueueUrl = await create();
  for (const MessageBody of ["a", "b"]) await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody }));
  const taken = await receiveUntil(QueueUrl, 2, { VisibilityTimeout: 600 });
  const answer = await sqs.send(new ChangeMessageVisibilityBatchCommand({
    QueueUrl,
    Entries: [
      { Id: "back", ReceiptHandle: taken[0].ReceiptHandle, VisibilityTimeout: 0 },
      { Id: "bad", ReceiptHandle: "garbage", VisibilityTimeout: 0 },
    ],
  }));
  assert.deepEqual(answer.Successful.map((entry) => entry.Id), ["back"]);
  assert.deepEqual(answer.Failed.map(({ Id, Code }) => [Id, Code]), [["bad", "ReceiptHandleIsInvalid"]]);
  assert.deepEqual(bodies(await receiveUntil(QueueUrl, 1)), [taken[0].Body]);
});

test("deleted messages do not come back, one by one or in a batch", async () => {
  const QueueUrl = await create();
  for (const MessageBody of ["a", "b", "c"]) await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody }));
  const [first, ...others] = await receiveUntil(QueueUrl, 3, { VisibilityTimeout: 1 });
  await sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle: first.ReceiptHandle }));
  const entries = others.map(({ ReceiptHandle }, n) => ({ Id: `d${n}`, ReceiptHandle }));
  const answer = await sqs.send(new DeleteMessageBatchCommand({ QueueUrl, Entries: [...entries, { Id: "bad", ReceiptHandle: "garbage" }] }));
  assert.deepEqual(answer.Successful.map((entry) => entry.Id), ["d0", "d1"]);
  assert.deepEqual(answer.Failed.map(({ Id, Code }) => [Id, Code]), [["bad", "ReceiptHandleIsInvalid"]]);
  await wait(1_300);
  assert.deepEqual(await receive(QueueUrl, { WaitTimeSeconds: 1 }), []);
});

test("a handle that is none is refused", async () => {
  await refused(sqs.send(new DeleteMessageCommand({ QueueUrl: await create(), ReceiptHandle: "garbage" })), "garbage handle");
});
