package seglog.peer;

import org.apache.kafka.common.config.TopicConfig;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

import java.io.File;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

/** Opens logs with the settings of a broker that was not configured, but for those named here. */
final class Store {
    // The defaults of transaction.max.timeout.ms, producer.id.expiration.ms and its interval, and
    // background.threads.
    private static final int MAX_TRANSACTION_MS = 900_000;
    private static final int PRODUCER_EXPIRATION_MS = 86_400_000;
    private static final int PRODUCER_CHECK_MS = 600_000;
    private static final int BACKGROUND_THREADS = 10;

    private static final int LEAST_SEGMENT = 1 << 20; // smaller ones are for tests, says Kafka

    private final KafkaScheduler scheduler = new KafkaScheduler(BACKGROUND_THREADS);
    private final BrokerTopicStats stats = new BrokerTopicStats();

    Store() {
        scheduler.startup();
    }

    /** Settings of a topic: those of the request, and no retention, since the records are old. */
    static Map<String, Object> settings(Request r) {
        Map<String, Object> props = new HashMap<>();
        props.put(TopicConfig.RETENTION_MS_CONFIG, -1L);
        if (r.segmentBytes() >= LEAST_SEGMENT)
            props.put(TopicConfig.SEGMENT_BYTES_CONFIG, r.segmentBytes());
        else if (r.segmentBytes() > 0)
            props.put(LogConfig.INTERNAL_SEGMENT_BYTES_CONFIG, r.segmentBytes());
        if (r.sync())
            props.put(TopicConfig.FLUSH_MESSAGES_INTERVAL_CONFIG, 1L);
        return props;
    }

    UnifiedLog open(String dir, Map<String, Object> settings) throws IOException {
        return open(dir, settings, true, 0);
    }

    /**
     * Opens a log as the log manager of a broker does. Behind an unclean shutdown what begins at
     * the recovery point is checked and its indexes are made anew.
     */
    UnifiedLog open(String dir, Map<String, Object> settings, boolean clean, long recoveryPoint) throws IOException {
        return UnifiedLog.create(new File(dir), new LogConfig(settings), 0, recoveryPoint, scheduler, stats, Time.SYSTEM,
                MAX_TRANSACTION_MS, new ProducerStateManagerConfig(PRODUCER_EXPIRATION_MS, false), PRODUCER_CHECK_MS,
                new LogDirFailureChannel(1), clean, Optional.empty());
    }

    /** Ends what is scheduled: files whose removal is due later stay. */
    void close() throws InterruptedException {
        scheduler.shutdown();
    }
}
