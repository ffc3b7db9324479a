import { SQS } from "@aws-sdk/client-sqs";

const sqs = new SQS({
  endpoint: "https://sqs.powerqueue.link",
  region: "us-east-1",
  credentials: { accessKeyId: "YOUR-TENANT-IDENTIFIER", secretAccessKey: "any" },
});

const { QueueUrl } = await sqs.createQueue({ QueueName: "orders" });
await sqs.sendMessage({ QueueUrl, MessageBody: "hello" });

const { Messages = [] } = await sqs.receiveMessage({ QueueUrl, WaitTimeSeconds: 5 });
for (const { Body, ReceiptHandle } of Messages) {
  console.log("received:", Body);
  await sqs.deleteMessage({ QueueUrl, ReceiptHandle });
}
