import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Reads cases and prints each again with what Java's assignor gives to each member.
 *
 * Lines of a case, fields separated by tabs, "-" for nothing:
 * case ASSIGNOR | topic NAME RACKS... (of each partition, separated by commas) |
 * member ID INSTANCE RACK GENERATION TOPICS OWNED USER_DATA (hexadecimal) | end.
 * Answers: given ID PARTITIONS, and of the cooperative one "then ID PARTITIONS": what each has when all
 * have joined again with what was given, as often as that changes anything. Partitions are sorted as texts.
 */
public class GoldenAssignments {
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    private static final Map<String, Node> NODES = new TreeMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String name = null;
        List<PartitionInfo> partitions = new ArrayList<>();
        Map<String, Subscription> members = new LinkedHashMap<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] field = line.split("\t", -1);
            if (!field[0].equals("end")) {
                OUT.println(line);
            }
            switch (field[0]) {
                case "case" -> name = field[1];
                case "topic" -> {
                    for (int i = 2; i < field.length; i++) {
                        Node[] replicas = texts(field[i]).stream().map(GoldenAssignments::node).toArray(Node[]::new);
                        partitions.add(new PartitionInfo(field[1], i - 2, null, replicas, replicas));
                    }
                }
                case "member" -> members.put(field[1], subscription(field));
                case "end" -> {
                    answer(name, partitions, members);
                    partitions = new ArrayList<>();
                    members = new LinkedHashMap<>();
                }
                default -> throw new IllegalArgumentException(line);
            }
        }
        OUT.flush();
    }

    private static void answer(String name, List<PartitionInfo> partitions, Map<String, Subscription> members) {
        Cluster cluster = new Cluster("c", NODES.values(), partitions, Set.of(), Set.of());
        Map<String, Assignment> given = assign(name, cluster, members);
        print("given", given);
        if (name.equals("cooperative-sticky")) {
            int generation = members.values().stream().mapToInt(m -> m.generationId().orElse(-1)).max().orElse(-1);
            for (Map<String, Assignment> before = null; !shown(given).equals(shown(before));) {
                before = given;
                generation++;
                given = assign(name, cluster, again(members, given, generation));
            }
            print("then", given);
        }
    }

    private static Map<String, Subscription> again(
            Map<String, Subscription> members, Map<String, Assignment> given, int generation) {
        Map<String, Subscription> found = new LinkedHashMap<>();
        members.forEach((id, before) -> found.put(id, new Subscription(
            before.topics(), null, given.get(id).partitions(), generation, before.rackId())));
        return found;
    }

    private static Map<String, String> shown(Map<String, Assignment> assignments) {
        Map<String, String> found = new TreeMap<>();
        if (assignments != null) {
            assignments.forEach((id, assignment) -> found.put(id, shown(assignment)));
        }
        return found;
    }

    private static Map<String, Assignment> assign(String name, Cluster cluster, Map<String, Subscription> members) {
        ConsumerPartitionAssignor assignor = switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            default -> new CooperativeStickyAssignor();
        };
        return assignor.assign(cluster, new GroupSubscription(members)).groupAssignment();
    }

    private static void print(String what, Map<String, Assignment> assignments) {
        shown(assignments).forEach((id, partitions) -> OUT.println(what + "\t" + id + "\t" + partitions));
    }

    private static String shown(Assignment assignment) {
        if (assignment.partitions().isEmpty()) {
            return "-";
        }
        return assignment.partitions().stream().map(TopicPartition::toString).sorted().collect(Collectors.joining(","));
    }

    private static Subscription subscription(String[] field) {
        List<TopicPartition> owned = texts(field[6]).stream().map(GoldenAssignments::partition).toList();
        ByteBuffer userData = field[7].equals("-") ? null : ByteBuffer.wrap(HexFormat.of().parseHex(field[7]));
        Optional<String> rack = field[3].equals("-") ? Optional.empty() : Optional.of(field[3]);
        Subscription made = new Subscription(texts(field[5]), userData, owned, Integer.parseInt(field[4]), rack);
        if (!field[2].equals("-")) {
            made.setGroupInstanceId(Optional.of(field[2]));
        }
        return made;
    }

    private static TopicPartition partition(String text) {
        int at = text.lastIndexOf('-');
        return new TopicPartition(text.substring(0, at), Integer.parseInt(text.substring(at + 1)));
    }

    private static List<String> texts(String field) {
        return field.equals("-") ? Collections.emptyList() : List.of(field.split(","));
    }

    private static Node node(String rack) {
        return NODES.computeIfAbsent(rack, name -> new Node(NODES.size(), "h", 9092, name));
    }
}
