import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

import org.apache.kafka.tools.DumpLogSegments;

/**
 * Runs Kafka's dump tool once per line of standard input, each run's output
 * going to files of its own. One process for many runs, since starting a
 * process costs more than dumping a small file.
 *
 * A line is tab separated: file for stdout, file for stderr, then the
 * arguments of the tool.
 */
public class DumpEach {
    public static void main(String[] ignored) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] fields = line.split("\t");
            try (PrintStream out = new PrintStream(new FileOutputStream(fields[0]), false, StandardCharsets.UTF_8);
                 PrintStream err = new PrintStream(new FileOutputStream(fields[1]), false, StandardCharsets.UTF_8)) {
                System.setOut(out);
                System.setErr(err);
                try {
                    DumpLogSegments.main(Arrays.copyOfRange(fields, 2, fields.length));
                } catch (Throwable t) {
                    // What the launcher prints when main throws, less the stack.
                    err.print("Exception in thread \"main\" " + t + "\n");
                }
            }
        }
    }
}
