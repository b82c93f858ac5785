import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.Collections;
import java.util.Properties;
import java.util.StringJoiner;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Prints every record of partition 0 of some topics, as JSON, with Kafka's own
 * consumer. It reads what others no longer do: message formats 0 and 1.
 *
 * Usage: ConsumeAll HOST:PORT TOPIC...
 */
public class ConsumeAll {
    public static void main(String[] args) {
        PrintWriter out = new PrintWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8));
        Properties config = new Properties();
        config.put("bootstrap.servers", args[0]);
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config, bytes, bytes)) {
            for (int i = 1; i < args.length; i++)
                consume(consumer, new TopicPartition(args[i], 0), out);
        }
        out.flush();
    }

    private static void consume(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, PrintWriter out) {
        consumer.assign(Collections.singleton(partition));
        consumer.seekToBeginning(Collections.singleton(partition));
        long end = consumer.endOffsets(Collections.singleton(partition)).get(partition);
        while (consumer.position(partition) < end)
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1)))
                out.println(json(record));
    }

    private static String json(ConsumerRecord<byte[], byte[]> record) {
        StringJoiner headers = new StringJoiner(",", "[", "]");
        for (Header header : record.headers())
            headers.add("{\"key\":\"" + header.key() + "\",\"value\":" + base64(header.value()) + "}");
        return "{\"topic\":\"" + record.topic() + "\",\"offset\":" + record.offset() +
            ",\"timestamp\":" + record.timestamp() + ",\"key\":" + base64(record.key()) +
            ",\"value\":" + base64(record.value()) + ",\"headers\":" + headers + "}";
    }

    private static String base64(byte[] value) {
        return value == null ? "null" : "\"" + Base64.getEncoder().encodeToString(value) + "\"";
    }
}
