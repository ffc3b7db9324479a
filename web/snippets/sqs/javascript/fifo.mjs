import { SQS } from "@aws-sdk/client-sqs";

const sqs = new SQS({
  endpoint: "https://sqs.powerqueue.link",
  region: "us-east-1",
  credentials: { accessKeyId: "YOUR-TENANT-IDENTIFIER", secretAccessKey: "any" },
});

const Attributes = { FifoQueue: "true", ContentBasedDeduplication: "true" };
const { QueueUrl } = await sqs.createQueue({ QueueName: "steps.fifo", Attributes });
for (const step of ["one", "two", "two", "three"]) { // the second "two" is dropped as a duplicate
  await sqs.sendMessage({ QueueUrl, MessageBody: step, MessageGroupId: "customer-7" });
}

for (;;) {
  const { Messages = [] } = await sqs.receiveMessage({ QueueUrl, MaxNumberOfMessages: 10 });
  if (Messages.length === 0) break;
  for (const { Body, ReceiptHandle } of Messages) {
    console.log(Body);
    await sqs.deleteMessage({ QueueUrl, ReceiptHandle });
  }
}
