export AWS_ACCESS_KEY_ID=YOUR-TENANT-IDENTIFIER
export AWS_SECRET_ACCESS_KEY=any AWS_DEFAULT_REGION=us-east-1
sqs() { aws sqs "$@" --output text --endpoint-url https://sqs.powerqueue.link; }

queue=$(sqs create-queue --queue-name images)
body=$(printf '\x00\xff\x10\x80' | base64)
sqs send-message --queue-url "$queue" --message-body "$body" \
  --message-attributes 'x-pq-body-encoding={DataType=String,StringValue=base64}' >/dev/null

sqs receive-message --queue-url "$queue" --wait-time-seconds 5 --message-attribute-names All \
  --query '(Messages || `[]`)[].[ReceiptHandle, MessageAttributes."x-pq-body-encoding".StringValue, Body]' |
  while IFS=$'\t' read -r handle encoding body; do
    [ "$encoding" != base64 ] || hex=$(echo "$body" | base64 -d | od -An -tx1)
    echo "received $(echo "$hex" | wc -w) bytes:$hex"
    sqs delete-message --queue-url "$queue" --receipt-handle "$handle"
  done
