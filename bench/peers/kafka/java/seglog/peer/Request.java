package seglog.peer;

import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.fasterxml.jackson.databind.annotation.JsonNaming;

/** A line of input: what to do, and its settings. The fields are those of Request in driver.go. */
@JsonNaming(PropertyNamingStrategies.SnakeCaseStrategy.class)
record Request(
        String op,
        String dir,
        long records,
        int batch,
        int value,
        int threads,
        boolean sync,
        double seconds,
        double warmup,
        long maxBytes,
        int segmentBytes,
        boolean unclean,
        long recoveryPoint,
        boolean keepOpen,
        long seed) {
}
