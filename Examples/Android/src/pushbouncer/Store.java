package pushbouncer;

import java.io.IOException;
import java.util.Map;

/** Keeps the keys and secrets of one account. Only the app may read them, and no backup may have them. */
public interface Store {
  /** The text with that name; null if there is none. */
  String get(String name);

  /** Keeps all of these texts, or none, for certain; null removes one. */
  void put(Map<String, String> texts) throws IOException;
}
