import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * Runs one of Kafka's tools for each line of standard input, the output of each
 * run going to files of its own. One process for many runs, since starting a
 * process costs more than dumping a small file.
 *
 * A line is tab separated: file for stdout, file for stderr, the main class of
 * the tool, then its arguments.
 */
public class RunEach {
    public static void main(String[] ignored) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] fields = line.split("\t");
            try (PrintStream out = new PrintStream(new FileOutputStream(fields[0]), false, StandardCharsets.UTF_8);
                 PrintStream err = new PrintStream(new FileOutputStream(fields[1]), false, StandardCharsets.UTF_8)) {
                System.setOut(out);
                System.setErr(err);
                try {
                    Class.forName(fields[2]).getMethod("main", String[].class)
                        .invoke(null, (Object) Arrays.copyOfRange(fields, 3, fields.length));
                } catch (InvocationTargetException e) {
                    // What the launcher prints when main throws, less the stack.
                    err.print("Exception in thread \"main\" " + e.getCause() + "\n");
                }
            }
        }
    }
}
