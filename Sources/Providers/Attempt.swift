/// What has become of a try when its deadline comes.
///
/// What has been handed to a provider cannot be taken back, and sending it again would show it twice. So the
/// deadline ends the waiting, not the try: it goes on, and ends when the answer comes or
/// ``PushProviders/answerPatience`` has passed.
package enum Attempt<Ending: Sendable>: Sendable {
  case ended(Ending)
  /// It is at the provider. The caller has to await the answer, once: it also counts for the route's health.
  case underWay(_ answer: @Sendable () async -> Ending)
}
