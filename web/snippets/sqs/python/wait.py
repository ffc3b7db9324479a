import boto3

sqs = boto3.client(
    "sqs",
    endpoint_url="https://sqs.powerqueue.link",
    region_name="us-east-1",
    aws_access_key_id="YOUR-TENANT-IDENTIFIER",
    aws_secret_access_key="any",
)

queue = sqs.create_queue(QueueName="news")["QueueUrl"]
sqs.send_message(QueueUrl=queue, MessageBody="worth the wait", DelaySeconds=2)

print("waiting")
# Answers as soon as there is a message, and with none after 20 seconds.
answer = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20)
for message in answer.get("Messages", []):
    print("received:", message["Body"])
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
