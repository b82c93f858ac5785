package seglog.peer;

import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.utils.AppInfoParser;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;

/** Reads requests, a line of JSON each, does them one by one, and answers each with a line of JSON. */
public final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Store store = new Store();
    private final LogWork log = new LogWork(store);
    private final CleanWork clean = new CleanWork(store);

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // only answers go there
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Driver driver = new Driver();
        for (String line = in.readLine(); line != null; line = in.readLine())
            out.println(driver.answer(line));
        driver.store.close();
    }

    private String answer(String line) throws IOException {
        Map<String, Object> result = new LinkedHashMap<>();
        try {
            Request r = JSON.readValue(line, Request.class);
            result.put("op", r.op());
            result.putAll(run(r));
            addMemory(result);
        } catch (Exception | LinkageError | AssertionError e) {
            e.printStackTrace();
            result.put("error", e.toString());
        }
        return JSON.writeValueAsString(result);
    }

    private Map<String, Object> run(Request r) throws Exception {
        return switch (r.op()) {
            case "version" -> Map.of("kafka", AppInfoParser.getVersion(), "java", Runtime.version().toString());
            case "append" -> log.append(r);
            case "latency" -> log.latency(r);
            case "fill" -> log.fill(r);
            case "get" -> log.get(r);
            case "time" -> log.time(r);
            case "scan" -> log.scan(r);
            case "open" -> log.open(r);
            case "drop" -> log.drop(r);
            case "clean" -> clean.clean(r);
            case "survivors" -> clean.survivors(r);
            default -> throw new IllegalArgumentException("no such op: " + r.op());
        };
    }

    /** A result: so many pieces of work in so many seconds, each of so many records, and what else there is to say. */
    static Map<String, Object> timed(long ops, double seconds, int perOp, Object... more) {
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("ops", ops);
        result.put("seconds", seconds);
        result.put("ns_per_op", ops > 0 ? seconds * 1e9 / ops : 0);
        result.put("records_per_second", seconds > 0 ? ops * (double) perOp / seconds : 0);
        for (int i = 0; i < more.length; i += 2)
            result.put((String) more[i], more[i + 1]);
        return result;
    }

    /** Adds what memory the process has and had, where the system tells. */
    private static void addMemory(Map<String, Object> result) throws IOException {
        Path status = Path.of("/proc/self/status");
        if (!Files.exists(status))
            return;
        for (String line : Files.readAllLines(status)) {
            String[] words = line.split("\\s+");
            switch (words[0]) {
                case "VmHWM:" -> result.put("peak_rss_bytes", Long.parseLong(words[1]) * 1024);
                case "RssAnon:" -> result.put("anon_bytes", Long.parseLong(words[1]) * 1024);
                default -> { }
            }
        }
    }
}
