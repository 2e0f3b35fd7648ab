import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;

/** A text index in memory. A visit adds documents and answers queries. */
final class TextIndex {
    private static final int DOCUMENTS = 60_000;
    private static final int WORDS = 20_000;
    private final HashMap<String, ArrayList<Integer>> postings = new HashMap<>();
    private final ArrayList<String> documents = new ArrayList<>();

    private static String word(int number) {
        return "term" + Integer.toString(number % WORDS, 36);
    }

    private void add(int seed) {
        var text = new StringBuilder();
        for (int i = 0; i < 40; i++) {
            String word = word(seed * 31 + i * i * 13);
            text.append(word).append(' ');
            postings.computeIfAbsent(word, key -> new ArrayList<>()).add(documents.size());
        }
        documents.add(text.toString());
    }

    private int visit(int round) {
        for (int i = 0; i < 300; i++) {
            add(round * 300 + i);
        }
        int found = 0;
        for (int query = 0; query < 400; query++) {
            // Three of four queries are for the few common terms.
            int term = query % 4 == 0 ? round * 577 + query * 37 : query % 100;
            for (int document : postings.getOrDefault(word(term), new ArrayList<>())) {
                found += documents.get(document).length() & 1;
            }
        }
        return found;
    }

    public static void main(String[] arguments) throws IOException {
        var index = new TextIndex();
        for (int i = 0; i < DOCUMENTS; i++) {
            index.add(i);
        }
        Lines.serve(index::visit);
    }
}
