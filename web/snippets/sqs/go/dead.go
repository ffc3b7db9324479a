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

	dead := must(client.CreateQueue(ctx, &sqs.CreateQueueInput{
		QueueName: aws.String("work-dead"),
	})).QueueUrl
	arn := must(client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: dead, AttributeNames: []types.QueueAttributeName{"QueueArn"},
	})).Attributes["QueueArn"]
	policy := fmt.Sprintf(`{"deadLetterTargetArn": %q, "maxReceiveCount": 2}`, arn)
	queue := must(client.CreateQueue(ctx, &sqs.CreateQueueInput{
		QueueName: aws.String("work"), Attributes: map[string]string{"RedrivePolicy": policy},
	})).QueueUrl
	must(client.SendMessage(ctx, &sqs.SendMessageInput{
		QueueUrl: queue, MessageBody: aws.String("broken"),
	}))

	// Received but never deleted. Making it visible again at once is what a failed piece of work does.
	for attempt := 1; ; attempt++ {
		answer := must(client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: queue}))
		if len(answer.Messages) == 0 {
			break
		}
		message := answer.Messages[0]
		fmt.Printf("attempt %d: %s\n", attempt, *message.Body)
		must(client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
			QueueUrl: queue, ReceiptHandle: message.ReceiptHandle, VisibilityTimeout: 0,
		}))
	}

	answer := must(client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: dead, WaitTimeSeconds: 5,
	}))
	for _, message := range answer.Messages {
		fmt.Println("in work-dead:", *message.Body)
		must(client.DeleteMessage(ctx, &sqs.DeleteMessageInput{
			QueueUrl: dead, ReceiptHandle: message.ReceiptHandle,
		}))
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
