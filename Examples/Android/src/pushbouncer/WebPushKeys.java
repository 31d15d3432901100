package pushbouncer;

import static java.nio.charset.StandardCharsets.US_ASCII;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.security.*;
import java.security.spec.*;
import java.util.*;
import javax.crypto.*;
import javax.crypto.spec.*;

/**
 * The app's keys for Web Push, which open what senders have encrypted for them.
 *
 * @param privateKey the private key on P-256, PKCS #8
 * @param publicKey its public key, 65 bytes: the sender gets it as `p256dh`
 * @param auth 16 bytes, which the sender gets, too
 */
record WebPushKeys(byte[] privateKey, byte[] publicKey, byte[] auth) {
  /**
   * A message as its sender encrypted it.
   *
   * @param encoding "aes128gcm" (RFC 8291), or "aesgcm" of its draft, which some servers still send
   * @param senderKey the sender's public key, 65 bytes; of aesgcm only
   * @param salt 16 bytes; of aesgcm only
   */
  record Message(String encoding, byte[] body, byte[] senderKey, byte[] salt) {}

  private static final int SALT = 16, POINT = 65, TAG = 16, LONGEST = 4096;
  /** Bytes in front of aes128gcm: salt, size of a record (4), length of the sender's key (1), that key. */
  private static final int HEADER = SALT + 4 + 1 + POINT;
  /** What stands in front of a point on P-256 in the form in which Java reads public keys. */
  private static final byte[] POINT_FORM = Base64.getDecoder().decode("MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgA=");

  static WebPushKeys generate() {
    try {
      KeyPairGenerator generator = KeyPairGenerator.getInstance("EC");
      generator.initialize(new ECGenParameterSpec("secp256r1"));
      KeyPair pair = generator.generateKeyPair();
      byte[] encoded = pair.getPublic().getEncoded(), auth = new byte[16];
      new SecureRandom().nextBytes(auth);
      byte[] publicKey = Arrays.copyOfRange(encoded, POINT_FORM.length, encoded.length);
      return new WebPushKeys(pair.getPrivate().getEncoded(), publicKey, auth);
    } catch (GeneralSecurityException error) {
      throw new IllegalStateException("every Java and every Android has P-256", error);
    }
  }

  /** The plaintext; an exception if it was encrypted for other keys, or altered. Nothing of it may be shown then. */
  byte[] open(Message message) throws GeneralSecurityException {
    byte[] body = message.body();
    if (body == null || body.length > LONGEST) throw new GeneralSecurityException("no body of 1 to 4096 bytes");
    if ("aes128gcm".equals(message.encoding())) return open(body);
    if (!"aesgcm".equals(message.encoding())) throw new GeneralSecurityException("an unknown encoding");
    byte[] senderKey = message.senderKey(), salt = message.salt(), length = {0, POINT};
    if (senderKey == null || salt == null || salt.length != SALT || body.length < 2 + TAG) {
      throw new GeneralSecurityException("no aesgcm");
    }
    byte[] secret = derive(auth, agree(senderKey), 32, "Content-Encoding: auth\0");
    byte[] context = join("P-256\0".getBytes(US_ASCII), length, publicKey, length, senderKey);
    byte[] padded = decrypt(salt, secret, "aesgcm", context, body);
    // Two bytes say how much padding follows them.
    int start = 2 + (ByteBuffer.wrap(padded).getShort() & 0xffff);
    if (start > padded.length) throw new GeneralSecurityException("malformed padding");
    return Arrays.copyOfRange(padded, start, padded.length);
  }

  private byte[] open(byte[] body) throws GeneralSecurityException {
    if (body.length < HEADER + 1 + TAG || body[SALT + 4] != POINT) throw new GeneralSecurityException("no aes128gcm");
    // A message is one record (RFC 8291 section 4).
    if (body.length - HEADER > (ByteBuffer.wrap(body, SALT, 4).getInt() & 0xffffffffL)) {
      throw new GeneralSecurityException("more than one record");
    }
    byte[] salt = Arrays.copyOf(body, SALT), senderKey = Arrays.copyOfRange(body, HEADER - POINT, HEADER);
    byte[] secret = derive(auth, agree(senderKey), 32, "WebPush: info\0", publicKey, senderKey);
    byte[] padded = decrypt(salt, secret, "aes128gcm", new byte[0], Arrays.copyOfRange(body, HEADER, body.length));
    // The text ends with 2, which zeros may follow.
    int end = padded.length - 1;
    while (end > 0 && padded[end] == 0) end--;
    if (padded[end] != 2) throw new GeneralSecurityException("malformed padding");
    return Arrays.copyOf(padded, end);
  }

  /** ECDH with a sender's public key. Java and Android refuse what is no point on the curve. */
  private byte[] agree(byte[] senderKey) throws GeneralSecurityException {
    KeyFactory factory = KeyFactory.getInstance("EC");
    KeyAgreement agreement = KeyAgreement.getInstance("ECDH");
    agreement.init(factory.generatePrivate(new PKCS8EncodedKeySpec(privateKey)));
    agreement.doPhase(factory.generatePublic(new X509EncodedKeySpec(join(POINT_FORM, senderKey))), true);
    return agreement.generateSecret();
  }

  private static byte[] decrypt(byte[] salt, byte[] secret, String encoding, byte[] context, byte[] body)
      throws GeneralSecurityException {
    byte[] key = derive(salt, secret, 16, "Content-Encoding: " + encoding + "\0", context);
    byte[] nonce = derive(salt, secret, 12, "Content-Encoding: nonce\0", context);
    Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
    cipher.init(Cipher.DECRYPT_MODE, new SecretKeySpec(key, "AES"), new GCMParameterSpec(8 * TAG, nonce));
    return cipher.doFinal(body);
  }

  /** HKDF with SHA-256 (RFC 5869), for at most 32 bytes. */
  private static byte[] derive(byte[] salt, byte[] secret, int length, String info, byte[]... more)
      throws GeneralSecurityException {
    Mac mac = Mac.getInstance("HmacSHA256");
    mac.init(new SecretKeySpec(salt, "HmacSHA256"));
    mac.init(new SecretKeySpec(mac.doFinal(secret), "HmacSHA256"));
    return Arrays.copyOf(mac.doFinal(join(info.getBytes(US_ASCII), join(more), new byte[] {1})), length);
  }

  private static byte[] join(byte[]... parts) {
    ByteArrayOutputStream joined = new ByteArrayOutputStream();
    for (byte[] part : parts) joined.write(part, 0, part.length);
    return joined.toByteArray();
  }
}
