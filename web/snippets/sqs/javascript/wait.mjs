import { SQS } from "@aws-sdk/client-sqs";

const sqs = new SQS({
  endpoint: "https://sqs.powerqueue.link",
  region: "us-east-1",
  credentials: { accessKeyId: "YOUR-TENANT-IDENTIFIER", secretAccessKey: "any" },
});

const { QueueUrl } = await sqs.createQueue({ QueueName: "news" });
await sqs.sendMessage({ QueueUrl, MessageBody: "worth the wait", DelaySeconds: 2 });

console.log("waiting");
// Answers as soon as there is a message, and with none after 20 seconds.
const { Messages = [] } = await sqs.receiveMessage({ QueueUrl, WaitTimeSeconds: 20 });
for (const { Body, ReceiptHandle } of Messages) {
  console.log("received:", Body);
  await sqs.deleteMessage({ QueueUrl, ReceiptHandle });
}
