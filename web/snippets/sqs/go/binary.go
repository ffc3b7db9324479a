package main

import (
	"context"
	"encoding/base64"
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
		QueueName: aws.String("images"),
	})).QueueUrl
	must(client.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl:    queue,
		MessageBody: aws.String(base64.StdEncoding.EncodeToString([]byte{0x00, 0xff, 0x10, 0x80})),
		MessageAttributes: map[string]types.MessageAttributeValue{
			"x-pq-body-encoding": {DataType: aws.String("String"), StringValue: aws.String("base64")},
		},
	}))

	answer := must(client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: queue, WaitTimeSeconds: 5, MessageAttributeNames: []string{"All"},
	}))
	for _, message := range answer.Messages {
		body := []byte(*message.Body)
		if _, marked := message.MessageAttributes["x-pq-body-encoding"]; marked {
			body = must(base64.StdEncoding.DecodeString(*message.Body))
		}
		fmt.Printf("received %d bytes: % x\n", len(body), body)
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
