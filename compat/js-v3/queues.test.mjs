import assert from "node:assert/strict";
import { test } from "node:test";
import {
  CreateQueueCommand, DeleteMessageCommand, DeleteQueueCommand, GetQueueAttributesCommand, GetQueueUrlCommand, ListQueuesCommand,
  PurgeQueueCommand, ReceiveMessageCommand, SendMessageCommand, SetQueueAttributesCommand, QueueDoesNotExist, paginateListQueues,
} from "@aws-sdk/client-sqs";
import { attribute, bodies, create, createFifo, createdByUse, expected, freshName, receive, receiveUntil, refused, sqs } from "./support.mjs";

test("a queue URL is the endpoint, an account of twelve digits and the name", async () => {
  const QueueName = freshName();
  const { QueueUrl } = await sqs.send(new CreateQueueCommand({ QueueName }));
  assert.match(QueueUrl, new RegExp(`^${process.env.AWS_ENDPOINT_URL_SQS}/\\d{12}/${QueueName}$`));
  assert.equal((await sqs.send(new GetQueueUrlCommand({ QueueName }))).QueueUrl, QueueUrl);
});

test("a new queue has the service's default attributes", async () => {
  const QueueUrl = await create();
  const { Attributes } = await sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ["All"] }));
  const { CreatedTimestamp, LastModifiedTimestamp, QueueArn, ...rest } = Attributes;
  assert.deepEqual(rest, expected.standard_queue_attributes);
  assert.ok(Math.abs(CreatedTimestamp - Date.now() / 1000) < 30);
  assert.ok(LastModifiedTimestamp >= CreatedTimestamp);
  assert.match(QueueArn, new RegExp(`^arn:aws:sqs:${process.env.AWS_REGION}:\\d{12}:${QueueUrl.split("/").pop()}$`));
});

test("a new FIFO queue says what it is", async () => {
  const QueueUrl = await createFifo();
  const { Attributes } = await sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ["All"] }));
  for (const [name, value] of Object.entries(expected.fifo_queue_attributes)) assert.equal(Attributes[name], value, name);
});

test("attributes can be given at creation and changed later", async () => {
  const QueueUrl = await create({ VisibilityTimeout: "77" });
  assert.equal(await attribute(QueueUrl, "VisibilityTimeout"), "77");
  await sqs.send(new SetQueueAttributesCommand({ QueueUrl, Attributes: { VisibilityTimeout: "12" } }));
  assert.equal(await attribute(QueueUrl, "VisibilityTimeout"), "12");
});

test("an attribute out of range is refused and changes nothing", async () => {
  const QueueUrl = await create();
  await refused(sqs.send(new SetQueueAttributesCommand({ QueueUrl, Attributes: { DelaySeconds: "901" } })), "attribute out of range");
  assert.equal(await attribute(QueueUrl, "DelaySeconds"), "0");
});

test("an unknown attribute is refused", async () => {
  const QueueUrl = await create();
  await refused(sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ["Colour"] })), "unknown attribute");
});

test("creating again with another value is refused, with the same is not", async () => {
  const QueueName = freshName();
  const first = await sqs.send(new CreateQueueCommand({ QueueName, Attributes: { VisibilityTimeout: "40" } }));
  const again = await sqs.send(new CreateQueueCommand({ QueueName, Attributes: { VisibilityTimeout: "40" } }));
  assert.equal(again.QueueUrl, first.QueueUrl);
  await refused(sqs.send(new CreateQueueCommand({ QueueName, Attributes: { VisibilityTimeout: "41" } })), "different attributes");
});

test("listing in pages finds each queue of a prefix once", async () => {
  const prefix = freshName();
  const urls = [];
  for (let n = 0; n < 5; n++) urls.push((await sqs.send(new CreateQueueCommand({ QueueName: `${prefix}-${n}` }))).QueueUrl);
  const found = [];
  for await (const page of paginateListQueues({ client: sqs, pageSize: 2 }, { QueueNamePrefix: prefix })) found.push(...page.QueueUrls);
  assert.deepEqual(found.sort(), urls);
  assert.equal((await sqs.send(new ListQueuesCommand({ QueueNamePrefix: `${prefix}-none` }))).QueueUrls, undefined);
});

test("a purge empties a queue, and a second one within a minute is refused", async () => {
  const QueueUrl = await create();
  for (const MessageBody of ["a", "b"]) await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody }));
  await sqs.send(new PurgeQueueCommand({ QueueUrl }));
  assert.deepEqual(await receive(QueueUrl, { WaitTimeSeconds: 1 }), []);
  await refused(sqs.send(new PurgeQueueCommand({ QueueUrl })), "purge in progress");
});

test("a deleted queue is gone and its name rests for a minute", async () => {
  const QueueUrl = await create();
  await sqs.send(new DeleteQueueCommand({ QueueUrl }));
  await refused(sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: "m" })), "missing queue");
  await refused(sqs.send(new ReceiveMessageCommand({ QueueUrl })), "missing queue");
  await refused(sqs.send(new CreateQueueCommand({ QueueName: QueueUrl.split("/").pop() })), "deleted recently");
});

test("a missing queue is raised as the class QueueDoesNotExist", async () => {
  const QueueUrl = `${await create()}-never`;
  await refused(sqs.send(new DeleteQueueCommand({ QueueUrl })), "missing queue");
  await refused(sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle: "x" })), "missing queue");
  await assert.rejects(sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ["All"] })), QueueDoesNotExist);
});

test("using a name makes the queue", { skip: !createdByUse }, async () => {
  const { QueueUrl } = await sqs.send(new GetQueueUrlCommand({ QueueName: freshName() }));
  const sent = `${QueueUrl}-sent`;
  await sqs.send(new SendMessageCommand({ QueueUrl: sent, MessageBody: "first" }));
  assert.deepEqual(bodies(await receiveUntil(sent, 1)), ["first"]);
  assert.equal((await sqs.send(new ReceiveMessageCommand({ QueueUrl: `${QueueUrl}-received` }))).Messages, undefined);
  const fifo = await sqs.send(new GetQueueUrlCommand({ QueueName: freshName(".fifo") }));
  assert.equal(await attribute(fifo.QueueUrl, "FifoQueue"), "true");
});
