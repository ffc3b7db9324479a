// One exchange, or a presigned URL, signed by the SDK. Prints {"answer": …} or {"error": {"name", "status"}} as one line of JSON.
import {
  CreateQueueCommand, DeleteMessageCommand, ListQueuesCommand, ReceiveMessageCommand, SQSClient, SendMessageCommand,
} from "@aws-sdk/client-sqs";
import { createHash, createHmac } from "node:crypto";
import { SignatureV4 } from "@smithy/signature-v4";

const { ask, name, ago = 0 } = JSON.parse(process.argv[2]);

const client = () => new SQSClient({
  maxAttempts: 1,
  systemClockOffset: -ago * 1000,
  ...(process.env.AWS_ACCESS_KEY_ID ? {} : { signer: { sign: async (request) => request }, credentials: { accessKeyId: "", secretAccessKey: "" } }),
});

class Sha256 {
  constructor(secret) { this.hash = secret ? createHmac("sha256", secret) : createHash("sha256"); }
  update(data) { this.hash.update(data); }
  async digest() { return new Uint8Array(this.hash.digest()); }
}

const asked = {
  async exchange() {
    const sqs = client();
    const { QueueUrl } = await sqs.send(new CreateQueueCommand({ QueueName: name }));
    await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: "signed ąę <&>" }));
    const { Messages } = await sqs.send(new ReceiveMessageCommand({ QueueUrl, WaitTimeSeconds: 5 }));
    await sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle: Messages[0].ReceiptHandle }));
    return Messages[0].Body;
  },
  async list() {
    return (await client().send(new ListQueuesCommand({}))).QueueUrls ?? [];
  },
  async presign() {
    const endpoint = new URL(process.env.AWS_ENDPOINT_URL_SQS);
    const credentials = { accessKeyId: process.env.AWS_ACCESS_KEY_ID, secretAccessKey: process.env.AWS_SECRET_ACCESS_KEY };
    const signer = new SignatureV4({ service: "sqs", region: process.env.AWS_REGION, credentials, sha256: Sha256 });
    const query = { Action: "ListQueues", Version: "2012-11-05", QueueNamePrefix: name };
    const request = {
      method: "GET", protocol: endpoint.protocol, hostname: endpoint.hostname, port: Number(endpoint.port), path: "/",
      headers: { host: endpoint.host }, query,
    };
    const signed = await signer.presign(request, { expiresIn: 60, signingDate: new Date(Date.now() - ago * 1000) });
    return `${endpoint.origin}/?${new URLSearchParams(signed.query)}`;
  },
};

try {
  console.log(JSON.stringify({ answer: await asked[ask]() }));
} catch (error) {
  console.log(JSON.stringify({ error: { name: error.name, status: error.$metadata?.httpStatusCode, text: error.message } }));
}
