/// What has become of a try when its deadline comes.
///
/// What has been handed to a provider cannot be taken back, and sending it again would show it twice. So the
/// deadline ends the waiting, not the try: it goes on, and ends when the answer comes or
/// ``PushProviders/answerPatience`` has passed.
package enum Attempt<Ending: Sendable>: Sendable {
  case ended(Ending)
  /// It is at the provider. Whoever gets this waits for the answer, once: it says how the route fares, too.
  case underWay(_ answer: @Sendable () async -> Ending)
}
