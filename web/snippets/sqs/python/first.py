import boto3

sqs = boto3.client(
    "sqs",
    endpoint_url="https://sqs.powerqueue.link",
    region_name="us-east-1",
    aws_access_key_id="YOUR-TENANT-IDENTIFIER",
    aws_secret_access_key="any",
)

queue = sqs.create_queue(QueueName="orders")["QueueUrl"]
sqs.send_message(QueueUrl=queue, MessageBody="hello")

answer = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5)
for message in answer.get("Messages", []):
    print("received:", message["Body"])
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
