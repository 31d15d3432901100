package import Foundation

extension PrometheusRegistry {
  /// Shows the build and the process, under the names that Prometheus' own clients use.
  package func watchProcess(start: Date = Date()) {
    gauges("push_bouncer_build_info") {
      [.init(1, labels: [("version", Version.number), ("commit", Version.commit ?? "")])]
    }
    gauges("process_cpu_seconds_total") {
      // POSIX counts in millionths of a second.
      [.init(Double(clock()) / 1_000_000)]
    }
    gauges("process_resident_memory_bytes") {
      // The second number: pages that are resident.
      let pages = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8).split(separator: " ")
      guard pages.count > 1, let resident = Double(pages[1]) else { return [] }
      return [.init(resident * Double(sysconf(Int32(_SC_PAGESIZE))))]
    }
    gauges("process_open_fds") {
      [.init(Double(try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count))]
    }
    gauges("process_max_fds") {
      var limit = rlimit()
      guard getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return [] }
      return [.init(Double(limit.rlim_cur))]
    }
    gauges("process_start_time_seconds") { [.init(start.timeIntervalSince1970.rounded())] }
  }
}
