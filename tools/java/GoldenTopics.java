import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewTopic;

/** Creates topics of one partition: arguments are the bootstrap servers, then name,setting=value,... per topic. */
public class GoldenTopics {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        List<NewTopic> topics = new ArrayList<>();
        for (int i = 1; i < arguments.length; i++) {
            String[] parts = arguments[i].split(",");
            Map<String, String> settings = new HashMap<>();
            for (int j = 1; j < parts.length; j++) {
                String[] pair = parts[j].split("=", 2);
                settings.put(pair[0], pair[1]);
            }
            topics.add(new NewTopic(parts[0], 1, (short) 1).configs(settings));
        }
        AdminClient admin = AdminClient.create(properties);
        admin.createTopics(topics).all().get();
        admin.close();
    }
}
