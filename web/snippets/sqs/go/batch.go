package main

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

var ctx = context.Background()

func main() {
	client := sqs.New(sqs.Options{
		BaseEndpoint: aws.String("https://sqs.powerqueue.link"),
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider("YOUR-TENANT-IDENTIFIER", "any", ""),
	})

	queue := must(client.CreateQueue(ctx, &sqs.CreateQueueInput{
		QueueName: aws.String("parcels"),
	})).QueueUrl
	var entries []types.SendMessageBatchRequestEntry
	for number := range 3 {
		entries = append(entries, types.SendMessageBatchRequestEntry{
			Id: aws.String(fmt.Sprint(number)), MessageBody: aws.String(fmt.Sprint("parcel ", number)),
		})
	}
	sent := must(client.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{
		QueueUrl: queue, Entries: entries,
	}))
	// A batch may be taken in part: whoever sends looks at both lists.
	fmt.Printf("sent %d, refused %d\n", len(sent.Successful), len(sent.Failed))

	received, deleted := 0, 0
	for received < 3 {
		answer := must(client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: queue, MaxNumberOfMessages: 10, WaitTimeSeconds: 5,
		}))
		if len(answer.Messages) == 0 {
			break
		}
		received += len(answer.Messages)
		var done []types.DeleteMessageBatchRequestEntry
		for _, message := range answer.Messages {
			done = append(done, types.DeleteMessageBatchRequestEntry{Id: message.MessageId, ReceiptHandle: message.ReceiptHandle})
		}
		deleted += len(must(client.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{
			QueueUrl: queue, Entries: done,
		})).Successful)
	}
	fmt.Printf("received %d, deleted %d\n", received, deleted)
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
