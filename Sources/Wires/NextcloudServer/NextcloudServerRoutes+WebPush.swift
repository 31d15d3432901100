import Delivery
import HTTP
import HTTPTypes
import Hummingbird
import Providers
import Registrations

extension NextcloudServerRoutes {
  /// Adds the endpoints `apps/notifications/api/v2/webpush`.
  func addWebPushRoutes(to app: Routes) {
    app.endpoint("v2/webpush/vapid", .get, use: authenticated(vapid))
    app.endpoint("v2/webpush", [.post: authenticated(subscribe), .delete: authenticated(unsubscribe)])
    app.endpoint("v2/webpush/activate", .post, use: authenticated(activate))
  }

  private var webPush: NextcloudWebPush { sender.webPush }

  /// `GET v2/webpush/vapid`: the public key that subscriptions are bound to.
  private func vapid(_ login: NextcloudLogin, _ call: OCSRequest) async throws -> OCSAnswer {
    guard let key = webPush.vapidKey else { throw OCSAnswer.webPushDisabled }
    return OCSAnswer(.ok, data: ["vapid": .string(key)])
  }

  /// `POST v2/webpush`: subscribes an app to the user's notifications by way of a push service. The app is
  /// pushed a token, which it must send back before it gets anything else.
  private func subscribe(_ login: NextcloudLogin, _ call: OCSRequest) async throws -> OCSAnswer {
    guard webPush.isEnabled else { throw OCSAnswer.webPushDisabled }
    let target = try SubscriptionParameters.target(
      endpoint: call["endpoint"], key: call["uaPublicKey"], secret: call["auth"])
    guard await webPush.deliverer.providers.accepts(target) else { throw OCSAnswer.bad("INVALID_ENDPOINT") }
    let appTypes = try SubscriptionParameters.appTypes(call.text("appTypes"))
    let holder = try holder(login)
    do {
      switch try await webPush.subscriptions.put(target, appTypes, of: holder) {
      case .renewed: return OCSAnswer(.ok)
      case .new(let subscription, let token):
        try await webPush.send(activationToken: token, to: subscription)
        return OCSAnswer(.created)
      }
    } catch is NextcloudSubscriptions.UnknownHolder {
      throw OCSAnswer.bad("INVALID_SESSION_TOKEN")
    }
  }

  /// `POST v2/webpush/activate`: the app returns the token.
  private func activate(_ login: NextcloudLogin, _ call: OCSRequest) async throws -> OCSAnswer {
    guard webPush.isEnabled else { throw OCSAnswer.webPushDisabled }
    switch try await webPush.subscriptions.activate(call["activationToken"], of: try holder(login)) {
    case .nothing: throw OCSAnswer(.notFound, data: ["message": "NO_PUSH_SUBSCRIPTION"])
    case .wasActive: return OCSAnswer(.ok)
    case .isActive: return OCSAnswer(.accepted)
    case .wrongToken: throw OCSAnswer.bad("INVALID_ACTIVATION_TOKEN")
    }
  }

  /// `DELETE v2/webpush`: ends the app's subscription, even where Web Push is switched off.
  private func unsubscribe(_ login: NextcloudLogin, _ call: OCSRequest) async throws -> OCSAnswer {
    let wasThere = try await webPush.subscriptions.remove(
      .init(user: login.user.id, appPassword: login.appPassword))
    return OCSAnswer(wasThere ? .accepted : .ok)
  }

  /// The holder of the caller's subscription. An API key stands for a browser.
  private func holder(_ login: NextcloudLogin) throws(OCSAnswer) -> NextcloudSubscription.Holder {
    guard login.appPassword != nil || webPush.allowsBrowsers else { throw .webPushDisabled }
    return NextcloudSubscription.Holder(user: login.user.id, appPassword: login.appPassword)
  }
}

extension OCSAnswer {
  /// The answer if Web Push is switched off, or not allowed for this caller.
  fileprivate static var webPushDisabled: OCSAnswer {
    OCSAnswer(.forbidden, data: ["message": "WEBPUSH_DISABLED"])
  }
}

/// The parameters of a subscription, in the order in which they are checked
/// (`Documentation/Protocols/Nextcloud.md` 5.6).
enum SubscriptionParameters {
  /// Reads a subscription from `endpoint`, `uaPublicKey` and `auth`. Whether its host may be called is
  /// checked elsewhere.
  static func target(endpoint: String, key: String, secret: String) throws(OCSAnswer) -> WebPushSubscription {
    do throws(WebPushSubscription.Malformed) {
      // The endpoint is checked last, whatever else is wrong.
      _ = try WebPushSubscription(endpoint: anyEndpoint, p256dh: key, auth: secret)
      return try WebPushSubscription(endpoint: endpoint, p256dh: key, auth: secret)
    } catch .publicKey {
      throw .bad("INVALID_P256DH")
    } catch .secret {
      throw .bad("INVALID_AUTH")
    } catch {
      throw .bad("INVALID_ENDPOINT")
    }
  }

  /// The app types of a subscription; nil for a text that cannot be stored.
  static func appTypes(_ text: String?) throws(OCSAnswer) -> AppTypes {
    guard let text else { throw .bad("INVALID_APP_TYPES") }
    guard text.utf8.count <= AppTypes.maximumBytes else { throw .bad("TOO_MANY_APP_TYPES") }
    return AppTypes(text)
  }

  private static let anyEndpoint = "https://push.example.org/"
}
