import assert from "node:assert/strict";
import { test } from "node:test";
import { DeleteMessageCommand, SendMessageBatchCommand, SendMessageCommand } from "@aws-sdk/client-sqs";
import { bodies, createFifo, receive, receiveUntil, sendGroup, sqs, wait, waitingReceive } from "./support.mjs";

const remove = (QueueUrl, { ReceiptHandle }) => sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle }));
const sendOne = (QueueUrl, MessageBody, MessageGroupId, MessageDeduplicationId) =>
  sqs.send(new SendMessageCommand({ QueueUrl, MessageBody, MessageGroupId, MessageDeduplicationId }));

test("a group comes in the order it was sent", async () => {
  const QueueUrl = await createFifo();
  const texts = Array.from({ length: 15 }, (_, n) => `m${n}`);
  await sendGroup(QueueUrl, "g", ...texts);
  const got = [];
  while (got.length < texts.length) {
    const batch = await receive(QueueUrl, { WaitTimeSeconds: 5 });
    assert.ok(batch.length, `only ${got.length} came`);
    got.push(...bodies(batch));
    for (const message of batch) await remove(QueueUrl, message);
  }
  assert.deepEqual(got, texts);
});

test("a batch keeps the order of its entries, and sequence numbers rise", async () => {
  const QueueUrl = await createFifo();
  const Entries = Array.from({ length: 10 }, (_, n) => ({ Id: `e${n}`, MessageBody: `m${n}`, MessageGroupId: "g", MessageDeduplicationId: `d${n}` }));
  const { Successful } = await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
  const numbers = Successful.map((entry) => entry.SequenceNumber);
  assert.ok(numbers.every((number) => /^\d{20}$/.test(number)));
  assert.deepEqual(numbers, [...new Set(numbers)].sort());
  assert.deepEqual(bodies(await receiveUntil(QueueUrl, 10)), Entries.map((entry) => entry.MessageBody));
});

test("a receive goes on to further groups", async () => {
  const QueueUrl = await createFifo();
  await sendGroup(QueueUrl, "g1", "g1-m1", "g1-m2", "g1-m3");
  await sendGroup(QueueUrl, "g2", "g2-m1");
  assert.deepEqual(bodies(await receive(QueueUrl, { WaitTimeSeconds: 5 })), ["g1-m1", "g1-m2", "g1-m3", "g2-m1"]);
});

test("a group with a message in flight yields nothing and others do", async () => {
  const QueueUrl = await createFifo();
  await sendGroup(QueueUrl, "g1", "a1", "a2");
  await sendGroup(QueueUrl, "g2", "b1");
  const [first] = await receiveUntil(QueueUrl, 1, { MaxNumberOfMessages: 1 });
  assert.equal(first.Body, "a1");
  assert.deepEqual(bodies(await receive(QueueUrl, { WaitTimeSeconds: 2 })), ["b1"]);
  const waiting = await waitingReceive(QueueUrl);
  await remove(QueueUrl, first);
  assert.deepEqual(bodies(await waiting.returned()), ["a2"]);
});

test("an ended lease brings the group back from its head", async () => {
  const QueueUrl = await createFifo();
  await sendGroup(QueueUrl, "g", "a", "b", "c");
  await receiveUntil(QueueUrl, 2, { MaxNumberOfMessages: 2, VisibilityTimeout: 1 });
  await wait(1_300);
  assert.deepEqual(bodies(await receive(QueueUrl, { WaitTimeSeconds: 2 })), ["a", "b", "c"]);
});

test("the same deduplication id is accepted and delivered once", async () => {
  const QueueUrl = await createFifo();
  const first = await sendOne(QueueUrl, "one", "g", "d");
  const again = await sendOne(QueueUrl, "two", "other", "d");
  assert.deepEqual([again.MessageId, again.SequenceNumber], [first.MessageId, first.SequenceNumber]);
  const [message] = await receiveUntil(QueueUrl, 1);
  await remove(QueueUrl, message);
  await sendOne(QueueUrl, "three", "g", "d");
  assert.deepEqual(await receive(QueueUrl, { WaitTimeSeconds: 1 }), []);
});

test("content-based deduplication tells bodies apart", async () => {
  const QueueUrl = await createFifo({ ContentBasedDeduplication: "true" });
  for (const text of ["a", "a", "b"]) await sendOne(QueueUrl, text, "g");
  assert.deepEqual(bodies(await receive(QueueUrl, { WaitTimeSeconds: 2 })), ["a", "b"]);
});

// Errors outside of the SDK's model are named by the code of the Query protocol, which a header carries.
test("a send without a group or without any deduplication is refused", async () => {
  const QueueUrl = await createFifo();
  await assert.rejects(sendOne(QueueUrl, "m", undefined, "d"),
    { name: "MissingParameter", message: "The request must contain the parameter MessageGroupId." });
  await assert.rejects(sendOne(QueueUrl, "m", "g"), {
    name: "InvalidParameterValue",
    message: "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly",
  });
});
