export AWS_ACCESS_KEY_ID=YOUR-TENANT-IDENTIFIER
export AWS_SECRET_ACCESS_KEY=any AWS_DEFAULT_REGION=us-east-1
sqs() { aws sqs "$@" --output text --endpoint-url https://sqs.powerqueue.link; }

queue=$(sqs create-queue --queue-name orders)
sqs send-message --queue-url "$queue" --message-body "hello" >/dev/null

sqs receive-message --queue-url "$queue" --wait-time-seconds 5 --query '(Messages || `[]`)[].[ReceiptHandle, Body]' |
  while IFS=$'\t' read -r handle body; do
    echo "received: $body"
    sqs delete-message --queue-url "$queue" --receipt-handle "$handle"
  done
