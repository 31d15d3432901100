internal import Foundation

extension KeyFolder {
  /// Makes what is missing of the folder: its parts, what explains it and `storage.key`. What is there stays.
  public static func prepare(_ directory: String) throws {
    _ = try storageKey(in: directory)
    for folder in ["apns", "bouncer", "fcm"] {
      try FileManager.default.createDirectory(
        atPath: "\(directory)/\(folder)", withIntermediateDirectories: true,
        attributes: [.posixPermissions: 0o700])
    }
    let path = "\(directory)/README.md"
    guard !FileManager.default.fileExists(atPath: path) else { return }
    try Data("\(readme)\n".utf8).write(to: URL(fileURLWithPath: path), options: .withoutOverwriting)
  }

  /// `Keys/README.md` of this repository: a folder elsewhere gets the same.
  static let readme = """
    # The key folder

    Everything in it but this file is secret. Each private file belongs to the service's user alone
    (`chmod 600`). Back the folder up, above all `storage.key` and `bouncer`: without the first the database
    cannot be read, without the second phones have to get a new build of the app.

    | file | what it is |
    |---|---|
    | `bouncer/*.json` | key pairs that phones seal their registrations to; `push-bouncer keys` makes and retires them |
    | `apns/*.json` | one file per Apple key, and the key itself, `AuthKey_....p8`, beside it |
    | `fcm/*.json` | one Google service-account file per Firebase project, unchanged |
    | `storage.key` | seals secrets in the database; made on first start |

    A file that is added, changed or removed counts within seconds, without a restart. One that cannot be read
    leaves in force what it held before, and shows up in the log and in `/readyz`.

    ## Apple

    In the developer account, under Keys, make a key with the Apple Push Notifications service and download it.
    Put the `.p8` file into `apns` and beside it a file such as `apns/production.json`:

    ```json
    {
      "key_file": "AuthKey_ABC123DEFG.p8",
      "key_id": "ABC123DEFG",
      "team_id": "DEF123GHIJ",
      "topics": ["org.example.chat"],
      "environment": "production"
    }
    ```

    `topics` are the bundle ids of the apps. `environment` is `production` for apps from the App Store or
    TestFlight, `sandbox` for those run from Xcode. The file's name without `.json` is what `/readyz` and the
    metrics call it.

    ## Google

    In the Firebase console, under project settings, service accounts, generate a private key, and put the file
    into `fcm` as it is. With several projects, `default.json`, or the one that `fcm.default_project` names,
    serves whoever names none.

    `push-bouncer doctor` tries every key against its provider.
    """
}
