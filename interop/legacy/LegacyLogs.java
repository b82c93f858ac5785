import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.StringJoiner;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.AbstractLegacyRecordBatch;
import org.apache.kafka.common.record.BufferSupplier;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.KafkaLZ4BlockOutputStream;
import org.apache.kafka.common.record.LegacyRecord;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.SimpleRecord;
import org.apache.kafka.common.record.TimestampType;

/**
 * Writes .log files in message formats 0 and 1 with Kafka's own classes of the
 * time, and beside each the records those classes read back.
 *
 * Usage: LegacyLogs LOGS EXPECTATIONS
 */
public class LegacyLogs {
    private static final long FIRST_TIME = 1_400_000_000_000L;
    private static final byte V0 = RecordBatch.MAGIC_VALUE_V0;
    private static final byte V1 = RecordBatch.MAGIC_VALUE_V1;
    private static final byte V2 = RecordBatch.MAGIC_VALUE_V2;

    private final Path logs;
    private final Path expectations;

    private LegacyLogs(Path logs, Path expectations) {
        this.logs = logs;
        this.expectations = expectations;
    }

    public static void main(String[] args) throws IOException {
        LegacyLogs out = new LegacyLogs(Path.of(args[0]), Path.of(args[1]));
        CompressionType[] codecs = {
            CompressionType.NONE, CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4
        };
        for (CompressionType codec : codecs) {
            out.write("v0-" + codec.name, threeSets(V0, codec, TimestampType.NO_TIMESTAMP_TYPE));
            out.write("v1-" + codec.name, threeSets(V1, codec, TimestampType.CREATE_TIME));
        }
        out.write("v1-logappend-none", threeSets(V1, CompressionType.NONE, TimestampType.LOG_APPEND_TIME));
        out.write("v1-logappend-gzip", threeSets(V1, CompressionType.GZIP, TimestampType.LOG_APPEND_TIME));
        out.write("v1-no-timestamp", new Log().set(V1, CompressionType.GZIP, TimestampType.CREATE_TIME, 0,
            new SimpleRecord(-1, bytes("k"), bytes("v")), new SimpleRecord(-1, bytes("k"), null)));
        out.write("v0-lz4-right-checksum", new Log().raw(wrapperWithRightChecksum()));
        out.write("v0-gaps", new Log().gaps(V0, 10, 11, 12, 20));
        out.write("v1-gaps", new Log().gaps(V1, 10, 11, 12, 20));
        out.write("v0-cleaned", new Log().raw(cleaned(V0)));
        out.write("v1-cleaned", new Log().raw(cleaned(V1)));
        out.write("v1-wrapper-zero", new Log().raw(wrapperZero()));
        out.write("mixed", mixed());
        out.write("blocks-v0-lz4", blocks(V0, CompressionType.LZ4));
        out.write("blocks-v1-lz4", blocks(V1, CompressionType.LZ4));
        out.write("blocks-v1-snappy", blocks(V1, CompressionType.SNAPPY));
    }

    /** Three message sets: wrappers when compressed, else bare messages. */
    private static Log threeSets(byte magic, CompressionType codec, TimestampType type) {
        Log log = new Log();
        int[] sizes = {4, 1, 6};
        int at = 0;
        for (int size : sizes) {
            SimpleRecord[] records = new SimpleRecord[size];
            for (int i = 0; i < size; i++, at++)
                records[i] = record(magic, at);
            log.set(magic, codec, type, at - size, records);
        }
        return log;
    }

    /** Every combination of null, empty and present; timestamps fall now and then. */
    private static SimpleRecord record(byte magic, int i) {
        byte[][] keys = {null, {}, bytes("key-" + i)};
        byte[][] values = {bytes("value " + i + " of an old log"), null, {}, bytes("naïve ☃ " + i)};
        long timestamp = magic == V0 ? RecordBatch.NO_TIMESTAMP : FIRST_TIME + i * 1000L - (i % 3 == 2 ? 1500 : 0);
        return new SimpleRecord(timestamp, keys[i % 3], values[i % 4]);
    }

    /**
     * A magic 0 LZ4 wrapper whose frame has the header checksum of the LZ4
     * specification, as clients not written in Java produced. Kafka itself
     * wrote, and ignores, a wrong one there (KAFKA-3160).
     */
    private static ByteBuffer wrapperWithRightChecksum() throws IOException {
        MemoryRecords inner = new Log()
            .set(V0, CompressionType.NONE, TimestampType.NO_TIMESTAMP_TYPE, 0, record(V0, 0), record(V0, 5))
            .records();
        ByteArrayOutputStream value = new ByteArrayOutputStream();
        try (OutputStream lz4 = new KafkaLZ4BlockOutputStream(value, KafkaLZ4BlockOutputStream.BLOCKSIZE_64KB, false, false)) {
            lz4.write(inner.buffer().array(), inner.buffer().arrayOffset(), inner.sizeInBytes());
        }
        LegacyRecord wrapper = LegacyRecord.create(V0, RecordBatch.NO_TIMESTAMP, null, value.toByteArray(),
            CompressionType.LZ4, TimestampType.NO_TIMESTAMP_TYPE);
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        DataOutputStream data = new DataOutputStream(out);
        data.writeLong(1);
        data.writeInt(wrapper.sizeInBytes());
        data.write(wrapper.buffer().array(), wrapper.buffer().arrayOffset(), wrapper.sizeInBytes());
        return ByteBuffer.wrap(out.toByteArray());
    }

    /** What the cleaner makes of two wrappers when keys are written again. */
    private static ByteBuffer cleaned(byte magic) {
        MemoryRecords dirty = threeSets(magic, CompressionType.GZIP,
            magic == V0 ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.CREATE_TIME).records();
        ByteBuffer out = ByteBuffer.allocate(1 << 16);
        MemoryRecords.FilterResult result = dirty.filterTo(new TopicPartition("t", 0), new MemoryRecords.RecordFilter() {
            @Override
            protected BatchRetention checkBatchRetention(RecordBatch batch) {
                return BatchRetention.DELETE_EMPTY;
            }

            @Override
            protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
                return record.offset() % 3 != 0 && record.offset() != 4 && record.offset() != 8;
            }
        }, out, Integer.MAX_VALUE, BufferSupplier.NO_CACHING);
        ByteBuffer kept = result.output.duplicate();
        kept.flip();
        return kept;
    }

    /**
     * A magic 1 wrapper with offset 0 although it holds several messages: some
     * versions of librdkafka sent that, and it means inner offsets as given.
     * A broker gives the wrapper its offset before it stores it.
     */
    private static ByteBuffer wrapperZero() {
        MemoryRecords set = new Log().set(V1, CompressionType.GZIP, TimestampType.CREATE_TIME, 0,
            record(V1, 0), record(V1, 2), record(V1, 3)).records();
        ByteBuffer buffer = set.buffer().duplicate();
        buffer.putLong(buffer.position(), 0L); // the checksum does not cover it
        return buffer;
    }

    /** Formats in the order of an upgrade that was half undone. */
    private static Log mixed() {
        return new Log()
            .set(V0, CompressionType.NONE, TimestampType.NO_TIMESTAMP_TYPE, 0, record(V0, 0), record(V0, 3))
            .set(V1, CompressionType.GZIP, TimestampType.CREATE_TIME, 2, record(V1, 2), record(V1, 3), record(V1, 5))
            .set(V2, CompressionType.NONE, TimestampType.CREATE_TIME, 5, record(V1, 5), new SimpleRecord(
                FIRST_TIME + 6000, bytes("k"), bytes("v"), new Header[] {new RecordHeader("h", bytes("x"))}))
            .set(V1, CompressionType.NONE, TimestampType.CREATE_TIME, 7, record(V1, 7))
            .set(V0, CompressionType.SNAPPY, TimestampType.NO_TIMESTAMP_TYPE, 8, record(V0, 8), record(V0, 9))
            .set(V2, CompressionType.LZ4, TimestampType.CREATE_TIME, 10, record(V1, 10), record(V1, 11));
    }

    /** Wrappers larger than the blocks of the codec. */
    private static Log blocks(byte magic, CompressionType codec) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; text.length() < 90_000; i++)
            text.append("line ").append(i * 7919 % 1000).append(" of an old log\n");
        TimestampType type = magic == V0 ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.CREATE_TIME;
        long timestamp = magic == V0 ? RecordBatch.NO_TIMESTAMP : FIRST_TIME;
        return new Log().set(magic, codec, type, 0,
            new SimpleRecord(timestamp, bytes("long"), bytes(text.toString())),
            new SimpleRecord(timestamp, bytes("short"), bytes("end")));
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private void write(String name, Log log) throws IOException {
        MemoryRecords records = log.records();
        Path dir = Files.createDirectories(logs.resolve(name + "-0"));
        byte[] raw = new byte[records.sizeInBytes()];
        records.buffer().duplicate().get(raw);
        Files.write(dir.resolve("00000000000000000000.log"), raw);

        StringBuilder lines = new StringBuilder();
        for (MutableRecordBatch batch : records.batches()) {
            batch.ensureValid();
            for (Record record : batch)
                lines.append(json(record)).append('\n');
        }
        Path expect = Files.createDirectories(expectations.resolve(name + "-0"));
        Files.writeString(expect.resolve("expect.jsonl"), lines);
    }

    private static String json(Record record) {
        StringJoiner headers = new StringJoiner(",", "[", "]");
        for (Header header : record.headers())
            headers.add("{\"key\":\"" + header.key() + "\",\"value\":" + base64(header.value()) + "}");
        return "{\"offset\":" + record.offset() + ",\"timestamp\":" + record.timestamp() +
            ",\"key\":" + base64(copy(record.key())) + ",\"value\":" + base64(copy(record.value())) +
            ",\"headers\":" + headers + "}";
    }

    private static byte[] copy(ByteBuffer buffer) {
        if (buffer == null)
            return null;
        byte[] out = new byte[buffer.remaining()];
        buffer.duplicate().get(out);
        return out;
    }

    private static String base64(byte[] value) {
        return value == null ? "null" : "\"" + Base64.getEncoder().encodeToString(value) + "\"";
    }

    /** The bytes of a .log file, growing. */
    private static class Log {
        private final ByteBuffer out = ByteBuffer.allocate(1 << 18);

        Log set(byte magic, CompressionType codec, TimestampType type, long baseOffset, SimpleRecord... records) {
            MemoryRecordsBuilder builder = builder(magic, codec, type, baseOffset);
            for (SimpleRecord record : records)
                builder.append(record);
            return raw(builder.build().buffer());
        }

        /** A gzip wrapper around messages with these offsets. */
        Log gaps(byte magic, long... offsets) {
            TimestampType type = magic == V0 ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.CREATE_TIME;
            MemoryRecordsBuilder builder = builder(magic, CompressionType.GZIP, type, offsets[0]);
            for (long offset : offsets)
                builder.appendWithOffset(offset, record(magic, (int) offset));
            return raw(builder.build().buffer());
        }

        Log raw(ByteBuffer bytes) {
            out.put(bytes.duplicate());
            return this;
        }

        MemoryRecords records() {
            ByteBuffer written = out.duplicate();
            written.flip();
            return MemoryRecords.readableRecords(written.slice());
        }

        private static MemoryRecordsBuilder builder(byte magic, CompressionType codec, TimestampType type, long baseOffset) {
            long appendTime = type == TimestampType.LOG_APPEND_TIME ? FIRST_TIME + 3_600_000 : RecordBatch.NO_TIMESTAMP;
            return MemoryRecords.builder(ByteBuffer.allocate(1 << 18), magic, codec, type, baseOffset, appendTime);
        }
    }
}
