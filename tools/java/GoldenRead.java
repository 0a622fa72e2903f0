import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;

/**
 * Decodes frames with Kafka's own generated classes: reads lines "request|response API-KEY VERSION HEX" and prints
 * the message of each as one line of JSON, after "CORRELATION-ID BYTES-LEFT ". An API or a version that this release
 * does not have prints "-".
 */
public class GoldenRead {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            System.out.println(read(words[0].equals("request"), Short.parseShort(words[1]), Short.parseShort(words[2]),
                ByteBuffer.wrap(bytes(words[3]))));
        }
    }

    private static String read(boolean request, short key, short version, ByteBuffer frame) throws Exception {
        ApiMessageType api;
        try {
            api = ApiMessageType.fromApiKey(key);
        } catch (UnsupportedVersionException unknown) {
            return "-";
        }
        ApiMessage message = request ? api.newRequest() : api.newResponse();
        if (version < message.lowestSupportedVersion() || version > message.highestSupportedVersion()) {
            return "-";
        }
        ByteBufferAccessor data = new ByteBufferAccessor(frame);
        int correlation;
        if (request) {
            correlation = new RequestHeaderData(data, api.requestHeaderVersion(version)).correlationId();
        } else {
            correlation = new ResponseHeaderData(data, api.responseHeaderVersion(version)).correlationId();
        }
        message.read(data, version);
        Class<?> converter = Class.forName(message.getClass().getName() + "JsonConverter");
        Method write = converter.getMethod("write", message.getClass(), short.class, boolean.class);
        JsonNode json = (JsonNode) write.invoke(null, message, version, false);
        return correlation + " " + frame.remaining() + " " + json;
    }

    private static byte[] bytes(String text) {
        byte[] found = new byte[text.length() / 2];
        for (int i = 0; i < found.length; i++) {
            found[i] = (byte) Integer.parseInt(text.substring(2 * i, 2 * i + 2), 16);
        }
        return found;
    }
}
