#include "num/parallel.hpp"

#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

#include "driftbound/num/environment.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound {
namespace {

/// Threads that are joined also where starting the next one fails.
class Workers {
public:
  Workers() = default;
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers() { join(); }

  template <class F>
  void start(F&& f) {
    threads_.emplace_back(std::forward<F>(f));
  }
  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

private:
  std::vector<std::thread> threads_;
};

}  // namespace

void parallel_for(std::int64_t count, int threads, const std::function<void(std::int64_t, std::int64_t)>& f) {
  if (threads < 1) throw InvalidArgument("a computation needs at least one thread, not " + std::to_string(threads));
  if (count <= 0) return;
  const std::int64_t ranges = std::min<std::int64_t>(threads, count);
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(ranges));
  const auto work = [&](std::int64_t range) noexcept {
    try {
      require_sound_environment();
      f(count / ranges * range + std::min(range, count % ranges),
        count / ranges * (range + 1) + std::min(range + 1, count % ranges));
    } catch (...) {
      failures[static_cast<std::size_t>(range)] = std::current_exception();
    }
  };
  Workers workers;
  for (std::int64_t range = 1; range < ranges; ++range) workers.start([&work, range] { work(range); });
  work(0);
  workers.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace driftbound
