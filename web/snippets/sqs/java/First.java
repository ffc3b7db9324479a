import java.net.URI;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.sqs.SqsClient;

public class First {
    public static void main(String[] arguments) {
        SqsClient sqs = SqsClient.builder()
            .endpointOverride(URI.create("https://sqs.powerqueue.link"))
            .region(Region.US_EAST_1)
            .credentialsProvider(StaticCredentialsProvider.create(
                AwsBasicCredentials.create("YOUR-TENANT-IDENTIFIER", "any")))
            .build();

        String queue = sqs.createQueue(r -> r.queueName("orders")).queueUrl();
        sqs.sendMessage(r -> r.queueUrl(queue).messageBody("hello"));

        for (var message : sqs.receiveMessage(r -> r.queueUrl(queue).waitTimeSeconds(5)).messages()) {
            System.out.println("received: " + message.body());
            sqs.deleteMessage(r -> r.queueUrl(queue).receiptHandle(message.receiptHandle()));
        }
    }
}
