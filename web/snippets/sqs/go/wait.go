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
		QueueName: aws.String("news"),
	})).QueueUrl
	must(client.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl: queue, MessageBody: aws.String("worth the wait"), DelaySeconds: 2,
	}))

	fmt.Println("waiting")
	// Answers as soon as there is a message, and with none after 20 seconds.
	answer := must(client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: queue, WaitTimeSeconds: 20,
	}))
	for _, message := range answer.Messages {
		fmt.Println("received:", *message.Body)
		must(client.DeleteMessage(ctx, &sqs.DeleteMessageInput{
			QueueUrl: queue, ReceiptHandle: message.ReceiptHandle,
		}))
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
