import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;

/** Prints each record of each file as Kafka's own classes read it, checksums checked; see test_java.py. */
public class ReadRecords {
    public static void main(String[] files) throws Exception {
        StringBuilder out = new StringBuilder();
        for (String file : files) {
            out.append("file\t").append(file).append('\n');
            try {
                MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(Files.readAllBytes(Path.of(file))));
                for (RecordBatch batch : records.batches()) {
                    batch.ensureValid();
                    for (Record record : batch) {
                        record.ensureValid();
                        print(out, batch, record);
                    }
                }
            } catch (RuntimeException error) {
                out.append("error\t").append(error).append('\n');
            }
        }
        System.out.write(out.toString().getBytes(StandardCharsets.UTF_8));
        System.out.flush();
    }

    private static void print(StringBuilder out, RecordBatch batch, Record record) {
        out.append("record\t").append(record.offset());
        out.append('\t').append(record.timestamp());
        out.append('\t').append(batch.timestampType().id);
        out.append('\t').append(hex(record.key()));
        out.append('\t').append(hex(record.value()));
        for (Header header : record.headers()) {
            out.append('\t').append(hex(ByteBuffer.wrap(header.key().getBytes(StandardCharsets.UTF_8))));
            out.append('\t').append(header.value() == null ? "null" : hex(ByteBuffer.wrap(header.value())));
        }
        out.append('\n');
    }

    private static String hex(ByteBuffer data) {
        if (data == null) {
            return "null";
        }
        byte[] raw = new byte[data.remaining()];
        data.duplicate().get(raw);
        return HexFormat.of().formatHex(raw);
    }
}
