import java.net.URI;
import java.util.List;
import java.util.Map;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.sqs.SqsClient;
import software.amazon.awssdk.services.sqs.model.QueueAttributeName;

public class Fifo {
    public static void main(String[] arguments) {
        SqsClient sqs = SqsClient.builder()
            .endpointOverride(URI.create("https://sqs.powerqueue.link"))
            .region(Region.US_EAST_1)
            .credentialsProvider(StaticCredentialsProvider.create(
                AwsBasicCredentials.create("YOUR-TENANT-IDENTIFIER", "any")))
            .build();

        var attributes = Map.of(QueueAttributeName.FIFO_QUEUE, "true", QueueAttributeName.CONTENT_BASED_DEDUPLICATION, "true");
        String queue = sqs.createQueue(r -> r.queueName("steps.fifo").attributes(attributes)).queueUrl();
        for (String step : List.of("one", "two", "two", "three")) { // the second "two" is dropped as a duplicate
            sqs.sendMessage(r -> r.queueUrl(queue).messageBody(step).messageGroupId("customer-7"));
        }

        while (true) {
            var messages = sqs.receiveMessage(r -> r.queueUrl(queue).maxNumberOfMessages(10)).messages();
            if (messages.isEmpty()) break;
            for (var message : messages) {
                System.out.println(message.body());
                sqs.deleteMessage(r -> r.queueUrl(queue).receiptHandle(message.receiptHandle()));
            }
        }
    }
}
