import java.net.URI;
import java.util.Map;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.sqs.SqsClient;
import software.amazon.awssdk.services.sqs.model.QueueAttributeName;

public class Dead {
    public static void main(String[] arguments) {
        SqsClient sqs = SqsClient.builder()
            .endpointOverride(URI.create("https://sqs.powerqueue.link"))
            .region(Region.US_EAST_1)
            .credentialsProvider(StaticCredentialsProvider.create(
                AwsBasicCredentials.create("YOUR-TENANT-IDENTIFIER", "any")))
            .build();

        String dead = sqs.createQueue(r -> r.queueName("work-dead")).queueUrl();
        String arn = sqs.getQueueAttributes(r -> r.queueUrl(dead).attributeNames(QueueAttributeName.QUEUE_ARN))
            .attributes().get(QueueAttributeName.QUEUE_ARN);
        String policy = "{\"deadLetterTargetArn\": \"%s\", \"maxReceiveCount\": 2}".formatted(arn);
        String queue = sqs.createQueue(r -> r.queueName("work")
            .attributes(Map.of(QueueAttributeName.REDRIVE_POLICY, policy))).queueUrl();
        sqs.sendMessage(r -> r.queueUrl(queue).messageBody("broken"));

        // Received but never deleted. A timeout of 0 gives it back at once, as if the work had failed.
        for (int attempt = 1; ; attempt++) {
            var messages = sqs.receiveMessage(r -> r.queueUrl(queue).visibilityTimeout(0)).messages();
            if (messages.isEmpty()) break;
            System.out.printf("attempt %d: %s%n", attempt, messages.get(0).body());
        }

        for (var message : sqs.receiveMessage(r -> r.queueUrl(dead).waitTimeSeconds(5)).messages()) {
            System.out.println("in work-dead: " + message.body());
            sqs.deleteMessage(r -> r.queueUrl(dead).receiptHandle(message.receiptHandle()));
        }
    }
}
