#include "driftbound/implicit/sign_field.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/num/environment.hpp"
#include "driftbound/num/format.hpp"
#include "implicit/ladder.hpp"
#include "implicit/point_reader.hpp"
#include "implicit/scalar_graph.hpp"
#include "num/parallel.hpp"

namespace driftbound {

namespace {

using implicit::PointView;

/// Points that go through the ladder together.
constexpr std::int64_t chunk = 4096;
constexpr int least_bits = 106;
/// A call costs as much as a few points.
constexpr std::int64_t points_of_a_call = 8;

double largest_coordinate(const Graph& graph) {
  return format(float_format(graph.value(graph.inputs.front()).type).value()).largest;
}

std::size_t coordinates_of(const Graph& graph) {
  const std::int64_t elements = element_count(batch_layout(graph).sample_shapes.front());
  if (elements == 0) throw InvalidArgument("signs: the network's input has no elements");
  return static_cast<std::size_t>(elements);
}

SignOptions checked(SignOptions options, std::size_t dimension) {
  if (options.max_bits < least_bits)
    throw InvalidArgument("signs: max_bits = " + std::to_string(options.max_bits) + "; give at least 106");
  if (options.max_bits > std::numeric_limits<std::int16_t>::max())
    throw InvalidArgument("signs: max_bits = " + std::to_string(options.max_bits) + "; give at most 32767");
  if (options.threads < 1)
    throw InvalidArgument("signs: threads = " + std::to_string(options.threads) + "; give at least 1");
  if (!std::isfinite(options.iso)) throw InvalidArgument("signs: the iso value is not finite");
  if (!options.domain) options.domain = Box{std::vector<double>(dimension, -1.0), std::vector<double>(dimension, 1.0)};
  const Box& box = *options.domain;
  if (box.lower.size() != dimension || box.upper.size() != dimension)
    throw InvalidArgument("signs: a point has " + std::to_string(dimension) + " coordinates, the domain " +
                          std::to_string(box.lower.size()) + " lower and " + std::to_string(box.upper.size()) +
                          " upper bounds");
  for (std::size_t c = 0; c < dimension; ++c)
    if (!(std::isfinite(box.lower[c]) && std::isfinite(box.upper[c]) && box.lower[c] <= box.upper[c]))
      throw InvalidArgument("signs: coordinate " + std::to_string(c) +
                            " of the domain needs finite bounds, the lower one first");
  return options;
}

std::string text_of(std::span<const double> point) {
  std::string text;
  for (const double x : point) text += fmt::format("{}{}", text.empty() ? "(" : ", ", x);
  return text + ")";
}

}  // namespace

class SignField::State {
public:
  State(Graph graph, const Target* target, const SignOptions& options)
      : graph_((require_sound_environment(), std::move(graph))),
        target_(implicit::checked_target(graph_, target)),
        reader_(coordinates_of(graph_), largest_coordinate(graph_)),
        options_(checked(options, reader_.dimension())),
        scalar_(implicit::scalar_graph(graph_, target_, options_.iso)),
        unshifted_(options_.iso == 0.0 ? std::nullopt
                                       : std::optional<Graph>(implicit::scalar_graph(graph_, target_, 0.0))),
        ladder_(scalar_, unshifted_ ? *unshifted_ : scalar_, options_) {}

  const Graph& graph() const { return graph_; }
  const Target& target() const { return target_; }
  const SignOptions& options() const { return options_; }
  std::size_t dimension() const { return reader_.dimension(); }

  template <class Real>
  SignStatistics signs(const PointView<Real>& points, std::int64_t rows, std::span<PointSign> out) const {
    require_sound_environment();
    if (rows < 0 || out.size() != static_cast<std::size_t>(rows))
      throw InvalidArgument("signs: " + std::to_string(rows) + " points, and room for " + std::to_string(out.size()) +
                            " signs");
    const std::int64_t asked = add_asked(std::max(rows, points_of_a_call));
    const std::int64_t chunks = (rows + chunk - 1) / chunk;
    SignStatistics counts;
    if (options_.threads == 1 || chunks <= 1) {
      counts = signs_of_chunks(points, rows, 0, chunks, asked, out);
    } else {
      std::mutex mutex;
      parallel_for(chunks, options_.threads, [&](std::int64_t first, std::int64_t last) {
        const SignStatistics own = signs_of_chunks(points, rows, first, last, asked, out);
        const std::lock_guard lock(mutex);
        counts += own;
      });
    }
    const std::lock_guard lock(mutex_);
    total_ += counts;
    return counts;
  }

  PointSign at(std::span<const double> point) const {
    if (point.size() != dimension())
      throw InvalidArgument("signs: a point has " + std::to_string(dimension()) + " coordinates, this one has " +
                            std::to_string(point.size()));
    require_sound_environment();
    reader_.require(point);
    if (const std::optional<PointSign> sign = ladder_.decide_at_once(point)) {
      (sign->sign == Sign::positive ? positive_at_once_ : negative_at_once_).fetch_add(1, std::memory_order_relaxed);
      return *sign;
    }
    PointSign sign;
    signs(PointView<double>{point.data(), 0, 1}, 1, {&sign, 1});
    return sign;
  }

  void prepare() const {
    require_sound_environment();
    ladder_.prepare();
  }

  SignStatistics statistics() const {
    SignStatistics at_once;
    at_once.positive = positive_at_once_.load(std::memory_order_relaxed);
    at_once.negative = negative_at_once_.load(std::memory_order_relaxed);
    at_once.points = at_once.positive + at_once.negative;
    at_once.stages[static_cast<std::size_t>(SignStage::float64_domain)].decided = at_once.points;
    const std::lock_guard lock(mutex_);
    at_once += total_;
    return at_once;
  }

private:
  template <class Real>
  SignStatistics signs_of_chunks(const PointView<Real>& points, std::int64_t rows, std::int64_t first,
                                 std::int64_t last, std::int64_t asked, std::span<PointSign> out) const {
    SignStatistics counts;
    std::unique_ptr<std::vector<double>> coordinates = scratch();
    for (std::int64_t part = first; part < last; ++part) {
      const std::int64_t begin = part * chunk;
      const auto count = static_cast<std::size_t>(std::min(chunk, rows - begin));
      coordinates->resize(count * dimension());
      reader_.read(points, begin, count, coordinates->data());
      decide(*coordinates, asked, out.subspan(static_cast<std::size_t>(begin), count), begin, counts);
    }
    const std::lock_guard lock(mutex_);
    spare_.push_back(std::move(coordinates));
    return counts;
  }

  /// Points asked for so far, these included, calls of few points counting more.
  std::int64_t add_asked(std::int64_t rows) const {
    const std::lock_guard lock(mutex_);
    return asked_ += rows;
  }

  std::unique_ptr<std::vector<double>> scratch() const {
    const std::lock_guard lock(mutex_);
    if (spare_.empty()) return std::make_unique<std::vector<double>>();
    std::unique_ptr<std::vector<double>> taken = std::move(spare_.back());
    spare_.pop_back();
    return taken;
  }

  void decide(std::span<const double> points, std::int64_t asked, std::span<PointSign> out, std::int64_t first,
              SignStatistics& statistics) const {
    ladder_.decide(points, asked, out, statistics);
    for (std::size_t row = 0; row < out.size(); ++row)
      if (out[row].sign == Sign::undecided)
        treat(out[row], points.subspan(row * dimension(), dimension()), first + static_cast<std::int64_t>(row));
    count(out, statistics);
  }

  /// Without branches: signs come in no order.
  static void count(std::span<const PointSign> points, SignStatistics& statistics) {
    std::int64_t negative = 0, zero = 0, positive = 0, treated = 0;
    for (const PointSign& point : points) {
      negative += static_cast<std::int64_t>(point.sign == Sign::negative);
      zero += static_cast<std::int64_t>(point.sign == Sign::zero);
      positive += static_cast<std::int64_t>(point.sign == Sign::positive);
      treated += static_cast<std::int64_t>(point.stage == SignStage::treated);
    }
    const auto all = static_cast<std::int64_t>(points.size());
    statistics.points += all;
    statistics.negative += negative;
    statistics.zero += zero;
    statistics.positive += positive;
    statistics.undecided += all - negative - zero - positive;
    statistics.stages[static_cast<std::size_t>(SignStage::treated)].decided += treated;
  }

  void treat(PointSign& point, std::span<const double> coordinates, std::int64_t row) const {
    switch (options_.at_limit) {
      case AtLimit::report:
        return;
      case AtLimit::fail:
        throw UndecidedSign("signs: point " + std::to_string(row) + ", " + text_of(coordinates) +
                            ", is not decided with " + std::to_string(options_.max_bits) +
                            " bits; raise max_bits, or choose another AtLimit");
      case AtLimit::treat_as_negative:
        point.sign = Sign::negative;
        break;
      case AtLimit::treat_as_positive:
        point.sign = Sign::positive;
        break;
    }
    point.stage = SignStage::treated;
  }

  Graph graph_;
  Target target_;
  implicit::PointReader reader_;
  SignOptions options_;
  Graph scalar_;
  std::optional<Graph> unshifted_;  ///< where there is an iso value: without it
  implicit::Ladder ladder_;
  mutable std::mutex mutex_;
  mutable SignStatistics total_;
  mutable std::int64_t asked_ = 0;
  mutable std::atomic<std::int64_t> positive_at_once_ = 0, negative_at_once_ = 0;  ///< by at()
  mutable std::vector<std::unique_ptr<std::vector<double>>> spare_;  ///< memory of coordinates, kept from call to call
};

std::string_view name_of(Sign sign) {
  switch (sign) {
    case Sign::negative:
      return "negative";
    case Sign::zero:
      return "zero";
    case Sign::positive:
      return "positive";
    case Sign::undecided:
      return "undecided";
  }
  return "";
}

double signed_value(const PointSign& point) {
  const double size = std::fmax(std::fabs(point.value), std::numeric_limits<double>::min());
  return point.sign == Sign::undecided ? std::numeric_limits<double>::quiet_NaN()
                                       : static_cast<double>(static_cast<int>(point.sign)) * size;
}

std::string_view name_of(SignStage stage) {
  static constexpr std::array<std::string_view, sign_stages> names = {
      "float32-domain", "float64-domain", "float64-point", "double-double",
      "multiprecision", "given",          "treated",       "none"};
  return names.at(static_cast<std::size_t>(stage));
}

SignStatistics& SignStatistics::operator+=(const SignStatistics& other) {
  points += other.points;
  negative += other.negative;
  zero += other.zero;
  positive += other.positive;
  undecided += other.undecided;
  for (std::size_t stage = 0; stage < sign_stages; ++stage) {
    stages[stage].decided += other.stages[stage].decided;
    stages[stage].seconds += other.stages[stage].seconds;
  }
  return *this;
}

SignField::SignField(Graph graph, const SignOptions& options)
    : state_(std::make_shared<const State>(std::move(graph), nullptr, options)) {}

SignField::SignField(Graph graph, const Target& target, const SignOptions& options)
    : state_(std::make_shared<const State>(std::move(graph), &target, options)) {}

std::size_t SignField::dimension() const {
  return state_->dimension();
}

const Graph& SignField::graph() const {
  return state_->graph();
}

const Target& SignField::target() const {
  return state_->target();
}

const SignOptions& SignField::options() const {
  return state_->options();
}

const SignField& SignField::prepare() const {
  state_->prepare();
  return *this;
}

PointSign SignField::at(std::span<const double> point) const {
  return state_->at(point);
}

SignStatistics SignField::signs(const double* points, std::int64_t rows, std::ptrdiff_t row_stride,
                                std::ptrdiff_t column_stride, std::span<PointSign> out) const {
  return state_->signs(PointView<double>{points, row_stride, column_stride}, rows, out);
}

SignStatistics SignField::signs(const float* points, std::int64_t rows, std::ptrdiff_t row_stride,
                                std::ptrdiff_t column_stride, std::span<PointSign> out) const {
  return state_->signs(PointView<float>{points, row_stride, column_stride}, rows, out);
}

SignStatistics SignField::statistics() const {
  return state_->statistics();
}

}  // namespace driftbound
