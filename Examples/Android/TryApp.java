import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.*;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.GeneralSecurityException;
import java.util.*;
import org.json.JSONException;
import org.json.JSONObject;
import pushbouncer.*;

/** The app as a command, for tests: `Examples/story.py` says what it takes and prints. */
final class TryApp {
  private final Store store;
  private final PushClient client;
  private final PrintStream out = new PrintStream(System.out, true, UTF_8);

  private TryApp(Path state) throws IOException {
    store = new FileStore(state);
    client = new PushClient(store);
  }

  public static void main(String[] arguments) {
    try {
      if (arguments.length < 2) throw new IllegalArgumentException("usage: try-app STATE COMMAND ...");
      new TryApp(Path.of(arguments[0])).run(arguments[1], List.of(arguments).subList(2, arguments.length));
    } catch (IOException | GeneralSecurityException | JSONException | IllegalArgumentException error) {
      System.err.println(error.getMessage());
      System.exit(1);
    }
  }

  private void run(String command, List<String> words)
      throws IOException, GeneralSecurityException, JSONException {
    switch (command) {
      case "subscribe" -> {
        Map<String, String> settings = new HashMap<>();
        settings.put("app_gateway", word(words, 0));
        settings.put("app_kind", word(words, 1));
        for (String name : List.of("--ios-app-id", "--sender-key", "--seal-to")) {
          settings.put(name, option(words, name));
        }
        store.put(settings);
        subscribe(word(words, 2));
      }
      case "renew" -> {
        if (!client.isSignedIn()) throw new IllegalArgumentException("There is no subscription yet");
        subscribe(word(words, 0));
      }
      case "received" -> {
        JSONObject data = new JSONObject(new String(System.in.readAllBytes(), UTF_8));
        Map<String, String> texts = new HashMap<>();
        for (Iterator<String> names = data.keys(); names.hasNext(); ) {
          String name = names.next();
          if (data.get(name) instanceof String text) texts.put(name, text);
        }
        print(client.received(texts));
      }
      case "waiting" -> client.waiting(this::print);
      case "unsubscribe" -> client.unsubscribe();
      case "zulip-register" -> {
        String appID = option(words, "--ios-app-id");
        Registration phone = new Registration(null, word(words, 0), word(words, 1), appID, null, word(words, 2));
        out.println(new JSONObject(new ZulipDevice(store).register(phone)));
      }
      case "zulip-open" -> out.println(new JSONObject().put("text", new ZulipDevice(store).open(word(words, 0))));
      default -> throw new IllegalArgumentException("There is no command " + command);
    }
  }

  private void subscribe(String token) throws IOException, JSONException {
    PushClient.Endpoint made = client.subscribe(new Registration(store.get("app_gateway"), store.get("app_kind"), token,
        store.get("--ios-app-id"), store.get("--sender-key"), store.get("--seal-to")));
    out.println(
        new JSONObject().put("endpoint", made.endpoint()).put("p256dh", made.p256dh()).put("auth", made.auth()));
  }

  private void print(PushClient.Notification shown) {
    Map<String, Object> line = new HashMap<>();
    line.put("text", shown == null ? null : shown.text());
    if (shown == null) line.put("reason", "There is nothing to show: signed out, over, or fetched before");
    else if (shown.problem() != null) line.put("reason", shown.problem());
    out.println(new JSONObject(line));
  }

  private static String word(List<String> words, int index) {
    if (index >= words.size()) throw new IllegalArgumentException("A word is missing: see Examples/story.py");
    return words.get(index);
  }

  private static String option(List<String> words, String name) {
    return words.contains(name) ? word(words, words.indexOf(name) + 1) : null;
  }

  /** A file that only its user can read. On Android the system has something for this: see ChatMessagingService. */
  private static final class FileStore implements Store {
    private final Path path;
    private final JSONObject texts;

    FileStore(Path path) throws IOException {
      this.path = path;
      try {
        texts = Files.exists(path) ? new JSONObject(Files.readString(path)) : new JSONObject();
      } catch (JSONException error) {
        throw new IOException(path + " is damaged: remove it, and subscribe again");
      }
    }

    @Override
    public String get(String name) {
      return texts.optString(name, null);
    }

    @Override
    public void put(Map<String, String> changes) throws IOException {
      for (Map.Entry<String, String> change : changes.entrySet()) {
        try {
          // Null removes.
          texts.put(change.getKey(), change.getValue());
        } catch (JSONException error) {
          throw new IllegalStateException("a text is JSON", error);
        }
      }
      Path fresh = Path.of(path + ".new");
      Files.deleteIfExists(fresh);
      Files.createFile(fresh, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
      Files.writeString(fresh, texts.toString());
      Files.move(fresh, path, StandardCopyOption.ATOMIC_MOVE);
    }
  }
}
