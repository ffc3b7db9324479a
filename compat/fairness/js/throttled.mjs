// node throttled.mjs ENDPOINT ADDRESS IDENTIFIER: exceeds the budget from that address; fails unless the SDK names the error, and
// unless with its retries every call succeeds.
import assert from "node:assert/strict";
import { Agent } from "node:http";
import {
  CreateQueueCommand, GetQueueAttributesCommand, OverLimit, RequestThrottled, SQSClient, SendMessageCommand,
} from "@aws-sdk/client-sqs";
import { NodeHttpHandler } from "@smithy/node-http-handler";

const [endpoint, localAddress, accessKeyId] = process.argv.slice(2);
const client = (maxAttempts) =>
  new SQSClient({
    endpoint,
    region: "eu-central-1",
    credentials: { accessKeyId, secretAccessKey: "any" },
    maxAttempts,
    requestHandler: new NodeHttpHandler({ httpAgent: new Agent({ localAddress, keepAlive: true, maxSockets: 16 }) }),
  });

const impatient = client(1);
const { QueueUrl } = await impatient.send(new CreateQueueCommand({ QueueName: "q" }));
let refused;
for (let i = 0; i < 300 && !refused; i++) {
  await impatient.send(new GetQueueAttributesCommand({ QueueUrl })).catch((error) => (refused = error));
}
assert.ok(refused instanceof RequestThrottled, String(refused));
assert.equal(refused.$metadata.httpStatusCode, 403);
assert.equal(refused.$fault, "client");

const patient = client(12);
let retries = 0;
await Promise.all(
  Array.from({ length: 4 }, async () => {
    for (let i = 0; i < 20; i++) {
      const sent = await patient.send(new SendMessageCommand({ QueueUrl, MessageBody: "m" }));
      retries += sent.$metadata.attempts - 1;
    }
  }),
);
assert.ok(retries > 0, "the budget was never exceeded");
const { Attributes } = await patient.send(
  new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ["ApproximateNumberOfMessages"] }),
);
assert.equal(Attributes.ApproximateNumberOfMessages, "80");

// The queue takes no more; that is no matter of going slower, so the SDK does not try again.
await assert.rejects(patient.send(new SendMessageCommand({ QueueUrl, MessageBody: "m" })), (error) => {
  assert.ok(error instanceof OverLimit, String(error));
  assert.equal(error.$metadata.httpStatusCode, 403);
  return true;
});
