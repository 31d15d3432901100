package pushbouncer;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.*;
import org.json.JSONObject;

/**
 * What the app asks for.
 *
 * @param gateway the gateway's address, as "https://push.example.org"
 * @param tokenKind "fcm", or "apns" for an iPhone
 * @param token as Firebase gives it, at most 1024 characters
 * @param iosAppID the bundle id of an iPhone's app; null for "fcm"
 * @param senderKey the VAPID key of the only server that may send, 65 bytes in base64url; null: anybody may
 * @param sealTo the bouncer's public key, base64 of 32 bytes: only it can read the token then; null: it is not sealed
 */
public record Registration(
    String gateway, String tokenKind, String token, String iosAppID, String senderKey, String sealTo) {
  /** The body of POST and PUT. It always says who may send, so that no PUT opens to all what was one sender's. */
  String body() {
    Map<String, Object> body = sealTo == null ? members() : new HashMap<>(
        Map.of("bouncer_public_key", sealTo, "encrypted_push_registration", sealed("webpush")));
    body.put("application_server_key", senderKey);
    return new JSONObject(body).toString();
  }

  /**
   * The token as only the bouncer can read it: base64 of libsodium's crypto_box_seal.
   *
   * @param audience "webpush" for the gateway, null for Zulip's servers: neither takes what is meant for the other
   */
  String sealed(String audience) {
    Map<String, Object> plaintext = members();
    plaintext.put("audience", audience);
    // In seconds; the bouncer takes it for a day.
    plaintext.put("timestamp", System.currentTimeMillis() / 1000);
    byte[] bytes = new JSONObject(plaintext).toString().getBytes(UTF_8);
    return Base64.getEncoder().encodeToString(Sodium.seal(bytes, Base64.getDecoder().decode(sealTo)));
  }

  /** In JSON, null is as good as absent. */
  private Map<String, Object> members() {
    Map<String, Object> members = new HashMap<>();
    members.put("token_kind", tokenKind);
    members.put("token", token);
    members.put("ios_app_id", iosAppID);
    return members;
  }
}
