import boto3

sqs = boto3.client(
    "sqs",
    endpoint_url="https://sqs.powerqueue.link",
    region_name="us-east-1",
    aws_access_key_id="YOUR-TENANT-IDENTIFIER",
    aws_secret_access_key="any",
)

attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
queue = sqs.create_queue(QueueName="steps.fifo", Attributes=attributes)["QueueUrl"]
for step in ["one", "two", "two", "three"]:  # the second "two" is dropped as a duplicate
    sqs.send_message(QueueUrl=queue, MessageBody=step, MessageGroupId="customer-7")

while messages := sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages"):
    for message in messages:
        print(message["Body"])
        sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
