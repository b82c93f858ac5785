// Writes the batches in this directory with the classes of Kafka 4.3.1.
//
//   java -cp kafka-clients-4.3.1.jar:zstd-jni.jar:lz4-java.jar:snappy-java.jar:slf4j-api.jar \
//       Vectors.java .
//
// The records they hold are those of kafkaRecords in codec_test.go.

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;

public class Vectors {
    static Path dir;

    public static void main(String[] args) throws Exception {
        dir = Path.of(args[0]);
        for (byte magic = 0; magic <= 2; magic++) {
            write(magic, "none", Compression.NONE, 3);
            write(magic, "gzip", Compression.gzip().build(), 3);
            write(magic, "snappy", Compression.snappy().build(), 3);
            write(magic, "lz4", Compression.lz4().build(), 3);
        }
        byte v2 = 2;
        write(v2, "zstd", Compression.zstd().build(), 3);
        write(v2, "zstd-min", Compression.zstd().level(-131072).build(), 3);
        for (int level : new int[] {1, 9}) {
            write(v2, "gzip-" + level, Compression.gzip().level(level).build(), 200);
        }
        write(v2, "snappy-many", Compression.snappy().build(), 200);
        for (int level : new int[] {1, 9, 17}) {
            write(v2, "lz4-" + level, Compression.lz4().level(level).build(), 200);
        }
        for (int level : new int[] {-5, 1, 3, 19, 22}) {
            write(v2, "zstd-" + level, Compression.zstd().level(level).build(), 200);
        }
    }

    static void write(byte magic, String name, Compression codec, int n) throws Exception {
        MemoryRecordsBuilder builder = MemoryRecords.builder(
            ByteBuffer.allocate(256 * 1024), magic, codec,
            magic == 0 ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.CREATE_TIME, 40L);
        for (int i = 0; i < n; i++) {
            byte[] key = i % 3 == 1 ? null : ("key-" + i).getBytes(StandardCharsets.UTF_8);
            byte[] value = i % 3 == 2 ? null
                : ("value " + i + " of " + n + ". ").repeat(30).getBytes(StandardCharsets.UTF_8);
            Header[] headers = new Header[0];
            if (magic == 2 && i % 2 == 0) {
                headers = new Header[] {
                    new RecordHeader("größe", new byte[] {(byte) i}),
                    new RecordHeader("null", (byte[]) null)};
            }
            builder.append(1700000000000L + 7L * i, key == null ? null : ByteBuffer.wrap(key),
                value == null ? null : ByteBuffer.wrap(value), headers);
        }
        ByteBuffer b = builder.build().buffer();
        byte[] bytes = new byte[b.remaining()];
        b.get(bytes);
        Files.write(dir.resolve("v" + magic + "-" + name + ".batch"), bytes);
    }
}
