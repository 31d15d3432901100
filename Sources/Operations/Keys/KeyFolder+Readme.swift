internal import Foundation
internal import Providers
internal import Sealing

extension KeyFolder {
  /// The text of `README.md` in the folder of keys.
  package static let readme = """
    # Keys

    Everything that push-bouncer must keep secret lies in this folder. Files are read again within
    seconds after they change, and at once on SIGHUP; nothing has to be restarted. A file that cannot be
    read is reported in the log and by `/readyz`, and what it held before stays in force.

    Private files belong to the user that runs the service and are for nobody else: `chmod 600`.

    ## bouncer/

    The key pairs that phones seal their registrations to. `push-bouncer keys generate` makes one,
    `push-bouncer keys list` shows how each is used, `push-bouncer keys retire` and `keys remove` end it.
    Apps are shipped with the public key; a retired key still opens registrations.

    ## apns/

    One JSON file for each key of Apple's, beside the `.p8` file it names. Both come from the developer
    site: Certificates, Identifiers & Profiles, Keys.

        {
          "key_file": "AuthKey_ABCDE12345.p8",
          "key_id": "ABCDE12345",
          "team_id": "TEAM123456",
          "topics": ["org.example.chat"],
          "environment": "production"
        }

    `topics` are the bundle ids of the apps; `environment` is `production` for the App Store and
    TestFlight, `sandbox` for apps run from Xcode. The file's name is what `/readyz` and the metrics call it.

    ## fcm/

    One Google service-account file for each Firebase project, as Google gives it (Project settings,
    Service accounts, Generate new private key). If there are several, notifications that name no project go to
    the one in `default.json`, or to the one that `fcm.default_project` names. The `google-services.json` of an
    Android app is another file and does not belong here.

    ## storage.key

    Made at the first start. It seals the secrets in the database, which cannot be read without it: back
    it up, and keep the copy apart from the database's. A service whose `storage.key` is not the one that
    its database was sealed with does not start. `push-bouncer keys rotate-storage` replaces it by a new one.
    The line `hashing` does not change then: chat servers' keys, API keys and app passwords are compared with it.

    ## nextcloud-store.json

    Made by the service. It says which database was served last, and how many devices of Nextcloud's apps it had.
    When the database has lost devices, Nextcloud servers are not told for an hour that devices are unknown. It
    holds no secret.

    """

  /// Writes `README.md` into the folder, unless it exists.
  ///
  /// - Returns: whether it was written.
  @discardableResult
  package static func writeReadme(in directory: String) throws -> Bool {
    try makeFolder(directory)
    return try PrivateFile.write(Array(readme.utf8), to: "\(directory)/README.md", replacing: false)
  }

  /// Why the folder cannot be listed; nil if it can be or does not exist.
  static func closed(_ directory: String) -> Fault? {
    guard FileManager.default.fileExists(atPath: directory),
      let obstacle = FileObstacle.lookingInto(directory)
    else { return nil }
    return Fault(obstacle, of: directory, key: "keys.directory")
  }

  static func makeFolder(_ directory: String) throws {
    if let fault = closed(directory) { throw fault }
    if !FileManager.default.fileExists(atPath: directory), let obstacle = FileObstacle.filling(directory) {
      throw Fault(obstacle, of: directory, key: "keys.directory")
    }
    try FileManager.default.createDirectory(
      atPath: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
  }
}

extension KeyFolder {
  /// Something required that is missing from the folder.
  package struct Shortage: Sendable, Hashable {
    /// What is missing, and the consequence.
    package let problem: String
    package let advice: String
    /// Whether the service cannot work without it; false if it may be missing on purpose.
    package var isFault = true

    static let bouncerKey = Shortage(
      problem: "there is no bouncer key: phones cannot register",
      advice: """
        If there was one, put the folder back that keys.directory names; only for a new service, run push-bouncer keys \
        generate.
        """)
    static let credential = Shortage(
      problem: "there is no credential in Keys/apns and Keys/fcm: nothing can be delivered", advice: putOne)
    static let storeCredential = Shortage(
      problem: "there is no credential in Keys/apns and Keys/fcm: only Web Push can be delivered",
      advice: "For phones with Apple's or Google's services: \(putOne)", isFault: false)
    private static let putOne =
      "Put one there, as the folder's README.md shows; it is reloaded within seconds."
  }
}

extension KeyFolder.Snapshot {
  /// What is missing for a service that delivers notifications itself, or that uses another bouncer.
  ///
  /// - Parameter hasWebPush: whether Web Push is on.
  package func shortages(isDelivering: Bool, hasWebPush: Bool) -> [KeyFolder.Shortage] {
    let store: [KeyFolder.Shortage] =
      isDelivering && credentials.apns.isEmpty && credentials.fcm.isEmpty
      ? [hasWebPush ? .storeCredential : .credential] : []
    return (bouncer.isEmpty ? [.bouncerKey] : []) + store
  }
}
