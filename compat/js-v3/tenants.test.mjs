import assert from "node:assert/strict";
import { test } from "node:test";
import {
  CreateQueueCommand, DeleteMessageCommand, DeleteQueueCommand, GetQueueAttributesCommand, ListQueuesCommand, PurgeQueueCommand,
  ReceiveMessageCommand, SendMessageCommand,
} from "@aws-sdk/client-sqs";
import { bodies, freshName, otherTenant, receiveUntil, refused, sqs } from "./support.mjs";

async function sameName() {
  const command = new CreateQueueCommand({ QueueName: freshName() });
  return [(await sqs.send(command)).QueueUrl, (await otherTenant.send(command)).QueueUrl];
}

test("the same name is two queues of two tenants", async () => {
  const [mine, theirs] = await sameName();
  assert.notEqual(mine, theirs);
  await sqs.send(new SendMessageCommand({ QueueUrl: mine, MessageBody: "mine" }));
  await otherTenant.send(new SendMessageCommand({ QueueUrl: theirs, MessageBody: "theirs" }));
  assert.deepEqual(bodies(await receiveUntil(mine, 1)), ["mine"]);
  assert.deepEqual(bodies(await receiveUntil(theirs, 1, {}, otherTenant)), ["theirs"]);
});

test("listings show only one's own queues", async () => {
  const [mine, theirs] = await sameName();
  const listed = (await otherTenant.send(new ListQueuesCommand({}))).QueueUrls;
  assert.ok(listed.includes(theirs));
  assert.ok(!listed.includes(mine));
});

test("another tenant's queue URL is a queue that does not exist", async () => {
  const [QueueUrl] = await sameName();
  await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: "secret" }));
  for (const command of [
    new ReceiveMessageCommand({ QueueUrl }),
    new SendMessageCommand({ QueueUrl, MessageBody: "intruder" }),
    new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ["All"] }),
    new PurgeQueueCommand({ QueueUrl }),
    new DeleteQueueCommand({ QueueUrl }),
  ]) await refused(otherTenant.send(command), "missing queue");
  assert.deepEqual(bodies(await receiveUntil(QueueUrl, 1)), ["secret"]);
});

test("another tenant's handle deletes nothing", async () => {
  const [mine, theirs] = await sameName();
  await sqs.send(new SendMessageCommand({ QueueUrl: mine, MessageBody: "m" }));
  const [{ ReceiptHandle }] = await receiveUntil(mine, 1, { VisibilityTimeout: 1 });
  await assert.rejects(otherTenant.send(new DeleteMessageCommand({ QueueUrl: theirs, ReceiptHandle })), { name: "ReceiptHandleIsInvalid" });
  assert.deepEqual(bodies(await receiveUntil(mine, 1)), ["m"]);
});
