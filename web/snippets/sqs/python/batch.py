import boto3

sqs = boto3.client(
    "sqs",
    endpoint_url="https://sqs.powerqueue.link",
    region_name="us-east-1",
    aws_access_key_id="YOUR-TENANT-IDENTIFIER",
    aws_secret_access_key="any",
)

queue = sqs.create_queue(QueueName="parcels")["QueueUrl"]
entries = [{"Id": str(number), "MessageBody": f"parcel {number}"} for number in range(3)]
answer = sqs.send_message_batch(QueueUrl=queue, Entries=entries)
# A batch may be taken in part: whoever sends looks at both lists.
print(f"sent {len(answer.get('Successful', []))}, refused {len(answer.get('Failed', []))}")

received = deleted = 0
while received < 3:
    answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=5)
    messages = answer.get("Messages", [])
    if not messages:
        break
    received += len(messages)
    done = [{"Id": m["MessageId"], "ReceiptHandle": m["ReceiptHandle"]} for m in messages]
    deleted += len(sqs.delete_message_batch(QueueUrl=queue, Entries=done)["Successful"])
print(f"received {received}, deleted {deleted}")
