import { SQS } from "@aws-sdk/client-sqs";

const sqs = new SQS({
  endpoint: "https://sqs.powerqueue.link",
  region: "us-east-1",
  credentials: { accessKeyId: "YOUR-TENANT-IDENTIFIER", secretAccessKey: "any" },
});

const { QueueUrl } = await sqs.createQueue({ QueueName: "parcels" });
const { Successful = [], Failed = [] } = await sqs.sendMessageBatch({
  QueueUrl,
  Entries: [0, 1, 2].map((number) => ({ Id: String(number), MessageBody: `parcel ${number}` })),
});
// A batch may be taken in part: whoever sends looks at both lists.
console.log(`sent ${Successful.length}, refused ${Failed.length}`);

let received = 0, deleted = 0;
while (received < 3) {
  const { Messages = [] } = await sqs.receiveMessage({ QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 5 });
  if (Messages.length === 0) break;
  received += Messages.length;
  const Entries = Messages.map(({ MessageId, ReceiptHandle }) => ({ Id: MessageId, ReceiptHandle }));
  deleted += (await sqs.deleteMessageBatch({ QueueUrl, Entries })).Successful.length;
}
console.log(`received ${received}, deleted ${deleted}`);
