internal import Providers
internal import Sealing

extension KeyFolder {
  /// What is not there, and is needed.
  package struct Shortage: Sendable, Hashable {
    /// What is missing, and what comes of it.
    package let problem: String
    /// What to do.
    package let advice: String

    static let bouncerKey = Shortage(
      problem: "there is no bouncer key: phones cannot register",
      advice: """
        If there was one, put the folder back that keys.directory names; only for a new service, run push-bouncer keys \
        generate.
        """)
    static let credential = Shortage(
      problem: "there is no credential in Keys/apns and Keys/fcm: nothing can be delivered",
      advice: "Put one there, as the folder's README.md shows; it is taken up within seconds.")
  }
}

extension KeyFolder.Snapshot {
  /// What is missing for a service that delivers notifications itself, or has another one do it.
  package func shortages(isDelivering: Bool) -> [KeyFolder.Shortage] {
    (bouncer.isEmpty ? [.bouncerKey] : [])
      + (isDelivering && credentials.apns.isEmpty && credentials.fcm.isEmpty ? [.credential] : [])
  }
}
