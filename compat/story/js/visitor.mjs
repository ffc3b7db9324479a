// node visitor.mjs IDENTIFIER QUEUE: sends and receives one message with the JavaScript SDK, as the site's program does.
import assert from "node:assert/strict";
import { CreateQueueCommand, DeleteMessageCommand, ReceiveMessageCommand, SQSClient, SendMessageCommand } from "@aws-sdk/client-sqs";

const [accessKeyId, QueueName] = process.argv.slice(2);
const sqs = new SQSClient({ region: "us-east-1", credentials: { accessKeyId, secretAccessKey: "any" } });
const { QueueUrl } = await sqs.send(new CreateQueueCommand({ QueueName }));
await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: "from JavaScript" }));
const { Messages } = await sqs.send(new ReceiveMessageCommand({ QueueUrl, WaitTimeSeconds: 5 }));
assert.equal(Messages?.[0]?.Body, "from JavaScript");
await sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle: Messages[0].ReceiptHandle }));
