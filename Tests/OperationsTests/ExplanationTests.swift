import Operations
import Providers
import Testing

@Suite struct ExplanationTests {
  @Test(arguments: Reason.allCases)
  func `Every reason has plain sentences for what it means and what to do`(reason: Reason) {
    let explanation = reason.explanation
    for text in [explanation.meaning, explanation.advice] {
      #expect(text.first?.isUppercase == true && text.hasSuffix("."), "\(text)")
      #expect(!text.contains("\n") && !text.contains("  ") && !text.contains(reason.description), "\(text)")
    }
    #expect((explanation == Reason.unknown.explanation) == (reason == .unknown), "\(reason)")
  }

  @Test(arguments: Reason.allCases)
  func `Advice that is to do nothing begins with it, and says at once what to do if that is not enough`(
    reason: Reason
  ) {
    let sentences = reason.explanation.advice
    #expect(!sentences.contains("does not pass"), "\(sentences)")
    for beginning in ["Nothing:", "Nothing at first:"] {
      #expect(
        !sentences.dropFirst().contains(beginning) || sentences.hasPrefix("If it is one phone"),
        "\(sentences)")
    }
    #expect(sentences.hasPrefix("Nothing at first:") == sentences.contains("If it lasts: "), "\(sentences)")
  }

  @Test func `A refused request is not told as a refused connection`() {
    #expect(Reason.refused.explanation.meaning.hasPrefix("Connections are open"))
    #expect(Reason.refused.explanation != Reason.connectionLost.explanation)
  }

  @Test func `No reason is explained by the words for another one that means something else`() {
    let alike: Set<Set<Reason>> = [
      [.unregistered, .expiredToken], [.badTopic, .topicDisallowed], [.forbidden, .invalidProviderToken],
      [.badCertificate, .badCertificateEnvironment],
      [.badEnvironmentKeyIDInToken, .badEnvironmentKeyInToken],
      [
        .badCollapseID, .badExpirationDate, .badMessageID, .badPath, .badPriority, .duplicateHeaders,
        .invalidPushType, .methodNotAllowed, .missingDeviceToken, .missingProviderToken, .payloadEmpty,
      ],
      [.internalServerError, .serviceUnavailable, .shutdown],
      [.fcmInternal, .fcmUnavailable, .fcmUnspecifiedError],
      [.invalidClient, .invalidGrant, .unauthorizedClient], [.invalidRequest, .invalidScope],
      [.subscriptionGone, .subscriptionUnknown], [.abandoned, .cancelled, .shuttingDown],
      [.connectionLost, .streamReset], [.serverError, .unreadableAnswer],
    ]
    let found = Dictionary(grouping: Reason.allCases, by: \.explanation).values.map(Set.init)
    #expect(Set(found.filter { $0.count > 1 }) == alike)
  }

  @Test func `A reason that was written down is explained by its name`() {
    #expect(Explanation.of("TopicDisallowed") == Reason.topicDisallowed.explanation)
    for name in ["", "NeverHeardOf", "topicdisallowed"] {
      #expect(Explanation.of(name).meaning.contains("does not know"), "\(name)")
    }
  }
}
