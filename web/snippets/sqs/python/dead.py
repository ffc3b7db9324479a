import json

import boto3

sqs = boto3.client(
    "sqs",
    endpoint_url="https://sqs.powerqueue.link",
    region_name="us-east-1",
    aws_access_key_id="YOUR-TENANT-IDENTIFIER",
    aws_secret_access_key="any",
)

dead = sqs.create_queue(QueueName="work-dead")["QueueUrl"]
arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 2})
queue = sqs.create_queue(QueueName="work", Attributes={"RedrivePolicy": policy})["QueueUrl"]
sqs.send_message(QueueUrl=queue, MessageBody="broken")

# Received but never deleted. A timeout of 0 gives it back at once, as if the work had failed.
attempt = 0
while messages := sqs.receive_message(QueueUrl=queue, VisibilityTimeout=0).get("Messages"):
    attempt += 1
    print(f"attempt {attempt}: {messages[0]['Body']}")

for message in sqs.receive_message(QueueUrl=dead, WaitTimeSeconds=5).get("Messages", []):
    print("in work-dead:", message["Body"])
    sqs.delete_message(QueueUrl=dead, ReceiptHandle=message["ReceiptHandle"])
