export AWS_ACCESS_KEY_ID=YOUR-TENANT-IDENTIFIER
export AWS_SECRET_ACCESS_KEY=any AWS_DEFAULT_REGION=us-east-1
sqs() { aws sqs "$@" --output text --endpoint-url https://sqs.powerqueue.link; }

dead=$(sqs create-queue --queue-name work-dead)
arn=$(sqs get-queue-attributes --queue-url "$dead" --attribute-names QueueArn --query Attributes.QueueArn)
policy='{"RedrivePolicy": "{\"deadLetterTargetArn\": \"'$arn'\", \"maxReceiveCount\": 2}"}'
queue=$(sqs create-queue --queue-name work --attributes "$policy")
sqs send-message --queue-url "$queue" --message-body broken >/dev/null

# Received but never deleted. A timeout of 0 gives it back at once, as if the work had failed.
attempt=0
while body=$(sqs receive-message --queue-url "$queue" --visibility-timeout 0 --query '(Messages || `[]`)[].Body') && [ -n "$body" ]; do
  attempt=$((attempt + 1))
  echo "attempt $attempt: $body"
done

sqs receive-message --queue-url "$dead" --wait-time-seconds 5 --query '(Messages || `[]`)[].[ReceiptHandle, Body]' |
  while IFS=$'\t' read -r handle body; do
    echo "in work-dead: $body"
    sqs delete-message --queue-url "$dead" --receipt-handle "$handle"
  done
