import java.net.URI;
import java.util.stream.IntStream;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.sqs.SqsClient;
import software.amazon.awssdk.services.sqs.model.DeleteMessageBatchRequestEntry;
import software.amazon.awssdk.services.sqs.model.SendMessageBatchRequestEntry;

public class Batch {
    public static void main(String[] arguments) {
        SqsClient sqs = SqsClient.builder()
            .endpointOverride(URI.create("https://sqs.powerqueue.link"))
            .region(Region.US_EAST_1)
            .credentialsProvider(StaticCredentialsProvider.create(
                AwsBasicCredentials.create("YOUR-TENANT-IDENTIFIER", "any")))
            .build();

        String queue = sqs.createQueue(r -> r.queueName("parcels")).queueUrl();
        var entries = IntStream.range(0, 3).mapToObj(number -> SendMessageBatchRequestEntry.builder()
            .id("" + number).messageBody("parcel " + number).build()).toList();
        var sent = sqs.sendMessageBatch(r -> r.queueUrl(queue).entries(entries));
        // A batch may be taken in part: whoever sends looks at both lists.
        System.out.printf("sent %d, refused %d%n", sent.successful().size(), sent.failed().size());

        int received = 0, deleted = 0;
        while (received < 3) {
            var messages = sqs.receiveMessage(r -> r.queueUrl(queue).maxNumberOfMessages(10).waitTimeSeconds(5)).messages();
            if (messages.isEmpty()) break;
            received += messages.size();
            var done = messages.stream().map(message -> DeleteMessageBatchRequestEntry.builder()
                .id(message.messageId()).receiptHandle(message.receiptHandle()).build()).toList();
            deleted += sqs.deleteMessageBatch(r -> r.queueUrl(queue).entries(done)).successful().size();
        }
        System.out.printf("received %d, deleted %d%n", received, deleted);
    }
}
