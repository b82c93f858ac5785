package seglog.peer;

import org.apache.kafka.common.config.TopicConfig;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.common.TransactionVersion;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogAppendInfo;
import org.apache.kafka.storage.internals.log.LogStartOffsetIncrementReason;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.log.VerificationGuard;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicLong;

/** The workloads over a log. */
final class LogWork {
    private static final int FETCH = 1 << 20; // max.partition.fetch.bytes

    private final Store store;
    private UnifiedLog kept; // held open until the driver is killed

    LogWork(Store store) {
        this.store = store;
    }

    /**
     * Appends batches for a time. Timed is what a producer does, which is encoding, and what a
     * broker does: checking, numbering and writing, and syncing if the request says so.
     */
    Map<String, Object> append(Request r) throws Exception {
        AtomicLong numbers = new AtomicLong();
        try (UnifiedLog log = store.open(r.dir(), Store.settings(r))) {
            Box.Timed t = Box.run(r, r.sync() ? 1 : 16, appends(r), thread -> {
                Data data = new Data(r.batch(), r.value());
                RequestLocal local = RequestLocal.withThreadConfinedCaching();
                return () -> appendOne(log, data, numbers.getAndAdd(r.batch()), r.batch(), local);
            });
            if (log.logEndOffset() != numbers.get())
                throw new IllegalStateException("appended " + numbers + " records, the log ends at " + log.logEndOffset());
            if (r.threads() <= 1) // several do not append in the order of numbers
                new Reader(log).get(log.logEndOffset() - 1);
            return Driver.timed(t.ops(), t.seconds(), r.batch(), "end", log.logEndOffset(), "bytes", log.size());
        }
    }

    /** How many appends there may be before keys and values have the request's size. */
    private static long appends(Request r) {
        return r.maxBytes() > 0 ? r.maxBytes() / ((long) r.batch() * (Data.KEY + r.value())) + 1 : Long.MAX_VALUE;
    }

    /** Measures each append. */
    Map<String, Object> latency(Request r) throws Exception {
        Data data = new Data(r.batch(), r.value());
        RequestLocal local = RequestLocal.withThreadConfinedCaching();
        try (UnifiedLog log = store.open(r.dir(), Store.settings(r))) {
            long[] all = new long[1 << 16];
            int n = 0;
            long warm = System.nanoTime() + (long) (r.warmup() * 1e9), until = warm + (long) (r.seconds() * 1e9);
            for (long now = System.nanoTime(), limit = appends(r); n == 0 || now < until && n < limit;) {
                appendOne(log, data, log.logEndOffset(), r.batch(), local);
                long then = System.nanoTime();
                if (now >= warm) {
                    if (n == all.length)
                        all = Arrays.copyOf(all, 2 * n);
                    all[n++] = then - now;
                    then = System.nanoTime(); // not the copying
                }
                now = then;
            }
            long[] sorted = Arrays.copyOf(all, n);
            Arrays.sort(sorted);
            return Driver.timed(n, r.seconds(), r.batch(), "end", log.logEndOffset(), "p50_ns", quantile(sorted, 0.5),
                    "p99_ns", quantile(sorted, 0.99), "p999_ns", quantile(sorted, 0.999));
        }
    }

    private static long quantile(long[] sorted, double q) {
        return sorted.length == 0 ? 0 : sorted[(int) Math.min(sorted.length - 1, (long) (q * sorted.length))];
    }

    private static LogAppendInfo appendOne(UnifiedLog log, Data data, long first, int count, RequestLocal local) {
        return log.appendAsLeader(data.encode(first, count), 0, AppendOrigin.CLIENT, local, VerificationGuard.SENTINEL,
                TransactionVersion.TV_UNKNOWN);
    }

    /** Makes a log for the others, and leaves it open if the driver is to be killed. */
    Map<String, Object> fill(Request r) throws Exception {
        Data data = new Data(r.batch(), r.value());
        RequestLocal local = RequestLocal.withThreadConfinedCaching();
        UnifiedLog log = store.open(r.dir(), Store.settings(r));
        long began = System.nanoTime(), ops = 0;
        for (long n = 0; n < r.records(); n += r.batch(), ops++)
            appendOne(log, data, n, (int) Math.min(r.batch(), r.records() - n), local);
        double seconds = (System.nanoTime() - began) / 1e9;
        Map<String, Object> result = Driver.timed(ops, seconds, r.batch(), "end", log.logEndOffset(), "bytes", log.size(),
                "active_base", log.activeSegment().baseOffset(), "segments", log.numberOfSegments());
        if (r.keepOpen())
            kept = log;
        else
            log.close();
        return result;
    }

    /** Reads records at random offsets, with the batch's checksum, which a consumer checks by default. */
    Map<String, Object> get(Request r) throws Exception {
        try (UnifiedLog log = store.open(r.dir(), Store.settings(r))) {
            long end = log.logEndOffset();
            Box.Timed t = Box.run(r, 16, thread -> {
                SplittableRandom random = new SplittableRandom(r.seed() + thread);
                Reader reader = new Reader(log);
                return () -> reader.get(random.nextLong(end));
            });
            return Driver.timed(t.ops(), t.seconds(), 1, "end", end);
        }
    }

    /** Looks up the first record at or after random times. */
    Map<String, Object> time(Request r) throws Exception {
        try (UnifiedLog log = store.open(r.dir(), Store.settings(r))) {
            long first = Data.time(0), span = Data.time(log.logEndOffset() - 1) + 1 - first;
            Box.Timed t = Box.run(r, 16, thread -> {
                SplittableRandom random = new SplittableRandom(r.seed() + thread);
                return () -> {
                    long time = first + random.nextLong(span);
                    FileRecords.TimestampAndOffset found = log.fetchOffsetByTimestamp(time, Optional.empty()).timestampAndOffsetOpt().orElseThrow();
                    if (found.timestamp != time || found.offset != Data.firstAt(time))
                        throw new IllegalStateException("time " + time + ": found " + found);
                };
            });
            return Driver.timed(t.ops(), t.seconds(), 1, "end", log.logEndOffset());
        }
    }

    /** Reads all records over and over, checksums included. An op is a record. */
    Map<String, Object> scan(Request r) throws Exception {
        try (UnifiedLog log = store.open(r.dir(), Store.settings(r))) {
            Box.Timed t = Box.run(r, 1, thread -> {
                Reader reader = new Reader(log);
                return reader::scan;
            });
            return Driver.timed(t.ops() * log.logEndOffset(), t.seconds(), 1, "end", log.logEndOffset(), "scans", t.ops());
        }
    }

    /**
     * Opens a log over and over, as after a clean shutdown or after a crash, and reads the last
     * record; closing it is not timed. The first open of all is the cold one.
     */
    Map<String, Object> open(Request r) throws Exception {
        long end = 0;
        List<Long> all = new ArrayList<>();
        long warm = System.nanoTime() + (long) (r.warmup() * 1e9), until = warm + (long) (r.seconds() * 1e9);
        long cold = 0, sum = 0;
        do {
            long began = System.nanoTime();
            UnifiedLog log = store.open(r.dir(), Store.settings(r), !r.unclean(), r.recoveryPoint());
            end = log.logEndOffset();
            if (end > 0)
                new Reader(log).get(end - 1);
            long took = System.nanoTime() - began;
            log.close();
            if (cold == 0)
                cold = took;
            if (began >= warm) {
                all.add(took);
                sum += took;
            }
        } while (System.nanoTime() < until || all.isEmpty());
        Collections.sort(all);
        return Driver.timed(all.size(), sum / 1e9, 1, "end", end, "cold_ns", cold, "median_ns", all.get(all.size() / 2));
    }

    /**
     * Removes the first half of a log once. Its files are unlinked by a scheduler's thread, after
     * no delay here: visible is when the records are gone, seconds when the files are, too.
     */
    Map<String, Object> drop(Request r) throws Exception {
        Map<String, Object> settings = Store.settings(r);
        settings.put(TopicConfig.FILE_DELETE_DELAY_MS_CONFIG, 0L);
        try (UnifiedLog log = store.open(r.dir(), settings)) {
            long end = log.logEndOffset(), half = end / 2, before = log.numberOfSegments();
            log.updateHighWatermark(end);
            long size = size(r.dir());
            long began = System.nanoTime();
            log.maybeIncrementLogStartOffset(half, LogStartOffsetIncrementReason.ClientRecordDeletion);
            int removed = log.deleteOldSegments();
            long visible = System.nanoTime() - began;
            long left = size(r.dir());
            while (anyRemoved(r.dir()))
                Thread.onSpinWait();
            double seconds = (System.nanoTime() - began) / 1e9;
            if (log.logStartOffset() != half || log.numberOfSegments() != before - removed)
                throw new IllegalStateException("the log begins at " + log.logStartOffset() + " instead of " + half);
            new Reader(log).get(half);
            return Driver.timed(1, seconds, 1, "end", end, "visible_ns", visible, "segments", removed,
                    "freed_percent", 100.0 * (size - left) / size);
        }
    }

    private static long size(String dir) {
        File[] files = new File(dir).listFiles();
        return files == null ? 0 : Arrays.stream(files).mapToLong(File::length).sum();
    }

    private static boolean anyRemoved(String dir) {
        String[] names = new File(dir).list();
        return names == null || Arrays.stream(names).anyMatch(n -> n.endsWith(".deleted"));
    }

    /** Reads from a log as a fetch and a consumer do: one copy into memory, then checks. */
    private static final class Reader {
        private final UnifiedLog log;
        private ByteBuffer buffer = ByteBuffer.allocate(1 << 16); // grows to the largest fetch

        Reader(UnifiedLog log) {
            this.log = log;
        }

        private MemoryRecords fetch(long offset, int bytes) throws IOException {
            FileRecords file = (FileRecords) log.read(offset, bytes, FetchIsolation.LOG_END, true).records;
            if (file.sizeInBytes() > buffer.capacity())
                buffer = ByteBuffer.allocate(file.sizeInBytes());
            buffer.clear().limit(file.sizeInBytes());
            file.readInto(buffer, 0);
            return MemoryRecords.readableRecords(buffer);
        }

        /** Reads one batch, the least that a log reads at once, and looks for the record in it. */
        void get(long offset) throws IOException {
            for (MutableRecordBatch batch : fetch(offset, 1).batches()) {
                batch.ensureValid();
                for (Record record : batch)
                    if (record.offset() == offset) {
                        Data.check(record, offset);
                        return;
                    }
            }
            throw new IllegalStateException("offset " + offset + " is not to be found");
        }

        void scan() throws IOException {
            long end = log.logEndOffset(), next = 0;
            while (next < end)
                for (MutableRecordBatch batch : fetch(next, FETCH).batches()) { // steps over a last one that is cut
                    batch.ensureValid();
                    for (Record record : batch)
                        Data.check(record, next++);
                }
        }
    }
}
