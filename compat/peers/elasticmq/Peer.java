import org.elasticmq.NodeAddress;
import org.elasticmq.rest.sqs.SQSRestServerBuilder;

/** ElasticMQ with its defaults, in memory, on one loopback port: `java Peer.java PORT`. */
public final class Peer {
    public static void main(String[] arguments) {
        int port = Integer.parseInt(arguments[0]);
        SQSRestServerBuilder.withInterface("127.0.0.1")
                .withPort(port)
                .withServerAddress(new NodeAddress("http", "127.0.0.1", port, ""))
                .start()
                .waitUntilStarted();
        System.out.println("http://127.0.0.1:" + port);
    }
}
