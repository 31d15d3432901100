package pushbouncer;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.security.*;
import java.util.*;

/** What the app of one account does at a Zulip server (12 or later). Its push key lasts until the user signs out. */
public record ZulipDevice(Store store) {
  /** Bytes of a push key: 0x31 for libsodium's crypto_secretbox, then the key. */
  private static final int PUSH_KEY = 33, SECRET_BOX = 0x31;

  /**
   * The fields of POST /api/v1/mobile_push/register but for device_id: at each start, and whenever the token changes.
   *
   * @param phone its token counts, and the key to seal it to
   */
  public synchronized Map<String, String> register(Registration phone) throws IOException, GeneralSecurityException {
    if (store.get("push_key") == null) {
      SecureRandom random = new SecureRandom();
      byte[] key = new byte[PUSH_KEY];
      random.nextBytes(key);
      key[0] = SECRET_BOX;
      String id = Integer.toUnsignedString(random.nextInt());
      store.put(Map.of("push_key", Base64.getEncoder().encodeToString(key), "push_key_id", id));
    }
    return Map.of("push_key_id", store.get("push_key_id"), "push_key", store.get("push_key"),
        "token_kind", phone.tokenKind(), "token_id", tokenID(phone.token()),
        "bouncer_public_key", phone.sealTo(),
        "encrypted_push_registration", phone.sealed(null));
  }

  /**
   * The plaintext of a notification, JSON. Show nothing of it unless its realm_url and user_id are the account's.
   *
   * @param encryptedData `encrypted_data` of the push, whose `push_key_id` is the one that was registered
   */
  public synchronized String open(String encryptedData) throws GeneralSecurityException {
    if (store.get("push_key") == null) throw new GeneralSecurityException("nothing is registered");
    try {
      byte[] key = Base64.getDecoder().decode(store.get("push_key"));
      byte[] sealed = Base64.getDecoder().decode(encryptedData);
      return new String(Sodium.open(Arrays.copyOfRange(key, 1, PUSH_KEY), sealed), UTF_8);
    } catch (IllegalArgumentException error) {
      throw new GeneralSecurityException("no base64", error);
    }
  }

  /** The first 8 bytes of the SHA-256 of the token as it is spelled. */
  static String tokenID(String token) throws GeneralSecurityException {
    byte[] hash = MessageDigest.getInstance("SHA-256").digest(token.getBytes(UTF_8));
    return Base64.getEncoder().encodeToString(Arrays.copyOf(hash, 8));
  }
}
