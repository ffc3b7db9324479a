export AWS_ACCESS_KEY_ID=YOUR-TENANT-IDENTIFIER
export AWS_SECRET_ACCESS_KEY=any AWS_DEFAULT_REGION=us-east-1
sqs() { aws sqs "$@" --output text --endpoint-url https://sqs.powerqueue.link; }

queue=$(sqs create-queue --queue-name parcels)
# A batch may be taken in part: whoever sends looks at both lists.
read -r sent refused < <(sqs send-message-batch --queue-url "$queue" \
  --entries Id=0,MessageBody=parcel-0 Id=1,MessageBody=parcel-1 Id=2,MessageBody=parcel-2 \
  --query '[length(Successful || `[]`), length(Failed || `[]`)]')
echo "sent $sent, refused $refused"

received=0 deleted=0
while [ "$received" -lt 3 ]; do
  # "Id=…,ReceiptHandle=…" for each message, as delete-message-batch takes them
  mapfile -t receipts < <(sqs receive-message --queue-url "$queue" --max-number-of-messages 10 --wait-time-seconds 5 \
    --query "(Messages || \`[]\`)[].[join('', ['Id=', MessageId, ',ReceiptHandle=', ReceiptHandle])]")
  [ "${#receipts[@]}" -gt 0 ] || break
  received=$((received + ${#receipts[@]}))
  deleted=$((deleted + $(sqs delete-message-batch --queue-url "$queue" --entries "${receipts[@]}" --query 'length(Successful)')))
done
echo "received $received, deleted $deleted"
