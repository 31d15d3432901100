package pushbouncer;

import com.sun.jna.*;
import java.security.GeneralSecurityException;
import java.util.Arrays;

/**
 * Two functions of libsodium, which only Zulip's notifications and sealed registrations need. On Android libsodium is
 * in com.goterl:lazysodium-android.
 */
final class Sodium {
  private interface Functions extends Library {
    int sodium_init();
    int crypto_secretbox_open_easy(byte[] plaintext, byte[] box, long length, byte[] nonce, byte[] key);
    int crypto_box_seal(byte[] box, byte[] plaintext, long length, byte[] publicKey);
  }

  private static final int NONCE = 24, TAG = 16, KEY = 32;
  private static final Functions SODIUM = Native.load("sodium", Functions.class);

  static {
    if (SODIUM.sodium_init() < 0) throw new IllegalStateException("libsodium gets no random numbers");
  }

  /**
   * Opens what crypto_secretbox_easy has made; an exception if it was sealed with another key, or altered.
   *
   * @param key 32 bytes
   * @param sealed nonce (24 bytes), tag (16), ciphertext
   */
  static byte[] open(byte[] key, byte[] sealed) throws GeneralSecurityException {
    if (sealed.length < NONCE + TAG) throw new GeneralSecurityException("too short to be encrypted");
    byte[] box = Arrays.copyOfRange(sealed, NONCE, sealed.length), plaintext = new byte[box.length - TAG];
    if (key.length != KEY || SODIUM.crypto_secretbox_open_easy(plaintext, box, box.length, sealed, key) != 0) {
      throw new GeneralSecurityException("encrypted with another key, or altered");
    }
    return plaintext;
  }

  /**
   * Encrypts so that only the holder of the private key can decrypt.
   *
   * @param publicKey 32 bytes
   * @return a public key made for this box alone (32 bytes), tag (16), ciphertext
   */
  static byte[] seal(byte[] plaintext, byte[] publicKey) {
    byte[] box = new byte[KEY + TAG + plaintext.length];
    if (publicKey.length != KEY || SODIUM.crypto_box_seal(box, plaintext, plaintext.length, publicKey) != 0) {
      throw new IllegalArgumentException("The bouncer's public key must be base64 of 32 bytes");
    }
    return box;
  }
}
