#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace driftbound::bench {

inline double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Time of this process on its processor: what other work on the machine takes does not count. For one thread.
inline double cpu_seconds_of(const std::function<void()>& work) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  work();
  return now() - start;
}

struct Timing {
  double ours, theirs;
};

/// Medians of alternating runs, so that a drift of the machine's speed hits both.
inline Timing medians(int runs, const std::function<void()>& ours, const std::function<void()>& theirs,
                      double (*time)(const std::function<void()>&) = seconds_of) {
  std::vector<double> a, b;
  for (int i = 0; i < runs; ++i) {
    a.push_back(time(ours));
    b.push_back(time(theirs));
  }
  std::nth_element(a.begin(), a.begin() + runs / 2, a.end());
  std::nth_element(b.begin(), b.begin() + runs / 2, b.end());
  return {a[static_cast<std::size_t>(runs / 2)], b[static_cast<std::size_t>(runs / 2)]};
}

inline std::string machine() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(": ") + 2);
  return "unknown";
}

/// What else a line says of its case, as a field of its own: case ids are fixed.
struct Fact {
  std::string name;
  double value;  ///< null in JSON where it is no number
};

inline void print(const std::string& bench, const std::string& name, const std::string& against, Timing timing,
                  int threads, const std::vector<Fact>& facts = {}) {
  std::string more;
  for (const auto& [fact, value] : facts) {
    const bool is_count = value == std::floor(value);
    const std::string text = is_count ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
    more += fmt::format(",\"{}\":{}", fact, std::isfinite(value) ? text : "null");
  }
  fmt::print(
      "{{\"bench\":\"{}\",\"case\":\"{}\",\"ratio\":{:.4g},\"against\":\"{}\",\"median_s\":{:.4g},\"threads\":{"
      "}{},\"machine\":\"{}\"}}\n",
      bench, name, timing.ours / timing.theirs, against, timing.ours, threads, more, machine());
  std::fflush(stdout);
}

}  // namespace driftbound::bench
