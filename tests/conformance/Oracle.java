// Re-encodes messages with Apache Kafka's own generated classes.
//
// Reads from stdin, until its end, frames of: int16 API key, int8 1 for a request and 0 for a response,
// int16 version, int32 length, that many bytes. Writes for each: int32 length and the bytes as Kafka
// encodes what it decoded, or int32 -1, int32 length and the text of the exception.
// Key -1 stands for data messages: an int16 length and the name come before the length.

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public class Oracle {
    public static void main(String[] arguments) throws Exception {
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16));
        while (true) {
            short key;
            try {
                key = in.readShort();
            } catch (EOFException end) {
                break;
            }
            boolean request = in.readByte() == 1;
            short version = in.readShort();
            String name = null;
            if (key == -1) {
                byte[] text = new byte[in.readShort()];
                in.readFully(text);
                name = new String(text, StandardCharsets.UTF_8);
            }
            byte[] data = new byte[in.readInt()];
            in.readFully(data);
            try {
                byte[] again = encode(decode(message(key, request, name), version, data), version);
                out.writeInt(again.length);
                out.write(again);
            } catch (Throwable error) {
                byte[] text = error.toString().getBytes(StandardCharsets.UTF_8);
                out.writeInt(-1);
                out.writeInt(text.length);
                out.write(text);
            }
        }
        out.flush();
    }

    static Message message(short key, boolean request, String name) throws Exception {
        if (name != null) {
            return (Message) Class.forName("org.apache.kafka.common.message." + name)
                .getDeclaredConstructor().newInstance();
        }
        ApiMessageType type = ApiMessageType.fromApiKey(key);
        return request ? type.newRequest() : type.newResponse();
    }

    static Message decode(Message message, short version, byte[] data) {
        ByteBuffer buffer = ByteBuffer.wrap(data);
        message.read(new ByteBufferAccessor(buffer), version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException(buffer.remaining() + " bytes are left over");
        }
        return message;
    }

    static byte[] encode(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException("the size was announced too large");
        }
        return buffer.array();
    }
}
