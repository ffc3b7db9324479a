export AWS_ACCESS_KEY_ID=YOUR-TENANT-IDENTIFIER
export AWS_SECRET_ACCESS_KEY=any AWS_DEFAULT_REGION=us-east-1
sqs() { aws sqs "$@" --output text --endpoint-url https://sqs.powerqueue.link; }

queue=$(sqs create-queue --queue-name steps.fifo --attributes FifoQueue=true,ContentBasedDeduplication=true)
for step in one two two three; do # the second "two" is dropped as a duplicate
  sqs send-message --queue-url "$queue" --message-body "$step" --message-group-id customer-7 >/dev/null
done

sqs receive-message --queue-url "$queue" --max-number-of-messages 10 --query '(Messages || `[]`)[].[ReceiptHandle, Body]' |
  while IFS=$'\t' read -r handle body; do
    echo "$body"
    sqs delete-message --queue-url "$queue" --receipt-handle "$handle"
  done
