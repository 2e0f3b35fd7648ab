import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.function.IntUnaryOperator;

/** Shared by the Java applications: prints "ready", answers "visit N" with "done". */
final class Lines {
    private Lines() {}

    static void serve(IntUnaryOperator visit) throws IOException {
        System.out.println("ready");
        var input = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = input.readLine()) != null; ) {
            System.out.println("done " + visit.applyAsInt(Integer.parseInt(line.split(" ")[1])));
        }
    }
}
