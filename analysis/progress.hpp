#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace driftbound::analysis {

/// One line on standard error that says how far long work has come. Shows itself only on a terminal,
/// after the first second, at most ten times a second; in a pipe it stays silent.
class Progress {
public:
  /// `of`: what is counted; `first`: how many of them were done before.
  Progress(std::string what, bool enabled, std::string of = "samples", std::int64_t first = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(std::int64_t done, std::int64_t all);
  /// Where nobody knows how much there is to do.
  void update(std::int64_t done);
  void clear();

private:
  using Clock = std::chrono::steady_clock;
  bool is_due();
  std::string what_, of_;
  std::int64_t first_;
  bool enabled_;
  bool shown_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_ = start_;
};

}  // namespace driftbound::analysis
