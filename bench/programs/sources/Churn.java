import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Three threads allocate arrays, maps and direct buffers and check them; prints a sum of all. */
public class Churn {
    static long work(int seed) {
        Random draw = new Random(seed);
        List<byte[]> kept = new ArrayList<>();
        Map<Integer, String> names = new HashMap<>();
        long sum = 0;
        for (int number = 0; number < 1500; number++) {
            byte[] block = new byte[1 + draw.nextInt(draw.nextInt(8) == 0 ? 1 << 20 : 1 << 14)];
            for (int at = 0; at < block.length; at += 509) {
                if (block[at] != 0) throw new IllegalStateException("fresh memory is not zero");
                block[at] = (byte) number;
            }
            kept.add(block);
            for (int at = 0; at < 40; at++) names.put(draw.nextInt(5000), "name " + number + at);
            if (kept.size() > 40) {
                byte[] taken = kept.remove(draw.nextInt(40));
                for (int at = 0; at < taken.length; at += 509) sum = sum * 31 + taken[at];
            }
            if (number % 50 == 0) {
                ByteBuffer direct = ByteBuffer.allocateDirect(1 << 20);
                for (int at = 0; at < direct.capacity(); at += 4096) sum += direct.get(at);
                direct.put(number, (byte) number);
                sum += direct.get(number);
            }
            if (number % 500 == 0) System.gc();
        }
        for (String name : new java.util.TreeMap<>(names).values()) sum = sum * 17 + name.hashCode();
        return sum;
    }

    public static void main(String[] arguments) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(3);
        List<Future<Long>> results = new ArrayList<>();
        for (int seed = 0; seed < 3; seed++) {
            int own = seed;
            results.add(pool.submit((Callable<Long>) () -> work(own)));
        }
        long sum = 0;
        for (Future<Long> result : results) sum = sum * 1009 + result.get();
        pool.shutdown();
        Process child = new ProcessBuilder("sh", "-c", "head -c 3000000 /dev/zero | wc -c").start();
        System.out.print(new String(child.getInputStream().readAllBytes()));
        System.out.println("child " + child.waitFor());
        System.out.println("finished " + Math.abs(sum));
    }
}
