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
  if (!enabled_ || done <= first_) return;
  const Clock::time_point now = Clock::now();
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  if (elapsed < 1.0 || now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  shown_ = true;
  const double left = elapsed * static_cast<double>(all - done) / static_cast<double>(done - first_);
  fmt::print(stderr, "\r\033[K{}: {} of {} {}, about {:.0f} s left", what_, done, all, of_, left);
  std::fflush(stderr);
}

void Progress::clear() {
  if (!shown_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace driftbound::analysis
