package seglog.peer;

import org.apache.kafka.common.config.TopicConfig;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.record.internal.Records;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.config.ServerLogConfigs;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerConfig;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;

import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.util.HexFormat;
import java.util.Map;

/** Cleans a log as the one cleaner thread of a broker that was not configured does. */
final class CleanWork {
    private final Store store;
    private Cleaner cleaner; // a broker's lives as long as its thread

    CleanWork(Store store) {
        this.store = store;
    }

    private Cleaner cleaner() throws Exception {
        if (cleaner == null)
            cleaner = new Cleaner(0,
                    new SkimpyOffsetMap((int) CleanerConfig.LOG_CLEANER_DEDUPE_BUFFER_SIZE, CleanerConfig.HASH_ALGORITHM),
                    CleanerConfig.LOG_CLEANER_IO_BUFFER_SIZE / 2, ServerLogConfigs.MAX_MESSAGE_BYTES_DEFAULT,
                    CleanerConfig.LOG_CLEANER_DEDUPE_BUFFER_LOAD_FACTOR,
                    new Throttler(CleanerConfig.LOG_CLEANER_IO_MAX_BYTES_PER_SECOND, 300, "cleaner-io", "bytes", Time.SYSTEM),
                    Time.SYSTEM, partition -> { });
        return cleaner;
    }

    private static Map<String, Object> settings(Request r) {
        Map<String, Object> settings = Store.settings(r);
        settings.put(TopicConfig.CLEANUP_POLICY_CONFIG, TopicConfig.CLEANUP_POLICY_COMPACT);
        return settings;
    }

    /**
     * Cleans all below the active segment. Timed is the cleaner alone: the log is open, and the
     * files that are replaced are unlinked a minute later, or here never.
     */
    Map<String, Object> clean(Request r) throws Exception {
        try (UnifiedLog log = store.open(r.dir(), settings(r))) {
            log.updateHighWatermark(log.logEndOffset());
            LogToClean dirty = new LogToClean(log, 0, log.activeSegment().baseOffset(), false);
            Cleaner cleaner = cleaner();
            System.gc(); // what was before is not this round's; a collection that it needs itself counts
            long began = System.nanoTime();
            Map.Entry<Long, CleanerStats> done = cleaner.clean(dirty);
            double seconds = (System.nanoTime() - began) / 1e9;
            if (done.getKey() != dirty.firstUncleanableOffset())
                throw new IllegalStateException("cleaned to " + done.getKey() + " of " + dirty.firstUncleanableOffset() + " in one round");
            CleanerStats stats = done.getValue();
            return Driver.timed(stats.messagesRead(), seconds, 1, "bytes", stats.bytesRead(), "records", stats.messagesWritten(),
                    "end", log.logEndOffset());
        }
    }

    /** Counts and hashes what a reader finds in a log: offset, key and value of each record, with lengths. */
    Map<String, Object> survivors(Request r) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        ByteBuffer header = ByteBuffer.allocate(16);
        long records = 0, next = 0;
        long began = System.nanoTime();
        try (UnifiedLog log = store.open(r.dir(), settings(r))) {
            while (next < log.logEndOffset()) {
                Records read = log.read(next, 1 << 20, FetchIsolation.LOG_END, true).records;
                if (read.sizeInBytes() == 0)
                    break;
                for (RecordBatch batch : read.batches()) {
                    batch.ensureValid();
                    for (Record record : batch) {
                        header.clear();
                        header.putLong(record.offset()).putInt(record.keySize()).putInt(record.valueSize());
                        digest.update(header.array());
                        digest.update(record.key());
                        digest.update(record.value());
                        records++;
                    }
                    next = batch.nextOffset();
                }
            }
            return Driver.timed(records, (System.nanoTime() - began) / 1e9, 1, "records", records,
                    "hash", HexFormat.of().formatHex(digest.digest()), "end", log.logEndOffset());
        }
    }
}
