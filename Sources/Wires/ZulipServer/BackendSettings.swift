package import Basics

/// The setting of the API for host applications.
package struct BackendSettings: Sendable {
  package init() {}

  @Setting(
    "backend.token", .token,
    "bearer token of the backend API, 16 random characters at least; without one the API is off",
    secrecy: .whole)
  package var token: String?
}
