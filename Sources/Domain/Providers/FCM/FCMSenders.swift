import HTTPClient

struct FCMSenders: ProviderSenders {
  private var senders: [FCMCredential: Sender] = [:]
  private var projects: [String: RouteSender] = [:]
  private var defaultProject: String?

  var transports: [any Transport] { senders.values.map(\.transport) }
  var routeSenders: [RouteSender] { Array(projects.values) }
  var targets: [String] { Array(projects.keys) }

  func routeSender(to project: String?) -> RouteSender? {
    (project ?? defaultProject).flatMap { projects[$0] }
  }

  mutating func use(_ credentials: Credentials, _ factory: SenderFactory) {
    let before = self
    self = FCMSenders()
    defaultProject = credentials.defaultProject ?? credentials.fcm.first?.projectID
    for credential in credentials.fcm where projects[credential.projectID] == nil {
      let sender = before.senders[credential] ?? factory.fcm(credential)
      senders[credential] = sender
      projects[credential.projectID] = Self.routeSender(
        to: credential.projectID, of: credential.name, over: sender,
        formerly: before.projects[credential.projectID], factory)
    }
  }
}

extension SenderFactory {
  fileprivate func fcm(_ credential: FCMCredential) -> Sender {
    let origin = endpoint(of: .fcm) ?? Origin(host: "fcm.googleapis.com")
    return Sender(
      provider: .fcm, origin: origin,
      path: "\(origin.basePath)/v1/projects/\(credential.projectID)/messages:send",
      tokenHost: Origin(credential.tokenURI)?.authority ?? "",
      transport: network.transport(to: ProviderPeer(provider: .fcm, origin: origin)),
      authority: .tokens(
        tokens(.fcm, GoogleOAuth.limits) { [network, now] in
          await network.accessToken(for: credential, now: now)
        }),
      now: now)
  }
}
