import AsyncHTTPClient
import HTTPClient
import NIOCore

extension Reason {
  /// Why a call to another host by ``OutgoingClient`` has no answer that can be read.
  package init(ofCall error: any Error) {
    if let failure = ConnectionFailure(error) {
      self = failure.reason
      return
    }
    switch error {
    case OutgoingClient.HostError.forbiddenAddress, OutgoingClient.HostError.noHost: self = .forbiddenAddress
    case is LookupsExhausted: self = .overloaded
    case is NIOTooManyBytesError: self = .unreadableAnswer
    case let error as HTTPClientError where error == .deadlineExceeded || error == .readTimeout:
      self = .timeout
    default: self = .connectionLost
    }
  }
}
