import java.net.URI;
import java.util.Base64;
import java.util.HexFormat;
import java.util.Map;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.sqs.SqsClient;
import software.amazon.awssdk.services.sqs.model.MessageAttributeValue;

public class Binary {
    public static void main(String[] arguments) {
        SqsClient sqs = SqsClient.builder()
            .endpointOverride(URI.create("https://sqs.powerqueue.link"))
            .region(Region.US_EAST_1)
            .credentialsProvider(StaticCredentialsProvider.create(
                AwsBasicCredentials.create("YOUR-TENANT-IDENTIFIER", "any")))
            .build();

        String queue = sqs.createQueue(r -> r.queueName("images")).queueUrl();
        String text = Base64.getEncoder().encodeToString(new byte[] {0x00, (byte) 0xff, 0x10, (byte) 0x80});
        var mark = MessageAttributeValue.builder().dataType("String").stringValue("base64").build();
        sqs.sendMessage(r -> r.queueUrl(queue).messageBody(text).messageAttributes(Map.of("x-pq-body-encoding", mark)));

        var answer = sqs.receiveMessage(r -> r.queueUrl(queue).waitTimeSeconds(5).messageAttributeNames("All"));
        for (var message : answer.messages()) {
            byte[] body = message.messageAttributes().containsKey("x-pq-body-encoding")
                ? Base64.getDecoder().decode(message.body()) : message.body().getBytes();
            System.out.printf("received %d bytes: %s%n", body.length, HexFormat.ofDelimiter(" ").formatHex(body));
            sqs.deleteMessage(r -> r.queueUrl(queue).receiptHandle(message.receiptHandle()));
        }
    }
}
