// Command client makes one exchange, or a presigned URL, signed by the SDK, and prints {"answer": …} or {"error": {…}}.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

type question struct {
	Ask, Name string
	Ago       int
}

// backdated signs as if it were a while ago.
type backdated struct {
	signer *v4.Signer
	by     time.Duration
}

func (b backdated) SignHTTP(ctx context.Context, keys aws.Credentials, r *http.Request, hash, service, region string, at time.Time,
	options ...func(*v4.SignerOptions)) error {
	return b.signer.SignHTTP(ctx, keys, r, hash, service, region, at.Add(-b.by), options...)
}

func main() {
	var asked question
	out := map[string]any{}
	err := json.Unmarshal([]byte(os.Args[1]), &asked)
	if err == nil {
		out["answer"], err = answer(context.Background(), asked)
	}
	if err != nil {
		out = map[string]any{"error": described(err)}
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		os.Exit(1)
	}
}

func described(err error) map[string]any {
	what := map[string]any{"text": err.Error()}
	var api smithy.APIError
	if errors.As(err, &api) {
		what["name"] = api.ErrorCode()
	}
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) {
		what["status"] = response.HTTPStatusCode()
	}
	return what
}

func answer(ctx context.Context, asked question) (any, error) {
	by := time.Duration(asked.Ago) * time.Second
	settings, err := config.LoadDefaultConfig(ctx, config.WithRetryMaxAttempts(1))
	if err != nil {
		return nil, err
	}
	if os.Getenv("AWS_ACCESS_KEY_ID") == "" {
		settings.Credentials = aws.AnonymousCredentials{}
	}
	client := sqs.NewFromConfig(settings, func(o *sqs.Options) { o.HTTPSignerV4 = backdated{v4.NewSigner(), by} })
	switch asked.Ask {
	case "list":
		listed, err := client.ListQueues(ctx, &sqs.ListQueuesInput{})
		if err != nil {
			return nil, err
		}
		return listed.QueueUrls, nil
	case "presign":
		return presign(ctx, settings, asked.Name, by)
	}
	return exchange(ctx, client, asked.Name)
}

func exchange(ctx context.Context, client *sqs.Client, name string) (any, error) {
	made, err := client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name})
	if err != nil {
		return nil, err
	}
	body := "signed ąę <&>"
	if _, err = client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: made.QueueUrl, MessageBody: &body}); err != nil {
		return nil, err
	}
	got, err := client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: made.QueueUrl, WaitTimeSeconds: 5})
	if err != nil {
		return nil, err
	}
	if len(got.Messages) != 1 {
		return nil, errors.New("no message came")
	}
	_, err = client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: made.QueueUrl, ReceiptHandle: got.Messages[0].ReceiptHandle})
	return *got.Messages[0].Body, err
}

func presign(ctx context.Context, settings aws.Config, name string, by time.Duration) (any, error) {
	keys, err := settings.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, err
	}
	query := url.Values{"Action": {"ListQueues"}, "Version": {"2012-11-05"}, "QueueNamePrefix": {name}, "X-Amz-Expires": {"60"}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, os.Getenv("AWS_ENDPOINT_URL_SQS")+"/?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	empty := sha256.Sum256(nil)
	signed, _, err := v4.NewSigner().PresignHTTP(ctx, keys, request, hex.EncodeToString(empty[:]), "sqs", settings.Region, time.Now().Add(-by))
	return signed, err
}
