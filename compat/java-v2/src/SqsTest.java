import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;
import java.net.URI;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.core.SdkBytes;
import software.amazon.awssdk.core.retry.RetryPolicy;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.sqs.SqsClient;
import software.amazon.awssdk.services.sqs.model.*;

/** The second Java SDK. It checks the digests of bodies and of message attributes itself and throws if one is wrong. */
class SqsTest {
    static final JsonNode EXPECTED = expectations();
    static final SqsClient SQS = clientOf("AWS");
    static final SqsClient OTHER_TENANT = clientOf("OTHER");

    /** Seconds; far above any wake-up, far below the twenty that a poll would wait. */
    static final int PROMPTLY = 5;

    static JsonNode expectations() {
        try {
            return new ObjectMapper().readTree(new File(System.getenv("COMPAT_EXPECTATIONS")));
        } catch (IOException failure) {
            throw new IllegalStateException(failure);
        }
    }

    static SqsClient clientOf(String prefix) {
        return SqsClient.builder()
                .endpointOverride(URI.create(System.getenv("AWS_ENDPOINT_URL_SQS")))
                .region(Region.of(System.getenv("AWS_REGION")))
                .credentialsProvider(StaticCredentialsProvider.create(AwsBasicCredentials.create(
                        System.getenv(prefix + "_ACCESS_KEY_ID"), System.getenv(prefix + "_SECRET_ACCESS_KEY"))))
                .overrideConfiguration(settings -> settings.retryPolicy(RetryPolicy.none()))
                .build();
    }

    static String create(Map<QueueAttributeName, String> attributes) {
        String name = "q-" + UUID.randomUUID() + (attributes.containsKey(QueueAttributeName.FIFO_QUEUE) ? ".fifo" : "");
        return SQS.createQueue(queue -> queue.queueName(name).attributes(attributes)).queueUrl();
    }

    static String create() {
        return create(Map.of());
    }

    static String attribute(String url, QueueAttributeName name) {
        return SQS.getQueueAttributes(queue -> queue.queueUrl(url).attributeNames(name)).attributes().get(name);
    }

    static SendMessageResponse send(String url, String body) {
        return SQS.sendMessage(message -> message.queueUrl(url).messageBody(body));
    }

    static SendMessageResponse sendToGroup(String url, String body, String group, String deduplicationId) {
        return SQS.sendMessage(message -> message.queueUrl(url).messageBody(body).messageGroupId(group)
                .messageDeduplicationId(deduplicationId));
    }

    static List<Message> receive(String url, int wait, Integer visibility) {
        return SQS.receiveMessage(request -> request.queueUrl(url).maxNumberOfMessages(10).waitTimeSeconds(wait)
                .visibilityTimeout(visibility).messageAttributeNames("All")
                .messageSystemAttributeNames(MessageSystemAttributeName.ALL)).messages();
    }

    static List<Message> receiveUntil(String url, int number, Integer visibility) {
        List<Message> got = new ArrayList<>();
        for (long end = System.nanoTime() + 20_000_000_000L; got.size() < number && System.nanoTime() < end; ) {
            got.addAll(receive(url, 2, visibility));
        }
        assertEquals(number, got.size(), () -> "messages: " + bodies(got));
        return got;
    }

    static void delete(String url, Message message) {
        SQS.deleteMessage(request -> request.queueUrl(url).receiptHandle(message.receiptHandle()));
    }

    static List<String> bodies(List<Message> messages) {
        return messages.stream().map(Message::body).toList();
    }

    /** Expects the error of that name in the shared expectations, thrown as the SDK's own class. */
    static void refused(Class<? extends SqsException> type, String name, Runnable call) {
        SqsException error = assertThrows(type, call::run);
        JsonNode expected = EXPECTED.get("errors").get(name);
        assertEquals(expected.get("code").asText(), error.awsErrorDetails().errorCode());
        if (expected.has("status")) {
            assertEquals(expected.get("status").asInt(), error.statusCode());
        }
        if (expected.has("message")) {
            assertEquals(expected.get("message").asText(), error.awsErrorDetails().errorMessage());
        }
    }

    static Stream<String> kindsOfBodies() {
        List<String> kinds = new ArrayList<>();
        EXPECTED.get("bodies").fieldNames().forEachRemaining(kinds::add);
        return kinds.stream();
    }

    @ParameterizedTest
    @MethodSource("kindsOfBodies")
    void a_body_comes_back_exactly_as_sent(String kind) {
        JsonNode expected = EXPECTED.get("bodies").get(kind);
        String url = create();
        assertEquals(expected.get("md5").asText(), send(url, expected.get("body").asText()).md5OfMessageBody());
        Message message = receiveUntil(url, 1, 30).get(0);
        assertEquals(expected.get("body").asText(), message.body());
        assertEquals(expected.get("md5").asText(), message.md5OfBody());
    }

    @Test
    void a_new_queue_has_the_services_default_attributes() {
        Map<String, String> got = SQS.getQueueAttributes(queue -> queue.queueUrl(create()).attributeNames(QueueAttributeName.ALL))
                .attributesAsStrings();
        EXPECTED.get("standard_queue_attributes").fields()
                .forEachRemaining(field -> assertEquals(field.getValue().asText(), got.get(field.getKey()), field.getKey()));
    }

    @Test
    void attributes_of_every_type_come_back_exactly_as_sent() {
        Map<String, MessageAttributeValue> attributes = new HashMap<>();
        EXPECTED.get("attributes").fields().forEachRemaining(field -> {
            JsonNode value = field.getValue();
            MessageAttributeValue.Builder attribute = MessageAttributeValue.builder().dataType(value.get("DataType").asText());
            attributes.put(field.getKey(), value.has("BinaryBase64")
                    ? attribute.binaryValue(SdkBytes.fromByteArray(Base64.getDecoder().decode(value.get("BinaryBase64").asText()))).build()
                    : attribute.stringValue(value.get("StringValue").asText()).build());
        });
        String url = create();
        SendMessageResponse sent = SQS.sendMessage(message -> message.queueUrl(url).messageBody("m").messageAttributes(attributes));
        assertEquals(EXPECTED.get("attributes_md5").asText(), sent.md5OfMessageAttributes());
        Message message = receiveUntil(url, 1, 30).get(0);
        assertEquals(EXPECTED.get("attributes_md5").asText(), message.md5OfMessageAttributes());
        assertEquals(new TreeMap<>(attributes), new TreeMap<>(message.messageAttributes()));
    }

    @Test
    void a_batch_answers_each_entry_by_its_id_and_a_bad_one_fails_alone() {
        String url = create();
        SendMessageBatchResponse sent = SQS.sendMessageBatch(batch -> batch.queueUrl(url).entries(
                Stream.of("good", "\u0001", "fine").map(body -> SendMessageBatchRequestEntry.builder()
                        .id(body.length() == 1 ? "bad" : body).messageBody(body).build()).toList()));
        assertEquals(List.of("good", "fine"), sent.successful().stream().map(SendMessageBatchResultEntry::id).toList());
        assertEquals(List.of("bad"), sent.failed().stream().map(BatchResultErrorEntry::id).toList());
        assertEquals("InvalidMessageContents", sent.failed().get(0).code());
        List<Message> taken = receiveUntil(url, 2, 600);
        ChangeMessageVisibilityBatchResponse changed = SQS.changeMessageVisibilityBatch(batch -> batch.queueUrl(url).entries(
                IntStream.range(0, 2).mapToObj(n -> ChangeMessageVisibilityBatchRequestEntry.builder().id("v" + n)
                        .receiptHandle(taken.get(n).receiptHandle()).visibilityTimeout(0).build()).toList()));
        assertEquals(2, changed.successful().size());
        List<DeleteMessageBatchRequestEntry> entries = new ArrayList<>();
        for (Message message : receiveUntil(url, 2, 600)) {
            entries.add(DeleteMessageBatchRequestEntry.builder().id("d" + entries.size()).receiptHandle(message.receiptHandle()).build());
        }
        entries.add(DeleteMessageBatchRequestEntry.builder().id("bad").receiptHandle("garbage").build());
        DeleteMessageBatchResponse deleted = SQS.deleteMessageBatch(batch -> batch.queueUrl(url).entries(entries));
        assertEquals(2, deleted.successful().size());
        assertEquals("ReceiptHandleIsInvalid", deleted.failed().get(0).code());
    }

    @Test
    void a_waiting_receive_returns_when_another_client_sends() throws Exception {
        String url = create();
        CompletableFuture<List<Message>> waiting = CompletableFuture.supplyAsync(() -> receive(url, 20, 30));
        Thread.sleep(500);
        assertFalse(waiting.isDone());
        try (SqsClient another = clientOf("AWS")) {
            another.sendMessage(message -> message.queueUrl(url).messageBody("woken"));
        }
        assertEquals(List.of("woken"), bodies(waiting.get(PROMPTLY, TimeUnit.SECONDS)));
    }

    @Test
    void a_taken_message_is_hidden_until_it_is_given_back_and_gone_once_deleted() throws Exception {
        String url = create();
        send(url, "m");
        Message first = receiveUntil(url, 1, 600).get(0);
        assertEquals("1", first.attributes().get(MessageSystemAttributeName.APPROXIMATE_RECEIVE_COUNT));
        assertEquals(List.of(), receive(url, 0, 30));
        SQS.changeMessageVisibility(request -> request.queueUrl(url).receiptHandle(first.receiptHandle()).visibilityTimeout(0));
        Message again = receiveUntil(url, 1, 1).get(0);
        assertEquals("2", again.attributes().get(MessageSystemAttributeName.APPROXIMATE_RECEIVE_COUNT));
        delete(url, again);
        Thread.sleep(1300);
        assertEquals(List.of(), receive(url, 1, 30));
    }

    @Test
    void a_fifo_queue_keeps_order_locks_its_groups_and_drops_duplicates() {
        String url = create(Map.of(QueueAttributeName.FIFO_QUEUE, "true"));
        String first = sendToGroup(url, "a1", "a", "1").messageId();
        sendToGroup(url, "a2", "a", "2");
        assertEquals(first, sendToGroup(url, "again", "a", "1").messageId());
        sendToGroup(url, "b1", "b", "3");
        List<Message> got = receive(url, 2, 600);
        assertEquals(List.of("a1", "a2", "b1"), bodies(got));
        sendToGroup(url, "a3", "a", "4");
        delete(url, got.get(0));
        assertEquals(List.of(), receive(url, 1, 30));
        delete(url, got.get(1));
        assertEquals(List.of("a3"), bodies(receiveUntil(url, 1, 30)));
    }

    @Test
    void redrive_moves_a_message_after_its_last_receive() {
        String dead = create();
        String arn = attribute(dead, QueueAttributeName.QUEUE_ARN);
        String url = create(Map.of(QueueAttributeName.REDRIVE_POLICY,
                "{\"deadLetterTargetArn\":\"" + arn + "\",\"maxReceiveCount\":\"1\"}"));
        String id = send(url, "poison").messageId();
        receiveUntil(url, 1, 0);
        assertEquals(List.of(), receive(url, 1, 0));
        Message letter = receiveUntil(dead, 1, 30).get(0);
        assertEquals(id, letter.messageId());
        assertEquals(attribute(url, QueueAttributeName.QUEUE_ARN),
                letter.attributes().get(MessageSystemAttributeName.DEAD_LETTER_QUEUE_SOURCE_ARN));
    }

    @Test
    void tags_are_added_listed_and_removed() {
        String url = create();
        SQS.tagQueue(request -> request.queueUrl(url).tags(Map.of("team", "blue", "kind", "")));
        SQS.untagQueue(request -> request.queueUrl(url).tagKeys("kind"));
        assertEquals(Map.of("team", "blue"), SQS.listQueueTags(request -> request.queueUrl(url)).tags());
    }

    @Test
    void listing_pages_through_the_queues_of_a_prefix() {
        String prefix = "p-" + UUID.randomUUID();
        IntStream.range(0, 5).forEach(n -> SQS.createQueue(queue -> queue.queueName(prefix + "-" + n)));
        assertEquals(5, SQS.listQueuesPaginator(request -> request.queueNamePrefix(prefix).maxResults(2)).queueUrls().stream()
                .distinct().count());
    }

    @Test
    void errors_are_the_classes_of_the_sdk() {
        String url = create();
        SQS.purgeQueue(request -> request.queueUrl(url));
        refused(PurgeQueueInProgressException.class, "purge in progress", () -> SQS.purgeQueue(request -> request.queueUrl(url)));
        refused(ReceiptHandleIsInvalidException.class, "garbage handle",
                () -> SQS.deleteMessage(request -> request.queueUrl(url).receiptHandle("garbage")));
        refused(InvalidMessageContentsException.class, "bad characters", () -> send(url, "\u0000"));
        refused(EmptyBatchRequestException.class, "empty batch",
                () -> SQS.sendMessageBatch(batch -> batch.queueUrl(url).entries(List.of())));
        refused(InvalidAttributeNameException.class, "unknown attribute",
                () -> SQS.getQueueAttributes(request -> request.queueUrl(url).attributeNamesWithStrings("Colour")));
        refused(QueueNameExistsException.class, "different attributes",
                () -> SQS.createQueue(queue -> queue.queueName(url.substring(url.lastIndexOf('/') + 1))
                        .attributes(Map.of(QueueAttributeName.VISIBILITY_TIMEOUT, "41"))));
        SQS.deleteQueue(request -> request.queueUrl(url));
        refused(QueueDoesNotExistException.class, "missing queue",
                () -> SQS.getQueueAttributes(request -> request.queueUrl(url).attributeNames(QueueAttributeName.ALL)));
    }

    @Test
    void tenants_do_not_see_each_other() {
        String url = create();
        send(url, "secret");
        assertFalse(OTHER_TENANT.listQueues().queueUrls().contains(url));
        refused(QueueDoesNotExistException.class, "missing queue",
                () -> OTHER_TENANT.receiveMessage(request -> request.queueUrl(url)));
        assertEquals(List.of("secret"), bodies(receiveUntil(url, 1, 30)));
    }
}
