package seglog.peer;

import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.storage.internals.log.OffsetIndex;
import org.apache.kafka.storage.internals.log.OffsetPosition;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.options.Options;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.TimeValue;
import org.openjdk.jmh.runner.options.VerboseMode;
import org.openjdk.jmh.util.Statistics;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** Looks up random offsets in an index file with Kafka's class. */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
public class OffsetIndexLookup {
    private OffsetIndex index;
    private long[] targets; // a power of two
    private int next;

    @Setup
    public void open() throws IOException {
        index = openIndex(System.getProperty("index"), Long.getLong("base"));
        targets = readTargets(System.getProperty("targets"));
    }

    @Benchmark
    public OffsetPosition lookup() {
        return index.lookup(targets[next++ & targets.length - 1]);
    }

    private static OffsetIndex openIndex(String path, long base) throws IOException {
        return new OffsetIndex(new File(path), base, -1, false);
    }

    private static long[] readTargets(String path) throws IOException {
        ByteBuffer b = ByteBuffer.wrap(Files.readAllBytes(Path.of(path)));
        long[] targets = new long[b.remaining() / Long.BYTES];
        b.asLongBuffer().get(targets);
        return targets;
    }

    /** Runs one fork and prints a line of JSON: index, base offset, targets, seconds of warm-up, seconds of measuring. */
    public static void main(String[] args) throws Exception {
        Options options = new OptionsBuilder()
                .include(OffsetIndexLookup.class.getName())
                .forks(1)
                .jvmArgsAppend("-Dindex=" + args[0], "-Dbase=" + args[1], "-Dtargets=" + args[2])
                .warmupIterations(1).warmupTime(time(args[3]))
                .measurementIterations(1).measurementTime(time(args[4]))
                .shouldFailOnError(true)
                .verbosity(VerboseMode.SILENT)
                .build();
        RunResult run = new Runner(options).runSingle();
        Statistics scores = run.getPrimaryResult().getStatistics();

        // The file is someone else's: it is not closed, which would cut it to size.
        OffsetIndex index = openIndex(args[0], Long.parseLong(args[1]));
        long sum = 0;
        for (long target : readTargets(args[2])) {
            OffsetPosition found = index.lookup(target);
            sum = 31 * sum + found.offset() + found.position();
        }
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("op", "index");
        result.put("ns_per_op", scores.getMean());
        result.put("jmh", run.getParams().getJmhVersion());
        result.put("sum", sum);
        System.out.println(new ObjectMapper().writeValueAsString(result));
    }

    private static TimeValue time(String seconds) {
        return TimeValue.nanoseconds((long) (Double.parseDouble(seconds) * 1e9));
    }
}
