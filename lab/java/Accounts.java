import java.io.IOException;
import java.util.ArrayDeque;
import java.util.TreeMap;

/** Accounts with a history of bookings each. A visit books on the busy accounts and sums up a branch. */
final class Accounts {
    private static final int ACCOUNTS = 120_000;

    private record Booking(int from, long cents, String text) {}

    private final TreeMap<Integer, ArrayDeque<Booking>> histories = new TreeMap<>();

    private Accounts() {
        for (int account = 0; account < ACCOUNTS; account++) {
            var history = new ArrayDeque<Booking>();
            for (int i = 0; i < 6; i++) {
                history.add(new Booking(account ^ i, account * 100L + i, "opening " + account + "/" + i));
            }
            histories.put(account, history);
        }
    }

    private int visit(int round) {
        for (int i = 0; i < 20_000; i++) {
            var history = histories.get((i * 7) % (ACCOUNTS / 5));
            history.removeFirst();
            history.addLast(new Booking(i, round * 1000L + i, "round " + round));
        }
        int branch = ACCOUNTS / 10;
        long sum = 0;
        for (var history : histories.subMap(round % 10 * branch, (round % 10 + 1) * branch).values()) {
            for (var booking : history) {
                sum += booking.cents() + booking.text().length();
            }
        }
        return (int) (sum & 0xffff);
    }

    public static void main(String[] arguments) throws IOException {
        Lines.serve(new Accounts()::visit);
    }
}
