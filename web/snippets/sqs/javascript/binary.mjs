import { SQS } from "@aws-sdk/client-sqs";

const sqs = new SQS({
  endpoint: "https://sqs.powerqueue.link",
  region: "us-east-1",
  credentials: { accessKeyId: "YOUR-TENANT-IDENTIFIER", secretAccessKey: "any" },
});

const { QueueUrl } = await sqs.createQueue({ QueueName: "images" });
await sqs.sendMessage({
  QueueUrl,
  MessageBody: Buffer.from([0x00, 0xff, 0x10, 0x80]).toString("base64"),
  MessageAttributes: { "x-pq-body-encoding": { DataType: "String", StringValue: "base64" } },
});

const { Messages = [] } = await sqs.receiveMessage({ QueueUrl, WaitTimeSeconds: 5, MessageAttributeNames: ["All"] });
for (const { Body, MessageAttributes = {}, ReceiptHandle } of Messages) {
  const bytes = Buffer.from(Body, MessageAttributes["x-pq-body-encoding"] ? "base64" : "utf8");
  console.log(`received ${bytes.length} bytes: ${bytes.toString("hex").match(/../g).join(" ")}`);
  await sqs.deleteMessage({ QueueUrl, ReceiptHandle });
}
