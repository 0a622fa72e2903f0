import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.HashMap;
import java.util.Optional;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A share consumer that does what the lines of its input say, and prints what it sees.
 *
 * Arguments: bootstrap servers, group, topic, then settings as name=value. Lines:
 *   poll COUNT ACTION...   poll until COUNT records came; the n-th ACTION (accept, release, reject,
 *                          renew, none) is for the n-th of them, the last one for the rest
 *   again ACTION           acknowledge all records of the last poll again
 *   commit                 commitSync
 * Printed: "record PARTITION OFFSET DELIVERIES", "committed PARTITION ERROR", "failed ERROR".
 */
public final class ShareReads {
    private static final Map<String, AcknowledgeType> TYPES = Map.of(
        "accept", AcknowledgeType.ACCEPT, "release", AcknowledgeType.RELEASE,
        "reject", AcknowledgeType.REJECT, "renew", AcknowledgeType.RENEW);

    private static KafkaShareConsumer<byte[], byte[]> consumer;
    private static List<ConsumerRecord<byte[], byte[]>> last = new java.util.ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        for (int at = 3; at < arguments.length; at++) {
            String[] pair = arguments[at].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        consumer = new KafkaShareConsumer<>(
            settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(List.of(arguments[2]));
        var input = new java.io.BufferedReader(new java.io.InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            carryOut(line.trim().split(" "));
            System.out.println("done " + line);
        }
        consumer.close();
        System.out.println("closed");
    }

    private static void carryOut(String[] words) throws Exception {
        switch (words[0]) {
            case "poll" -> poll(Integer.parseInt(words[1]), words);
            case "again" -> last.forEach(record -> acknowledge(record, words[1]));
            case "commit" -> committed(consumer.commitSync(Duration.ofSeconds(60)));
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    private static void poll(int count, String[] words) {
        last.clear();
        long end = System.currentTimeMillis() + 120_000;
        while (last.size() < count && System.currentTimeMillis() < end) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(500));
            for (ConsumerRecord<byte[], byte[]> record : records) {
                System.out.println("record " + record.partition() + " " + record.offset() + " "
                    + record.deliveryCount().map(String::valueOf).orElse("-"));
                acknowledge(record, words[Math.min(2 + last.size(), words.length - 1)]);
                last.add(record);
            }
        }
    }

    private static void acknowledge(ConsumerRecord<byte[], byte[]> record, String action) {
        if (!action.equals("none")) {
            try {
                consumer.acknowledge(record, TYPES.get(action));
            } catch (IllegalStateException | KafkaException error) {
                System.out.println("failed " + error.getClass().getSimpleName());
            }
        }
    }

    private static void committed(Map<TopicIdPartition, Optional<KafkaException>> found) {
        found.forEach((partition, error) -> System.out.println("committed " + partition.partition()
            + " " + error.map(one -> one.getClass().getSimpleName()).orElse("-")));
    }
}
