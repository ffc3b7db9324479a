package main

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

var ctx = context.Background()

func main() {
	client := sqs.New(sqs.Options{
		BaseEndpoint: aws.String("https://sqs.powerqueue.link"),
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider("YOUR-TENANT-IDENTIFIER", "any", ""),
	})

	queue := must(client.CreateQueue(ctx, &sqs.CreateQueueInput{
		QueueName:  aws.String("steps.fifo"),
		Attributes: map[string]string{"FifoQueue": "true", "ContentBasedDeduplication": "true"},
	})).QueueUrl
	for _, step := range []string{"one", "two", "two", "three"} { // the second "two" is dropped as a duplicate
		must(client.SendMessage(ctx, &sqs.SendMessageInput{
			QueueUrl: queue, MessageBody: &step, MessageGroupId: aws.String("customer-7"),
		}))
	}

	for {
		answer := must(client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: queue, MaxNumberOfMessages: 10,
		}))
		if len(answer.Messages) == 0 {
			break
		}
		for _, message := range answer.Messages {
			fmt.Println(*message.Body)
			must(client.DeleteMessage(ctx, &sqs.DeleteMessageInput{
				QueueUrl: queue, ReceiptHandle: message.ReceiptHandle,
			}))
		}
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
