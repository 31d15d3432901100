internal import Providers
internal import Sealing

extension KeyFolder {
  /// What is not there, and is needed.
  package struct Shortage: Sendable, Hashable {
    /// What is missing, and what comes of it.
    package let problem: String
    /// What to do.
    package let advice: String
    /// Whether it keeps the service from its work; else it may be meant so.
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
      "Put one there, as the folder's README.md shows; it is taken up within seconds."
  }
}

extension KeyFolder.Snapshot {
  /// What is missing for a service that delivers notifications itself, or has another one do it.
  ///
  /// - Parameter hasWebPush: whether it may deliver to push services.
  package func shortages(isDelivering: Bool, hasWebPush: Bool) -> [KeyFolder.Shortage] {
    let store: [KeyFolder.Shortage] =
      isDelivering && credentials.apns.isEmpty && credentials.fcm.isEmpty
      ? [hasWebPush ? .storeCredential : .credential] : []
    return (bouncer.isEmpty ? [.bouncerKey] : []) + store
  }
}
