import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * Produces and consumes with the Java client of whatever release is on the class path, from 0.9 on.
 * What a release lacks (timestamps before 0.10, headers and transactions before 0.11) is reached by
 * reflection.
 *
 * "produce BOOTSTRAP" reads tab-separated lines: open NAME=VALUE... | send TOPIC PARTITION TIMESTAMP KEY
 * VALUE HEADERS | flush | begin | commit | abort | sleep MS. Bytes are hexadecimal, null is "-",
 * headers are name=bytes;name=bytes.
 *
 * "consume BOOTSTRAP ISOLATION TOPIC..." prints partition 0 of each topic: topic, offset, timestamp,
 * timestamp type, key, value, headers. TOPIC=COUNT ends after so many records, TOPIC alone when no more come.
 */
public class GoldenRecords {
    private static final String BYTES = "org.apache.kafka.common.serialization.ByteArray";
    private static KafkaProducer<byte[], byte[]> producer;
    private static final List<Future<?>> PENDING = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("produce")) {
            produce(arguments[1]);
        } else {
            for (int i = 3; i < arguments.length; i++) {
                consume(arguments[1], arguments[2], arguments[i]);
            }
        }
    }

    private static void produce(String bootstrap) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "open": open(bootstrap, words); break;
                case "send": PENDING.add(producer.send(record(words))); break;
                case "flush": flush(); break;
                case "sleep": Thread.sleep(Long.parseLong(words[1])); break;
                case "begin": call(producer, "beginTransaction"); break;
                case "commit": flush(); call(producer, "commitTransaction"); break;
                case "abort": flush(); call(producer, "abortTransaction"); break;
                default: throw new IllegalArgumentException(line);
            }
        }
        if (producer != null) {
            producer.close();
        }
    }

    private static void open(String bootstrap, String[] words) throws Exception {
        if (producer != null) {
            producer.close();
        }
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("key.serializer", BYTES + "Serializer");
        properties.put("value.serializer", BYTES + "Serializer");
        properties.put("acks", "all");
        properties.put("linger.ms", "60000");
        properties.put("batch.size", "500000");
        for (int i = 1; i < words.length; i++) {
            String[] pair = words[i].split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        producer = new KafkaProducer<>(properties);
        if (properties.containsKey("transactional.id")) {
            call(producer, "initTransactions");
        }
    }

    private static void flush() throws Exception {
        producer.flush();
        for (Future<?> future : PENDING) {
            future.get();
        }
        PENDING.clear();
    }

    private static Object call(Object target, String method) throws Exception {
        return target.getClass().getMethod(method).invoke(target);
    }

    @SuppressWarnings("unchecked")
    private static ProducerRecord<byte[], byte[]> record(String[] words) throws Exception {
        Integer partition = Integer.valueOf(words[2]);
        Long timestamp = words[3].equals("-") ? null : Long.valueOf(words[3]);
        byte[] key = bytes(words[4]);
        byte[] value = bytes(words[5]);
        Constructor<?> constructor;
        Object made;
        try {
            constructor = ProducerRecord.class.getConstructor(
                String.class, Integer.class, Long.class, Object.class, Object.class);
            made = constructor.newInstance(words[1], partition, timestamp, key, value);
        } catch (NoSuchMethodException before0100) {
            constructor = ProducerRecord.class.getConstructor(
                String.class, Integer.class, Object.class, Object.class);
            made = constructor.newInstance(words[1], partition, key, value);
        }
        if (!words[6].isEmpty()) {
            Object headers = call(made, "headers");
            for (String header : words[6].split(";")) {
                String[] pair = header.split("=", 2);
                Class.forName("org.apache.kafka.common.header.Headers")
                    .getMethod("add", String.class, byte[].class)
                    .invoke(headers, pair[0], bytes(pair[1]));
            }
        }
        return (ProducerRecord<byte[], byte[]>) made;
    }

    private static void consume(String bootstrap, String isolation, String wanted) throws Exception {
        String topic = wanted.split("=")[0];
        int rest = wanted.contains("=") ? Integer.parseInt(wanted.split("=")[1]) : Integer.MAX_VALUE;
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("key.deserializer", BYTES + "Deserializer");
        properties.put("value.deserializer", BYTES + "Deserializer");
        properties.put("group.id", "golden");
        properties.put("enable.auto.commit", "false");
        properties.put("isolation.level", isolation);
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties);
        TopicPartition partition = new TopicPartition(topic, 0);
        consumer.assign(Collections.singletonList(partition));
        consumer.seek(partition, 0);
        boolean seen = false;
        for (int idle = 0; rest > 0 && idle < (seen ? 3 : 20); ) {
            ConsumerRecords<byte[], byte[]> records = poll(consumer);
            idle++;
            for (ConsumerRecord<byte[], byte[]> record : records) {
                System.out.println(text(record));
                seen = true;
                idle = 0;
                rest--;
            }
        }
        consumer.close();
    }

    @SuppressWarnings("unchecked")
    private static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer) throws Exception {
        try {
            Class<?> duration = Class.forName("java.time.Duration");
            Object halfSecond = duration.getMethod("ofMillis", long.class).invoke(null, 500L);
            return (ConsumerRecords<byte[], byte[]>)
                consumer.getClass().getMethod("poll", duration).invoke(consumer, halfSecond);
        } catch (NoSuchMethodException before20) {
            return (ConsumerRecords<byte[], byte[]>)
                consumer.getClass().getMethod("poll", long.class).invoke(consumer, 500L);
        }
    }

    private static String text(ConsumerRecord<byte[], byte[]> record) throws Exception {
        String timestamp = "-1";
        String type = "NO_TIMESTAMP_TYPE";
        StringBuilder headers = new StringBuilder();
        try {
            timestamp = String.valueOf(call(record, "timestamp"));
            type = String.valueOf(call(record, "timestampType"));
            for (Object header : (Iterable<?>) call(record, "headers")) {
                Class<?> kind = Class.forName("org.apache.kafka.common.header.Header");
                headers.append(headers.length() > 0 ? ";" : "")
                    .append(kind.getMethod("key").invoke(header)).append("=")
                    .append(hex((byte[]) kind.getMethod("value").invoke(header)));
            }
        } catch (NoSuchMethodException older) {
            // This release has no timestamps (before 0.10) or no headers (before 0.11).
        }
        return String.join("\t", record.topic(), String.valueOf(record.offset()), timestamp, type,
            hex(record.key()), hex(record.value()), headers);
    }

    private static byte[] bytes(String text) {
        if (text.equals("-")) {
            return null;
        }
        byte[] found = new byte[text.length() / 2];
        for (int i = 0; i < found.length; i++) {
            found[i] = (byte) Integer.parseInt(text.substring(2 * i, 2 * i + 2), 16);
        }
        return found;
    }

    private static String hex(byte[] bytes) {
        if (bytes == null) {
            return "-";
        }
        StringBuilder text = new StringBuilder();
        for (byte b : bytes) {
            text.append(String.format("%02x", b));
        }
        return text.toString();
    }
}
