// A producer and a consumer as a user writes them: nothing is set but the endpoint and the credentials, both by environment.
import { CreateQueueCommand, DeleteMessageCommand, ReceiveMessageCommand, SendMessageCommand, SQSClient } from "@aws-sdk/client-sqs";
import assert from "node:assert/strict";

const sqs = new SQSClient({ maxAttempts: 1 });
const { QueueUrl } = await sqs.send(new CreateQueueCommand({ QueueName: process.argv[2] }));
assert.ok(QueueUrl.startsWith(`${process.env.COMPAT_SQS}/`), QueueUrl);

const waiting = sqs.send(new ReceiveMessageCommand({ QueueUrl, WaitTimeSeconds: 20 }));
await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: "through the proxy: ä/+%20" }));
const { Messages: [message] } = await waiting;
assert.equal(message.Body, "through the proxy: ä/+%20");
await sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle: message.ReceiptHandle }));
console.log("received");
