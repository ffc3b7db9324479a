import { SQS } from "@aws-sdk/client-sqs";

const sqs = new SQS({
  endpoint: "https://sqs.powerqueue.link",
  region: "us-east-1",
  credentials: { accessKeyId: "YOUR-TENANT-IDENTIFIER", secretAccessKey: "any" },
});

const { QueueUrl: dead } = await sqs.createQueue({ QueueName: "work-dead" });
const { Attributes } = await sqs.getQueueAttributes({ QueueUrl: dead, AttributeNames: ["QueueArn"] });
const RedrivePolicy = JSON.stringify({ deadLetterTargetArn: Attributes.QueueArn, maxReceiveCount: 2 });
const { QueueUrl } = await sqs.createQueue({ QueueName: "work", Attributes: { RedrivePolicy } });
await sqs.sendMessage({ QueueUrl, MessageBody: "broken" });

// Received but never deleted. A timeout of 0 gives it back at once, as if the work had failed.
for (let attempt = 1; ; attempt++) {
  const { Messages = [] } = await sqs.receiveMessage({ QueueUrl, VisibilityTimeout: 0 });
  if (Messages.length === 0) break;
  console.log(`attempt ${attempt}: ${Messages[0].Body}`);
}

const { Messages = [] } = await sqs.receiveMessage({ QueueUrl: dead, WaitTimeSeconds: 5 });
for (const { Body, ReceiptHandle } of Messages) {
  console.log("in work-dead:", Body);
  await sqs.deleteMessage({ QueueUrl: dead, ReceiptHandle });
}
