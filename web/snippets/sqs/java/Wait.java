import java.net.URI;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.sqs.SqsClient;

public class Wait {
    public static void main(String[] arguments) {
        SqsClient sqs = SqsClient.builder()
            .endpointOverride(URI.create("https://sqs.powerqueue.link"))
            .region(Region.US_EAST_1)
            .credentialsProvider(StaticCredentialsProvider.create(
                AwsBasicCredentials.create("YOUR-TENANT-IDENTIFIER", "any")))
            .build();

        String queue = sqs.createQueue(r -> r.queueName("news")).queueUrl();
        sqs.sendMessage(r -> r.queueUrl(queue).messageBody("worth the wait").delaySeconds(2));

        System.out.println("waiting");
        // Answers as soon as there is a message, and with none after 20 seconds.
        for (var message : sqs.receiveMessage(r -> r.queueUrl(queue).waitTimeSeconds(20)).messages()) {
            System.out.println("received: " + message.body());
            sqs.deleteMessage(r -> r.queueUrl(queue).receiptHandle(message.receiptHandle()));
        }
    }
}
