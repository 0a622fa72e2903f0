// Prints Apache Kafka's table of error codes in the form of src/parley/errors/codes.txt.

import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

public class ErrorTable {
    public static void main(String[] arguments) {
        for (Errors error : Errors.values()) {
            Throwable kind = error.exception();
            System.out.println(error.code() + " " + error.name()
                + " " + (kind instanceof RetriableException ? "retriable" : "-")
                + " " + (kind instanceof InvalidMetadataException ? "refresh" : "-"));
        }
    }
}
