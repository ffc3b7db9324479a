// Package compat holds the suite of the AWS SDK for Go v2. The SDK checks body digests itself, on sends and on receives.
package compat

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
)

// promptly is far above any wake-up and far below the twenty seconds that a poll would wait.
const promptly = 5 * time.Second

var expected struct {
	Bodies        map[string]struct{ Body, MD5 string }
	Attributes    map[string]struct{ DataType, StringValue, BinaryBase64 string }
	AttributesMD5 string            `json:"attributes_md5"`
	Standard      map[string]string `json:"standard_queue_attributes"`
	Errors        map[string]struct{ Shape, Code, Message string }
}

func TestMain(m *testing.M) {
	text, err := os.ReadFile(os.Getenv("COMPAT_EXPECTATIONS"))
	if err == nil {
		err = json.Unmarshal(text, &expected)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the shared expectations:", err)
		os.Exit(2)
	}
	os.Exit(m.Run())
}

// clientOf answers a client whose endpoint comes from the environment; one attempt, so that no retry hides an error.
func clientOf(t *testing.T, prefix string) *sqs.Client {
	t.Helper()
	keys := credentials.NewStaticCredentialsProvider(os.Getenv(prefix+"_ACCESS_KEY_ID"), os.Getenv(prefix+"_SECRET_ACCESS_KEY"), "")
	settings, err := config.LoadDefaultConfig(t.Context(), config.WithCredentialsProvider(keys), config.WithRetryMaxAttempts(1))
	must(t, err)
	return sqs.NewFromConfig(settings)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: %v instead of %v", what, got, want)
	}
}

// queue is a queue of one tenant in one test.
type queue struct {
	t      *testing.T
	client *sqs.Client
	url    string
}

func create(t *testing.T, client *sqs.Client, attributes map[string]string) queue {
	t.Helper()
	random := make([]byte, 8)
	_, _ = rand.Read(random)
	name := "q-" + hex.EncodeToString(random)
	if attributes["FifoQueue"] == "true" {
		name += ".fifo"
	}
	answer, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	must(t, err)
	return queue{t, client, *answer.QueueUrl}
}

func (q queue) send(body string) *sqs.SendMessageOutput {
	q.t.Helper()
	answer, err := q.client.SendMessage(q.t.Context(), &sqs.SendMessageInput{QueueUrl: &q.url, MessageBody: &body})
	must(q.t, err)
	return answer
}

func (q queue) sendGroup(group string, bodies ...string) {
	q.t.Helper()
	for _, body := range bodies {
		_, err := q.client.SendMessage(q.t.Context(), &sqs.SendMessageInput{
			QueueUrl: &q.url, MessageBody: &body, MessageGroupId: &group, MessageDeduplicationId: &body})
		must(q.t, err)
	}
}

// receive takes one receive's messages. The SDK leaves a wait of 0 out of its request, which then means the queue's own, 0.
func (q queue) receive(wait, visibility int32) []types.Message {
	q.t.Helper()
	answer, err := q.client.ReceiveMessage(q.t.Context(), &sqs.ReceiveMessageInput{
		QueueUrl: &q.url, MaxNumberOfMessages: 10, WaitTimeSeconds: wait, VisibilityTimeout: visibility,
		MessageAttributeNames: []string{"All"}, MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"}})
	must(q.t, err)
	return answer.Messages
}

func (q queue) receiveUntil(number int, visibility int32) []types.Message {
	q.t.Helper()
	var got []types.Message
	for end := time.Now().Add(20 * time.Second); len(got) < number && time.Now().Before(end); {
		got = append(got, q.receive(2, visibility)...)
	}
	equal(q.t, "messages", len(got), number)
	return got
}

func (q queue) delete(message types.Message) {
	q.t.Helper()
	_, err := q.client.DeleteMessage(q.t.Context(), &sqs.DeleteMessageInput{QueueUrl: &q.url, ReceiptHandle: message.ReceiptHandle})
	must(q.t, err)
}

func (q queue) changeVisibility(message types.Message, seconds int32) {
	q.t.Helper()
	_, err := q.client.ChangeMessageVisibility(q.t.Context(), &sqs.ChangeMessageVisibilityInput{
		QueueUrl: &q.url, ReceiptHandle: message.ReceiptHandle, VisibilityTimeout: seconds})
	must(q.t, err)
}

func (q queue) attributes() map[string]string {
	q.t.Helper()
	answer, err := q.client.GetQueueAttributes(q.t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: &q.url, AttributeNames: []types.QueueAttributeName{"All"}})
	must(q.t, err)
	return answer.Attributes
}

func (q queue) wants(messages []types.Message, bodies ...string) {
	q.t.Helper()
	var got []string
	for _, message := range messages {
		got = append(got, *message.Body)
	}
	if !slices.Equal(got, bodies) {
		q.t.Fatalf("received %q instead of %q", got, bodies)
	}
}

// refused expects the error of that name in the shared expectations as the SDK's own type.
func refused[E error](t *testing.T, err error, name string) {
	t.Helper()
	var own E
	if !errors.As(err, &own) {
		t.Fatalf("%v is no %T", err, own)
	}
	var answered smithy.APIError
	if !errors.As(err, &answered) {
		t.Fatalf("%v was not answered by the service", err)
	}
	equal(t, "code", answered.ErrorCode(), expected.Errors[name].Code)
	if text := expected.Errors[name].Message; text != "" {
		equal(t, "message", answered.ErrorMessage(), text)
	}
}

func TestANewQueueHasTheServicesDefaultAttributes(t *testing.T) {
	got := create(t, clientOf(t, "AWS"), nil).attributes()
	for name, value := range expected.Standard {
		equal(t, name, got[name], value)
	}
}

func TestABodyComesBackExactlyAsSent(t *testing.T) {
	for kind, want := range expected.Bodies {
		t.Run(kind, func(t *testing.T) {
			q := create(t, clientOf(t, "AWS"), nil)
			equal(t, "digest of the send", *q.send(want.Body).MD5OfMessageBody, want.MD5)
			message := q.receiveUntil(1, 30)[0]
			equal(t, "body", *message.Body, want.Body)
			equal(t, "digest", *message.MD5OfBody, want.MD5)
		})
	}
}

func TestAttributesOfEveryTypeComeBackExactlyAsSent(t *testing.T) {
	q := create(t, clientOf(t, "AWS"), nil)
	attributes := map[string]types.MessageAttributeValue{}
	for name, value := range expected.Attributes {
		attribute := types.MessageAttributeValue{DataType: &value.DataType}
		if value.BinaryBase64 != "" {
			attribute.BinaryValue, _ = base64.StdEncoding.DecodeString(value.BinaryBase64)
		} else {
			attribute.StringValue = &value.StringValue
		}
		attributes[name] = attribute
	}
	body := "m"
	sent, err := q.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &q.url, MessageBody: &body, MessageAttributes: attributes})
	must(t, err)
	equal(t, "digest of the send", *sent.MD5OfMessageAttributes, expected.AttributesMD5)
	message := q.receiveUntil(1, 30)[0]
	equal(t, "digest", *message.MD5OfMessageAttributes, expected.AttributesMD5)
	equal(t, "number", len(message.MessageAttributes), len(attributes))
	for name, want := range attributes {
		got := message.MessageAttributes[name]
		equal(t, name, *got.DataType, *want.DataType)
		if want.StringValue != nil {
			equal(t, name, *got.StringValue, *want.StringValue)
		} else if !bytes.Equal(got.BinaryValue, want.BinaryValue) {
			t.Fatalf("%s: %x instead of %x", name, got.BinaryValue, want.BinaryValue)
		}
	}
}

func TestABatchAnswersEachEntryByItsIdAndABadOneFailsAlone(t *testing.T) {
	q := create(t, clientOf(t, "AWS"), nil)
	entry := func(id, body string) types.SendMessageBatchRequestEntry {
		return types.SendMessageBatchRequestEntry{Id: &id, MessageBody: &body}
	}
	sent, err := q.client.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{
		QueueUrl: &q.url, Entries: []types.SendMessageBatchRequestEntry{entry("a", "one"), entry("bad", "\x01"), entry("b", "two")}})
	must(t, err)
	equal(t, "successful", len(sent.Successful), 2)
	equal(t, "failed", len(sent.Failed), 1)
	equal(t, "failed id", *sent.Failed[0].Id, "bad")
	equal(t, "failed code", *sent.Failed[0].Code, "InvalidMessageContents")
	var entries []types.DeleteMessageBatchRequestEntry
	for n, message := range q.receiveUntil(2, 30) {
		id := fmt.Sprint("d", n)
		entries = append(entries, types.DeleteMessageBatchRequestEntry{Id: &id, ReceiptHandle: message.ReceiptHandle})
	}
	bad, garbage := "bad", "garbage"
	entries = append(entries, types.DeleteMessageBatchRequestEntry{Id: &bad, ReceiptHandle: &garbage})
	deleted, err := q.client.DeleteMessageBatch(t.Context(), &sqs.DeleteMessageBatchInput{QueueUrl: &q.url, Entries: entries})
	must(t, err)
	equal(t, "deleted", len(deleted.Successful), 2)
	equal(t, "not deleted", *deleted.Failed[0].Code, "ReceiptHandleIsInvalid")
}

func TestAWaitingReceiveReturnsWhenAnotherClientSends(t *testing.T) {
	q := create(t, clientOf(t, "AWS"), nil)
	got := make(chan []types.Message, 1)
	go func() {
		answer, err := q.client.ReceiveMessage(context.Background(), &sqs.ReceiveMessageInput{QueueUrl: &q.url, WaitTimeSeconds: 20})
		if err != nil {
			answer = &sqs.ReceiveMessageOutput{}
		}
		got <- answer.Messages
	}()
	time.Sleep(500 * time.Millisecond)
	queue{t, clientOf(t, "AWS"), q.url}.send("woken")
	select {
	case messages := <-got:
		q.wants(messages, "woken")
	case <-time.After(promptly):
		t.Fatal("the receive still waits")
	}
}

func TestATakenMessageIsHiddenUntilItIsGivenBackAndGoneOnceDeleted(t *testing.T) {
	q := create(t, clientOf(t, "AWS"), nil)
	q.send("m")
	first := q.receiveUntil(1, 600)[0]
	equal(t, "count", first.Attributes["ApproximateReceiveCount"], "1")
	q.wants(q.receive(0, 30))
	q.changeVisibility(first, 0)
	again := q.receiveUntil(1, 1)[0]
	equal(t, "count", again.Attributes["ApproximateReceiveCount"], "2")
	q.delete(again)
	time.Sleep(1300 * time.Millisecond)
	q.wants(q.receive(1, 30))
}

func TestAFifoQueueKeepsOrderLocksItsGroupsAndDropsDuplicates(t *testing.T) {
	q := create(t, clientOf(t, "AWS"), map[string]string{"FifoQueue": "true"})
	q.sendGroup("a", "a1", "a2", "a1")
	q.sendGroup("b", "b1")
	got := q.receive(2, 600)
	q.wants(got, "a1", "a2", "b1")
	q.sendGroup("a", "a3")
	q.delete(got[0])
	q.wants(q.receive(1, 30))
	q.delete(got[1])
	q.wants(q.receiveUntil(1, 30), "a3")
}

func TestRedriveMovesAMessageAfterItsLastReceive(t *testing.T) {
	client := clientOf(t, "AWS")
	dead := create(t, client, nil)
	policy := fmt.Sprintf(`{"deadLetterTargetArn": %q, "maxReceiveCount": 1}`, dead.attributes()["QueueArn"])
	q := create(t, client, map[string]string{"RedrivePolicy": policy, "VisibilityTimeout": "1"})
	sent := q.send("poison")
	q.wants(q.receiveUntil(1, 1), "poison")
	time.Sleep(1200 * time.Millisecond)
	q.wants(q.receive(1, 1))
	letters := dead.receiveUntil(1, 30)
	dead.wants(letters, "poison")
	equal(t, "message id", *letters[0].MessageId, *sent.MessageId)
	equal(t, "source", letters[0].Attributes["DeadLetterQueueSourceArn"], q.attributes()["QueueArn"])
}

func TestTagsAreAddedListedAndRemoved(t *testing.T) {
	q := create(t, clientOf(t, "AWS"), nil)
	_, err := q.client.TagQueue(t.Context(), &sqs.TagQueueInput{QueueUrl: &q.url, Tags: map[string]string{"team": "blue", "kind": ""}})
	must(t, err)
	_, err = q.client.UntagQueue(t.Context(), &sqs.UntagQueueInput{QueueUrl: &q.url, TagKeys: []string{"kind"}})
	must(t, err)
	listed, err := q.client.ListQueueTags(t.Context(), &sqs.ListQueueTagsInput{QueueUrl: &q.url})
	must(t, err)
	equal(t, "tags", fmt.Sprint(listed.Tags), "map[team:blue]")
}

func TestListingPagesThroughTheQueuesOfAPrefix(t *testing.T) {
	client := clientOf(t, "AWS")
	prefix := create(t, client, nil).url
	prefix = prefix[strings.LastIndex(prefix, "/")+1:]
	for n := range 4 {
		name := fmt.Sprintf("%s-%d", prefix, n)
		_, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name})
		must(t, err)
	}
	size := int32(2)
	pages := sqs.NewListQueuesPaginator(client, &sqs.ListQueuesInput{QueueNamePrefix: &prefix, MaxResults: &size})
	found := map[string]bool{}
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		must(t, err)
		for _, url := range page.QueueUrls {
			found[url] = true
		}
	}
	equal(t, "queues", len(found), 5)
}

func TestErrorsAreTheTypesOfTheSdk(t *testing.T) {
	q := create(t, clientOf(t, "AWS"), nil)
	_, err := q.client.PurgeQueue(t.Context(), &sqs.PurgeQueueInput{QueueUrl: &q.url})
	must(t, err)
	_, err = q.client.PurgeQueue(t.Context(), &sqs.PurgeQueueInput{QueueUrl: &q.url})
	refused[*types.PurgeQueueInProgress](t, err, "purge in progress")
	garbage := "garbage"
	_, err = q.client.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: &q.url, ReceiptHandle: &garbage})
	refused[*types.ReceiptHandleIsInvalid](t, err, "garbage handle")
	bad := "\x00"
	_, err = q.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &q.url, MessageBody: &bad})
	refused[*types.InvalidMessageContents](t, err, "bad characters")
	_, err = q.client.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: &q.url, Entries: []types.SendMessageBatchRequestEntry{}})
	refused[*types.EmptyBatchRequest](t, err, "empty batch")
	name := q.url[strings.LastIndex(q.url, "/")+1:]
	_, err = q.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: map[string]string{"VisibilityTimeout": "41"}})
	refused[*types.QueueNameExists](t, err, "different attributes")
	_, err = q.client.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: &q.url})
	must(t, err)
	_, err = q.client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &q.url})
	refused[*types.QueueDoesNotExist](t, err, "missing queue")
}

func TestTenantsDoNotSeeEachOther(t *testing.T) {
	q, other := create(t, clientOf(t, "AWS"), nil), clientOf(t, "OTHER")
	q.send("secret")
	listed, err := other.ListQueues(t.Context(), &sqs.ListQueuesInput{})
	must(t, err)
	if slices.Contains(listed.QueueUrls, q.url) {
		t.Fatal("the other tenant lists the queue")
	}
	_, err = other.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &q.url})
	refused[*types.QueueDoesNotExist](t, err, "missing queue")
	q.wants(q.receiveUntil(1, 30), "secret")
}
