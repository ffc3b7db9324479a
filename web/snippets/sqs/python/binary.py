import base64

import boto3

sqs = boto3.client(
    "sqs",
    endpoint_url="https://sqs.powerqueue.link",
    region_name="us-east-1",
    aws_access_key_id="YOUR-TENANT-IDENTIFIER",
    aws_secret_access_key="any",
)

queue = sqs.create_queue(QueueName="images")["QueueUrl"]
mark = {"x-pq-body-encoding": {"DataType": "String", "StringValue": "base64"}}
body = base64.b64encode(bytes([0x00, 0xFF, 0x10, 0x80])).decode()
sqs.send_message(QueueUrl=queue, MessageBody=body, MessageAttributes=mark)

answer = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5, MessageAttributeNames=["All"])
for message in answer.get("Messages", []):
    body = message["Body"].encode()
    if "x-pq-body-encoding" in message.get("MessageAttributes", {}):
        body = base64.b64decode(body)
    print(f"received {len(body)} bytes: {body.hex(' ')}")
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
