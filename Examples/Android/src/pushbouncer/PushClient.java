package pushbouncer;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.security.GeneralSecurityException;
import java.util.*;
import java.util.function.Consumer;

/**
 * The app's half of the Web Push gateway. Its calls use the network, and block: make them on a worker's thread. Have
 * one of these for each account that is signed in, which any thread may use.
 */
public record PushClient(Store store) {
  /** What the app's server needs, in the words of browsers. */
  public record Endpoint(String endpoint, String p256dh, String auth) {}

  /**
   * What to show.
   *
   * @param text the sender's; "" if the message has none; null if it cannot be had or read: show "New notification"
   * @param tag for NotificationManager.notify: a later notification with this tag takes this one's place; may be null
   * @param problem why there is no text, for the log; null if there is one
   */
  public record Notification(String text, String tag, String problem) {}

  /**
   * Subscribes; renews where there is a subscription, whose endpoint stays. Call it when somebody signs in, at each
   * start afterwards, and whenever the token changes, and give what it returns to the app's server each time: it may
   * have forgotten, and so may the gateway.
   *
   * <p>If the first answer is lost, the gateway has a subscription whose endpoint nobody knows. Nothing can be sent
   * there, and it is forgotten; the next call makes another one.
   */
  public synchronized Endpoint subscribe(Registration registration) throws IOException {
    // One that the app has left needs no word: nobody sends there any more, and it forgets the subscription.
    boolean isHere = registration.gateway().equals(store.get("gateway"));
    String endpoint = null;
    if (isHere && isSignedIn()) {
      endpoint = new Gateway(store.get("gateway")).renew(store.get("id"), store.get("secret"), registration);
    } else if (isHere) {
      unsubscribe();
    }
    if (endpoint == null) {
      Map<String, String> texts = new HashMap<>(new Gateway(registration.gateway()).subscribe(registration));
      WebPushKeys keys = WebPushKeys.generate();
      texts.put("gateway", registration.gateway());
      texts.put("private_key", encode(keys.privateKey()));
      texts.put("p256dh", encode(keys.publicKey()));
      texts.put("auth", encode(keys.auth()));
      endpoint = texts.remove("endpoint");
      store.put(texts);
    }
    return new Endpoint(endpoint, store.get("p256dh"), store.get("auth"));
  }

  /** Whether there is a subscription: a token that changes while nobody is signed in is nothing to the gateway. */
  public synchronized boolean isSignedIn() {
    return store.get("private_key") != null;
  }

  /**
   * Ends the subscription, at logout. The keys are forgotten at once, so that nothing that comes later is shown; the
   * gateway ends what waits, and tells senders that the app is gone. If it cannot be reached, an exception says so:
   * call it again, or at the next start `waiting`, which then does this.
   */
  public synchronized void unsubscribe() throws IOException {
    forget("private_key", "p256dh", "auth");
    if (store.get("id") != null) new Gateway(store.get("gateway")).end(store.get("id"), store.get("secret"));
    forget("gateway", "id", "secret");
  }

  /**
   * Reads a push: what RemoteMessage.getData() has. Null if nothing is to be shown: it is for somebody who has signed
   * out, or its time is over, or it was fetched before.
   */
  public synchronized Notification received(Map<String, String> data) {
    if (!isSignedIn() || !store.get("id").equals(data.get("subscription"))) return null;
    String message = data.get("message"), topic = data.get("topic");
    try {
      if (message != null) return fetched(message, topic == null ? message : topic);
      if (!data.containsKey("encoding")) return new Notification("", topic, null);
      return opened(new WebPushKeys.Message(data.get("encoding"), decode(data.get("body")),
          decode(data.get("crypto_key")), decode(data.get("encryption"))), topic);
    } catch (IOException | IllegalArgumentException error) {
      // What could not be fetched waits: `waiting` shows it in this one's place.
      return new Notification(null, message, error.getMessage());
    }
  }

  /**
   * Fetches the bodies that wait, oldest first: at the app's start, and in onDeletedMessages. Each is shown at once,
   * since the gateway ends it then. After an exception the others still wait.
   */
  public synchronized void waiting(Consumer<Notification> show) throws IOException {
    if (!isSignedIn()) {
      unsubscribe();
      return;
    }
    for (String message : new Gateway(store.get("gateway")).waiting(store.get("id"), store.get("secret"))) {
      Notification notification = fetched(message, message);
      if (notification != null) show.accept(notification);
    }
  }

  private Notification fetched(String message, String tag) throws IOException {
    WebPushKeys.Message body = new Gateway(store.get("gateway")).fetch(message, store.get("secret"));
    return body == null ? null : opened(body, tag);
  }

  private Notification opened(WebPushKeys.Message message, String tag) {
    try {
      byte[] privateKey = decode(store.get("private_key"));
      WebPushKeys keys = new WebPushKeys(privateKey, decode(store.get("p256dh")), decode(store.get("auth")));
      return new Notification(new String(keys.open(message), UTF_8), tag, null);
    } catch (GeneralSecurityException error) {
      return new Notification(null, tag, "The message cannot be decrypted: " + error.getMessage());
    }
  }

  private void forget(String... names) throws IOException {
    Map<String, String> texts = new HashMap<>();
    for (String name : names) texts.put(name, null);
    store.put(texts);
  }

  private static String encode(byte[] bytes) {
    return Base64.getUrlEncoder().withoutPadding().encodeToString(bytes);
  }

  private static byte[] decode(String base64URL) {
    return base64URL == null ? null : Base64.getUrlDecoder().decode(base64URL);
  }
}
