import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Creates topics and fills them with records of 106 bytes (key 10, value 96: a small JSON object), evenly over
 * the partitions, by a Java producer with its default batch size.
 *
 * Arguments: bootstrap servers, records, partitions, then name=codec for each topic.
 */
public class FillTopic {
    private static final String[] ACTIONS = {"view", "cart", "purchase", "search", "refund", "login", "logout"};

    public static void main(String[] arguments) throws Exception {
        long records = Long.parseLong(arguments[1]);
        int partitions = Integer.parseInt(arguments[2]);
        for (int i = 3; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            create(arguments[0], pair[0], partitions);
            fill(arguments[0], pair[0], pair[1], records, partitions);
        }
    }

    private static void create(String bootstrap, String topic, int partitions) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        try (AdminClient admin = AdminClient.create(properties)) {
            admin.createTopics(java.util.List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
        }
    }

    private static void fill(String bootstrap, String topic, String codec, long records, int partitions)
            throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        properties.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        properties.put("compression.type", codec);
        properties.put("linger.ms", "5");
        AtomicReference<Exception> failure = new AtomicReference<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            for (long i = 0; i < records && failure.get() == null; i++) {
                producer.send(record(topic, partitions, i), (metadata, error) -> {
                    if (error != null) {
                        failure.compareAndSet(null, error);
                    }
                });
            }
        }
        if (failure.get() != null) {
            throw failure.get();
        }
    }

    private static ProducerRecord<byte[], byte[]> record(String topic, int partitions, long i) {
        long mixed = (i + 1) * 0x9E3779B97F4A7C15L;
        StringBuilder value = new StringBuilder(96)
            .append("{\"id\":").append(i)
            .append(",\"user\":").append((mixed >>> 33) % 1_000_000)
            .append(",\"action\":\"").append(ACTIONS[(int) ((mixed >>> 20) % ACTIONS.length & 0x7fffffff)])
            .append("\",\"amount\":").append((mixed >>> 40) % 100_000).append('.').append((mixed >>> 50) % 100)
            .append(",\"note\":\"");
        while (value.length() < 94) {
            value.append((char) ('a' + (value.length() + i) % 26));
        }
        value.setLength(94);
        value.append("\"}");
        byte[] key = String.format("k%09d", i % 1_000_000).getBytes(StandardCharsets.US_ASCII);
        byte[] bytes = value.toString().getBytes(StandardCharsets.US_ASCII);
        return new ProducerRecord<>(topic, (int) (i % partitions), 1_600_000_000_000L + i, key, bytes);
    }
}
