#include "analysis/certification.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>

#include "analysis/point_source.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::analysis {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Points certified together: a fraction of a second's work, so that the program can be stopped.
class BlockSize {
public:
  explicit BlockSize(int threads) : size_(PointSource::granule * threads) {}

  std::int64_t next(std::int64_t left) const { return std::min(size_, left); }
  void adapt(double seconds) {
    constexpr std::int64_t most = PointSource::granule * 64;
    if (seconds < 0.25) size_ = std::min(2 * size_, std::max(size_, most));
    if (seconds > 1.0) size_ = std::max(size_ / 2 / PointSource::granule, std::int64_t{1}) * PointSource::granule;
  }

private:
  std::int64_t size_;
};

class Certifier {
public:
  Certifier(const SignField& field, const PointSource& points, const CertifyOptions& options)
      : field_(field), points_(points), options_(options) {
    if (options.signs != nullptr) done_ = options.signs->start();
  }

  Certification run() {
    BlockSize size(field_.options().threads);
    while (left() > 0 && may_go_on()) {
      const Clock::time_point start = Clock::now();
      certify_block(size.next(left()));
      size.adapt(seconds_since(start));
      checkpoint();
    }
    settle();
    return {done_, points_.size()};
  }

private:
  std::int64_t left() const { return points_.size() - done_.counts.points; }
  bool may_go_on() const { return !options_.progress || options_.progress(done_.counts.points, points_.size()); }

  void certify_block(std::int64_t count) {
    const std::size_t dimension = field_.dimension();
    coordinates_.resize(static_cast<std::size_t>(count) * dimension);
    signs_.resize(static_cast<std::size_t>(count));
    points_.read(done_.counts.points, count, coordinates_);
    const Clock::time_point start = Clock::now();
    const SignStatistics counts = decide(count);
    done_.seconds += seconds_since(start);
    if (options_.fail_at_limit && counts.undecided > 0) refuse_undecided();
    if (options_.signs != nullptr) write();
    if (options_.keep) options_.keep(signs_);
    done_.counts += counts;
  }

  SignStatistics decide(std::int64_t count) {
    if (options_.given != nullptr) return options_.given->decide(done_.counts.points, coordinates_, signs_);
    const auto stride = static_cast<std::ptrdiff_t>(field_.dimension());
    if (options_.octree != nullptr)
      return options_.octree->signs(field_, coordinates_.data(), count, stride, 1, signs_);
    return field_.signs(coordinates_.data(), count, stride, 1, signs_);
  }

  [[noreturn]] void refuse_undecided() const {
    const auto open =
        std::find_if(signs_.begin(), signs_.end(), [](const PointSign& s) { return s.sign == Sign::undecided; });
    const auto row = static_cast<std::size_t>(open - signs_.begin());
    throw UndecidedSign(fmt::format(
        "point {}, ({}), is not decided with {} bits, |f| <= {:.3g}; raise --max-precision, or choose another --policy",
        done_.counts.points + static_cast<std::int64_t>(row),
        describe(std::span(coordinates_).subspan(row * field_.dimension(), field_.dimension())), open->bits,
        open->bound));
  }

  void write() {
    bytes_.resize(signs_.size());
    std::transform(signs_.begin(), signs_.end(), bytes_.begin(),
                   [](const PointSign& s) { return static_cast<std::int8_t>(s.sign); });
    options_.signs->append(bytes_);
  }

  void checkpoint() {
    constexpr double every = 10.0;
    if (options_.signs == nullptr || seconds_since(saved_) < every || left() == 0) return;
    options_.signs->checkpoint(done_);
    saved_ = Clock::now();
  }

  void settle() {
    if (options_.signs == nullptr) return;
    if (left() == 0) {
      options_.signs->finish();
    } else {
      options_.signs->checkpoint(done_);
    }
  }

  const SignField& field_;
  const PointSource& points_;
  const CertifyOptions& options_;
  SignProgress done_;
  std::vector<double> coordinates_;
  std::vector<PointSign> signs_;
  std::vector<std::int8_t> bytes_;
  Clock::time_point saved_ = Clock::now();
};

}  // namespace

Certification certify(const SignField& field, const PointSource& points, const CertifyOptions& options) {
  try {
    return Certifier(field, points, options).run();
  } catch (const FileError&) {
    throw;
  } catch (const Error&) {
    if (options.signs != nullptr) options.signs->discard();
    throw;
  }
}

std::int64_t open_points(const SignStatistics& counts) {
  return counts.undecided + counts.stages[static_cast<std::size_t>(SignStage::treated)].decided;
}

}  // namespace driftbound::analysis
