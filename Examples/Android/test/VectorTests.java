package pushbouncer;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.security.GeneralSecurityException;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.json.JSONObject;

/** Vectors of RFC 8291, of its draft and of Zulip, and what must be refused. Prints a line for each; 1 if one fails. */
final class VectorTests {
  /** In front of the 32 bytes of a private key on P-256, in PKCS #8. */
  private static final String PRIVATE_KEY_FORM =
      "304102010030" + "1306072a8648ce3d020106082a8648ce3d030107" + "042730250201010420";

  private static boolean failed;

  public static void main(String[] arguments) throws Exception {
    rfc8291();
    draft();
    zulip();
    registrations();
    System.exit(failed ? 1 : 0);
  }

  /** RFC 8291, appendix A. */
  private static void rfc8291() throws Exception {
    WebPushKeys keys = rfc8291Keys();
    byte[] body =
        url("DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8w"
            + "EqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN");
    check("RFC 8291", "When I grow up, I want to be a watermelon", open(keys, "aes128gcm", body, null, null));
    for (int place : new int[] {0, 20, 21, 30, 86, body.length - 1}) {
      byte[] changed = body.clone();
      changed[place] ^= 1;
      refused("RFC 8291, changed at " + place, () -> open(keys, "aes128gcm", changed, null, null));
    }
    for (int length : new int[] {0, 16, 86, 102, body.length - 1}) {
      refused("RFC 8291, " + length + " bytes", () -> open(keys, "aes128gcm", Arrays.copyOf(body, length), null, null));
    }
    // The same keys and salt, other paddings.
    byte[] padded = again(body, "zZa5NWLSmhYhvNOOedolP50FhNXbNWrwZQn1gK2s9Mr0O6RdMTPH");
    check("RFC 8291, padded", "hi", open(keys, "aes128gcm", padded, null, null));
    check("RFC 8291, an empty text", "", open(keys, "aes128gcm", again(body, "p1gPSRS1XkN9hEVCx_GBFHA"), null, null));
    String[] malformed = {"zZa6Xz84RX4ryiDmS_X_ZvHbkA", "pf-7NWIURu93UlLM2VmGYZZIWmmd", "zZb189BryFfT8FFDSFu4Sh8d"};
    for (String text : malformed) {
      refused("RFC 8291, malformed padding", () -> open(keys, "aes128gcm", again(body, text), null, null));
    }
    byte[] small = body.clone();
    // A record of 57 bytes, of which 58 are there.
    small[18] = 0;
    small[19] = 57;
    refused("RFC 8291, two records", () -> open(keys, "aes128gcm", small, null, null));
    refused("RFC 8291, for other keys", () -> open(WebPushKeys.generate(), "aes128gcm", body, null, null));
    refused("RFC 8291, a sender's key off the curve", () -> open(keys, "aes128gcm", offCurve(body), null, null));
    String tooLong = "no body of 1 to 4096 bytes";
    refused("RFC 8291, too long", tooLong, () -> open(keys, "aes128gcm", new byte[4097], null, null));
    refused("RFC 8291, as aesgcm", () -> open(keys, "aesgcm", body, null, null));
    refused("no body", () -> open(keys, "aes128gcm", null, null, null));
  }

  /** The same header with another ciphertext. */
  private static byte[] again(byte[] body, String ciphertext) {
    byte[] bytes = url(ciphertext), changed = Arrays.copyOf(body, 86 + bytes.length);
    System.arraycopy(bytes, 0, changed, 86, bytes.length);
    return changed;
  }

  /** draft-ietf-webpush-encryption-04, section 5; then the keys and the salt of RFC 8291, with paddings. */
  private static void draft() throws Exception {
    WebPushKeys keys =
        keys(
            "9FWl15_QUQAWDaD3k3l50ZBZQJ4au27F1V4F0uLSD_M",
            "BCEkBjzL8Z3C-oi2Q7oE5t2Np-p7osjGLg93qUP0wvqRT21EEWyf0cQDQcakQMqz4hQKYOQ3il2nNZct4HgAUQU",
            "R29vIGdvbyBnJyBqb29iIQ");
    byte[] body = url("6nqAQUME8hNqw5J3kl8cpVVJylXKYqZOeseZG8UueKpA");
    byte[] sender = url("BNoRDbb84JGm8g5Z5CFxurSqsXWJ11ItfXEWYVLE85Y7CYkDjXsIEc4aqxYaQ1G8BqkXCJ6DPpDrWtdWj_mugHU");
    byte[] salt = url("lngarbyKfMoi9Z75xYXmkg");
    check("aesgcm", "I am the walrus", open(keys, "aesgcm", body, sender, salt));
    for (int place : new int[] {0, body.length - 1}) {
      byte[] changed = body.clone();
      changed[place] ^= 1;
      refused("aesgcm, changed at " + place, () -> open(keys, "aesgcm", changed, sender, salt));
    }
    refused("aesgcm without the sender's key", () -> open(keys, "aesgcm", body, null, salt));
    refused("aesgcm without a salt", () -> open(keys, "aesgcm", body, sender, null));
    refused("aesgcm, no salt in it", () -> open(keys, "aesgcm", body, sender, new byte[0]));
    refused("another encoding", () -> open(keys, "gzip", body, sender, salt));
    for (int length : new int[] {0, 15, 17}) {
      refused("aesgcm, " + length + " bytes", () -> open(keys, "aesgcm", Arrays.copyOf(body, length), sender, salt));
    }
    WebPushKeys others = rfc8291Keys();
    byte[] theirs = url("BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8");
    byte[] old = url("DGv6ra1nlYgDCS1FRnbzlw");
    byte[] paddedBody = url("4rhZRDzRuJWU2o8vht2064xZGR0OqnCIa0AnoLYEu71x2NGUEOsZww");
    check("aesgcm, padded", "hi", open(others, "aesgcm", paddedBody, theirs, old));
    check("aesgcm, an empty text", "", open(others, "aesgcm", url("4qxoTrv8ib4Ql-aTXj-TW2t3"), theirs, old));
    for (String text : new String[] {"4q8xLZ5psXUPyCamC5s3gJcwuZc", "HVMxLfwB1gDGZfPk3hvz3ZeM3Sw"}) {
      refused("aesgcm, malformed padding", () -> open(others, "aesgcm", url(text), theirs, old));
    }
  }

  private static void zulip() throws Exception {
    check("token id", "+wKIhyAx/Eg=", ZulipDevice.tokenID("c0ffee"));
    check("token id, in capitals", "jS5/TZMf7/8=", ZulipDevice.tokenID("C0FFEE"));
    check("token id of FCM", "RjY0jpbVz/o=", ZulipDevice.tokenID("android-token"));

    Map<String, String> kept = new HashMap<>();
    ZulipDevice device = new ZulipDevice(store(kept));
    refused("no push key yet", () -> device.open("AAAA"));
    kept.put("push_key", "MTaUDJDMWypQ1WufZ1NRTHSSvgYtXh1qVNSjN3aBiEFt");
    String sealed =
        "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXhn2OaMIdeNrRPRVXXK3+IbJishlr8evOpc2ZEYvDYkEOlF3m8cZK85BDAE1Np0I0+HlDmA0URVjx"
            + "5hsq8wGZtKQn+2XC5azPlvBWOdx4eS5zs+RKG1nxA72ALguG+Lnki6knUxTxiftyj3hK1HqpkyMJfv9IV36LxDj7+kM=";
    String text =
        "{\"realm_url\":\"http://zulip.testserver\",\"realm_name\":\"Zulip Dev\",\"user_id\":10,\"type\":\"test\","
            + "\"time\":1754577820}";
    check("Zulip's notification", text, device.open(sealed));
    refused("Zulip's notification, changed", () -> device.open(sealed.replace("hn2O", "hn2P")));
    refused("Zulip's notification, too short", () -> device.open("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXhn2O"));
    refused("Zulip's notification, no base64", () -> device.open("!"));

    Map<String, String> made = new ZulipDevice(store(new HashMap<>())).register(phone(null));
    byte[] key = Base64.getDecoder().decode(made.get("push_key"));
    check("a push key", "33 bytes, 49", key.length + " bytes, " + key[0]);
  }

  /** What the bouncer with the private key 00..1f opens. */
  private static void registrations() throws Exception {
    byte[] privateKey = new byte[32];
    for (int i = 0; i < 32; i++) privateKey[i] = (byte) i;
    byte[] publicKey = Base64.getDecoder().decode(BOUNCER_KEY);
    String sealed =
        "XrHb4olAOsvUHBpHjLCV2FnABFFasjkjScoS1Dl6aSUzxgXdRxhWOuse012kI3UkYIi9scXp2pr6DHJNZhlDbIr2bNaefDKTOjx/BnuXB+YZ"
            + "Q2XmI5rbcjLBhjRkvMbTUAUW4zB9psmUP5NQkTlKcswgsS7lN+Vp8BSZv39W0Y3zHz6BoLJ3cg==";
    check(
        "the vector of a sealed registration",
        "{\"token\":\"c0ffee\",\"token_kind\":\"apns\",\"timestamp\":1754385290,\"ios_app_id\":\"example.app\"}",
        Bouncer.open(sealed, publicKey, privateKey));

    JSONObject zulip = new JSONObject(Bouncer.open(phone(null).sealed(null), publicKey, privateKey));
    check("sealed for Zulip", "fcm android-token", zulip.get("token_kind") + " " + zulip.get("token"));
    check("for Zulip alone", "true", "" + zulip.isNull("audience"));
    check("sealed now", "true", "" + (Math.abs(zulip.getLong("timestamp") - System.currentTimeMillis() / 1000) < 60));

    JSONObject body = new JSONObject(phone(null).body());
    check("a sealed call has no token", "false", "" + body.has("token"));
    String sender = "application_server_key";
    check("it says that anybody may send", "true", "" + (body.has(sender) && body.isNull(sender)));
    String forGateway = body.getString("encrypted_push_registration");
    JSONObject gateway = new JSONObject(Bouncer.open(forGateway, publicKey, privateKey));
    check("sealed for the gateway", "webpush", gateway.getString("audience"));
    String malformed = "The bouncer's public key must be base64 of 32 bytes";
    refused("a bouncer's key of 31 bytes", malformed, () -> new String(Sodium.seal(new byte[1], new byte[31]), UTF_8));
  }

  private static final String BOUNCER_KEY = "j0DFrbaPJWJK5bIU6nZ6bslNgp09e14a0bpvPiE4KF8=";

  private static Registration phone(String senderKey) {
    return new Registration("https://push.example.org", "fcm", "android-token", null, senderKey, BOUNCER_KEY);
  }

  /** The other side of a sealed registration. */
  private interface Bouncer extends com.sun.jna.Library {
    Bouncer SODIUM = com.sun.jna.Native.load("sodium", Bouncer.class);

    int crypto_box_seal_open(byte[] plaintext, byte[] box, long length, byte[] publicKey, byte[] privateKey);

    static String open(String sealed, byte[] publicKey, byte[] privateKey) {
      byte[] box = Base64.getDecoder().decode(sealed), plaintext = new byte[box.length - 48];
      boolean isOpen = SODIUM.crypto_box_seal_open(plaintext, box, box.length, publicKey, privateKey) == 0;
      return isOpen ? new String(plaintext, UTF_8) : "{}";
    }
  }

  private static WebPushKeys rfc8291Keys() {
    return keys(
        "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94",
        "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
        "BTBZMqHH6r4Tts7J_aSIgg");
  }

  private static WebPushKeys keys(String privateKey, String publicKey, String auth) {
    byte[] form = new java.math.BigInteger(PRIVATE_KEY_FORM, 16).toByteArray();
    byte[] encoded = Arrays.copyOf(form, form.length + 32);
    System.arraycopy(url(privateKey), 0, encoded, form.length, 32);
    return new WebPushKeys(encoded, url(publicKey), url(auth));
  }

  private static String open(WebPushKeys keys, String encoding, byte[] body, byte[] senderKey, byte[] salt)
      throws GeneralSecurityException {
    return new String(keys.open(new WebPushKeys.Message(encoding, body, senderKey, salt)), UTF_8);
  }

  /** The same with a sender's key whose y is another: (x, y + 1) is no point. */
  private static byte[] offCurve(byte[] body) {
    byte[] changed = body.clone();
    changed[85]++;
    return changed;
  }

  private static Store store(Map<String, String> texts) {
    return new Store() {
      @Override
      public String get(String name) {
        return texts.get(name);
      }

      @Override
      public void put(Map<String, String> changes) {
        texts.putAll(changes);
      }
    };
  }

  private static byte[] url(String base64URL) {
    return Base64.getUrlDecoder().decode(base64URL);
  }

  private interface Opening {
    String open() throws Exception;
  }

  private static void check(String what, String expected, String found) {
    report(what, expected.equals(found), found);
  }

  private static void refused(String what, Opening opening) {
    refused(what, null, opening);
  }

  /** @param because what the exception says; null: any that is a refusal */
  private static void refused(String what, String because, Opening opening) {
    String found;
    boolean isRefused = false;
    try {
      found = "opened: " + opening.open();
    } catch (Exception error) {
      found = error.toString();
      isRefused = because == null ? error instanceof GeneralSecurityException : because.equals(error.getMessage());
    }
    report("refused: " + what, isRefused, found);
  }

  private static void report(String what, boolean isRight, String found) {
    failed |= !isRight;
    System.err.println(isRight ? "ok   " + what : "FAIL " + what + ": " + found);
  }
}
