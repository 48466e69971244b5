#include "analysis/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace driftbound::analysis {

Progress::Progress(std::string what, bool enabled, std::string of, std::int64_t first)
    : what_(std::move(what)), of_(std::move(of)), first_(first), enabled_(enabled && isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  clear();
}

void Progress::update(std::int64_t done, std::int64_t all) {
  if (done <= first_ || !is_due()) return;
  const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
  const double left = elapsed * static_cast<double>(all - done) / static_cast<double>(done - first_);
  fmt::print(stderr, "\r\033[K{}: {} of {} {}, about {:.0f} s left", what_, done, all, of_, left);
  std::fflush(stderr);
}

void Progress::update(std::int64_t done) {
  if (!is_due()) return;
  fmt::print(stderr, "\r\033[K{}: {} {}", what_, done, of_);
  std::fflush(stderr);
}

bool Progress::is_due() {
  const Clock::time_point now = Clock::now();
  const bool is_early = now - start_ < std::chrono::seconds(1) || now - last_ < std::chrono::milliseconds(100);
  if (!enabled_ || is_early) return false;
  last_ = now;
  shown_ = true;
  return true;
}

void Progress::clear() {
  if (!shown_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace driftbound::analysis
