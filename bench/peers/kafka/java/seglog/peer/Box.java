package seglog.peer;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Repeats work for a time, in one thread or several. */
final class Box {
    /** Does one piece of work. */
    interface Work {
        void run() throws Exception;
    }

    interface Maker {
        /** Makes the work of a thread. */
        Work make(int thread) throws Exception;
    }

    record Timed(long ops, double seconds) {
    }

    private Box() {
    }

    static Timed run(Request r, int stride, Maker maker) throws Exception {
        return run(r, stride, Long.MAX_VALUE, maker);
    }

    /**
     * Repeats work, and looks at the clock once for so many pieces of it. The same work is warmed
     * up first, so that what is timed has been compiled. Either ends early when all threads
     * together have done limit pieces.
     */
    static Timed run(Request r, int stride, long limit, Maker maker) throws Exception {
        int threads = Math.max(1, r.threads());
        List<Work> work = new ArrayList<>();
        for (int i = 0; i < threads; i++)
            work.add(maker.make(i));
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            if (r.warmup() > 0)
                repeat(pool, work, r.warmup(), stride, limit / threads);
            return repeat(pool, work, r.seconds(), stride, limit / threads);
        } finally {
            pool.shutdown();
        }
    }

    private static Timed repeat(ExecutorService pool, List<Work> all, double seconds, int stride, long limit) throws Exception {
        long length = (long) (seconds * 1e9);
        long[] began = new long[1];
        CyclicBarrier start = new CyclicBarrier(all.size(), () -> began[0] = System.nanoTime());
        List<Future<Long>> counts = new ArrayList<>();
        for (Work work : all)
            counts.add(pool.submit(() -> {
                start.await();
                long ops = 0;
                do {
                    for (int i = 0; i < stride; i++)
                        work.run();
                    ops += stride;
                } while (ops < limit && System.nanoTime() - began[0] < length);
                return ops;
            }));
        long ops = 0;
        for (Future<Long> count : counts)
            ops += count.get();
        return new Timed(ops, (System.nanoTime() - began[0]) / 1e9);
    }
}
