package seglog.peer;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;

import java.nio.ByteBuffer;
import java.util.SplittableRandom;

/**
 * Makes records and knows them again: a key of 16 bytes that holds the record's number twice, a
 * value of random bytes behind its number, and ten records to a millisecond. One for each thread.
 */
final class Data {
    static final int KEY = 16;

    private static final long FIRST_TIME = 1_700_000_000_000L;
    private static final int PER_MILLISECOND = 10;
    private static final byte[] NOISE = noise();

    private final byte[] key = new byte[KEY];
    private final byte[] value;
    private final ByteBuffer keyBuffer = ByteBuffer.wrap(key);
    private final ByteBuffer valueBuffer;
    private final ByteBuffer encoded;

    Data(int batch, int valueBytes) {
        if (batch < 1 || valueBytes < Long.BYTES || valueBytes > NOISE.length / 2)
            throw new IllegalArgumentException("batch of " + batch + ", value of " + valueBytes + " bytes");
        value = new byte[valueBytes];
        valueBuffer = ByteBuffer.wrap(value);
        encoded = ByteBuffer.allocate(61 + batch * (KEY + valueBytes + 24));
    }

    private static byte[] noise() {
        byte[] b = new byte[1 << 20];
        new SplittableRandom(1).nextBytes(b);
        return b;
    }

    private static int noiseAt(long number, int valueBytes) {
        return (int) ((number * 61 & Long.MAX_VALUE) % (NOISE.length - valueBytes));
    }

    static long time(long number) {
        return FIRST_TIME + number / PER_MILLISECOND;
    }

    /** The number of the first record that has the time. */
    static long firstAt(long time) {
        return (time - FIRST_TIME) * PER_MILLISECOND;
    }

    /** Encodes a batch, as a producer does. It is valid until the next call. */
    MemoryRecords encode(long first, int count) {
        encoded.clear();
        MemoryRecordsBuilder builder = MemoryRecords.builder(encoded, Compression.NONE, TimestampType.CREATE_TIME, 0);
        for (long n = first; n < first + count; n++) {
            keyBuffer.putLong(0, n).putLong(8, ~n);
            System.arraycopy(NOISE, noiseAt(n, value.length), value, 0, value.length);
            valueBuffer.putLong(0, n);
            builder.append(time(n), key, value);
        }
        return builder.build();
    }

    /** Checks that a record is the one that was appended at its offset, but for the noise. */
    static void check(Record r, long number) {
        ByteBuffer key = r.key(), value = r.value();
        if (r.offset() != number || r.timestamp() != time(number) || key.remaining() != KEY
                || key.getLong(key.position()) != number || key.getLong(key.position() + 8) != ~number
                || value.getLong(value.position()) != number)
            throw new IllegalStateException("offset " + number + ": wrong record " + r);
    }
}
