package pushbouncer;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.*;
import java.net.*;
import java.util.*;
import java.util.regex.*;
import org.json.*;

/**
 * The gateway's calls. They block, for half a minute at most. An IOException says that the gateway refuses, cannot be
 * reached, or does not answer as a gateway: in the latter cases nobody knows whether the call was carried out.
 *
 * @param url without a path, as "https://push.example.org"
 */
record Gateway(String url) {
  private record Answer(int status, byte[] body, HttpURLConnection connection) {
    JSONObject json() throws IOException {
      try {
        return new JSONObject(new String(body, UTF_8));
      } catch (JSONException error) {
        throw new IOException("The answer is no JSON object: is this a gateway's address?", error);
      }
    }

    /** The bytes of a parameter in a header, as `salt` in "keyid=p256dh;salt=..."; null if there is none. */
    byte[] parameter(String header, String name) {
      String text = connection.getHeaderField(header);
      Matcher found = Pattern.compile("(^|[;,])\\s*" + name + "=\"?([\\w-]+)").matcher(text == null ? "" : text);
      return found.find() ? Base64.getUrlDecoder().decode(found.group(2)) : null;
    }
  }

  /** In milliseconds; in bytes. */
  private static final int CONNECT = 5_000, READ = 10_000, WHOLE = 15_000, LONGEST_ANSWER = 65_536;
  private static final String NAME = "[A-Za-z0-9_-]{1,128}", ENDPOINT = "https?://[!-~]{1,1024}";
  /** The secret is not the subscription's: the gateway was set up anew. There is no such message (any more). */
  private static final int UNAUTHORIZED = 401, NOT_FOUND = 404;

  /** Subscribes. Returns `id`, `endpoint` and `secret`. */
  Map<String, String> subscribe(Registration registration) throws IOException {
    JSONObject made = call("POST", "subscriptions", null, registration, 0).json();
    return Map.of("id", text(made, "id", NAME), "endpoint", text(made, "endpoint", ENDPOINT),
        "secret", text(made, "secret", NAME));
  }

  /** Renews a subscription. Returns its endpoint; null if the gateway knows nothing of it. */
  String renew(String id, String secret, Registration registration) throws IOException {
    Answer answer = call("PUT", "subscriptions/" + id, secret, registration, UNAUTHORIZED);
    return answer.status == UNAUTHORIZED ? null : text(answer.json(), "endpoint", ENDPOINT);
  }

  /** Ends a subscription, with the bodies that wait for it. It is no error if there is none. */
  void end(String id, String secret) throws IOException {
    call("DELETE", "subscriptions/" + id, secret, null, UNAUTHORIZED);
  }

  /** The ids of the bodies that wait, oldest first: a hundred at most. */
  List<String> waiting(String id, String secret) throws IOException {
    JSONObject answer = call("GET", "subscriptions/" + id + "/messages", secret, null, 0).json();
    JSONArray messages = answer.optJSONArray("messages");
    if (messages == null) throw new IOException("The gateway's answer has no messages");
    List<String> ids = new ArrayList<>();
    for (int i = 0; i < messages.length(); i++) ids.add(text(messages.optJSONObject(i), "id", NAME));
    return ids;
  }

  /**
   * A body that did not fit into its push. For five minutes it may be fetched again, but it is listed no more.
   *
   * @return null if its time is over, or it was fetched before
   */
  WebPushKeys.Message fetch(String message, String secret) throws IOException {
    if (!message.matches(NAME)) throw new IOException("The push names no message");
    Answer answer = call("GET", "messages/" + message, secret, null, NOT_FOUND);
    if (answer.status == NOT_FOUND) return null;
    return new WebPushKeys.Message(answer.connection.getHeaderField("Content-Encoding"), answer.body,
        answer.parameter("Crypto-Key", "dh"), answer.parameter("Encryption", "salt"));
  }

  private static String text(JSONObject json, String member, String form) throws IOException {
    String text = json == null ? "" : json.optString(member);
    if (!text.matches(form)) throw new IOException("The gateway's answer has no valid " + member);
    return text;
  }

  /** @param expected a status that is no error, beside 2xx */
  private Answer call(String method, String path, String secret, Registration sent, int expected) throws IOException {
    HttpURLConnection connection = (HttpURLConnection) new URL(url + "/webpush/v1/" + path).openConnection();
    try {
      connection.setRequestMethod(method);
      connection.setConnectTimeout(CONNECT);
      connection.setReadTimeout(READ);
      // Nobody but the gateway gets the secret; and bodies have an encoding of their own.
      connection.setInstanceFollowRedirects(false);
      connection.setRequestProperty("Accept-Encoding", "identity");
      if (secret != null) connection.setRequestProperty("Authorization", "Bearer " + secret);
      if (sent != null) {
        connection.setDoOutput(true);
        connection.setRequestProperty("Content-Type", "application/json");
        try (OutputStream stream = connection.getOutputStream()) {
          stream.write(sent.body().getBytes(UTF_8));
        }
      }
      int status = connection.getResponseCode();
      InputStream stream = status < 400 ? connection.getInputStream() : connection.getErrorStream();
      Answer answer = new Answer(status, read(stream), connection);
      if (status / 100 == 2 || status == expected) return answer;
      String message = "";
      try {
        message = answer.json().optString("message");
      } catch (IOException error) {
        // The status of a proxy in between has to do.
      }
      throw new IOException(
          "The gateway answered " + status + ": " + message.substring(0, Math.min(message.length(), 255)));
    } finally {
      connection.disconnect();
    }
  }

  private static byte[] read(InputStream stream) throws IOException {
    long deadline = System.nanoTime() + WHOLE * 1_000_000L;
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    byte[] part = new byte[8_192];
    for (int count; stream != null && (count = stream.read(part)) >= 0; ) {
      bytes.write(part, 0, count);
      if (bytes.size() > LONGEST_ANSWER) throw new IOException("The answer is too long");
      if (System.nanoTime() > deadline) throw new IOException("The answer takes too long");
    }
    return bytes.toByteArray();
  }
}
