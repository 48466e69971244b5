#include "evaluate/row_search.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <utility>
#include <variant>

#include "driftbound/model/layout.hpp"
#include "driftbound/num/elementary.hpp"
#include "evaluate/kernel_family.hpp"
#include "evaluate/recorded_numbers.hpp"
#include "linalg/scheduled_sums.hpp"
#include "model/shapes.hpp"

namespace driftbound {
namespace {

using linalg::sum_lanes;
using RowLanes = std::array<float, sum_lanes>;
using Sums = RowSteps::Sums;
using Result = RowSteps::Result;

/// What an op does with its rows.
struct RowOp {
  std::vector<std::int64_t> axes;  ///< of a row, in `shape`
  Shape shape;
  std::vector<Result> of_exponentials;  ///< what may be made of the sums of exponentials; empty: a norm
  bool is_centred = true;
  float epsilon = 0.0f;

  bool is_norm() const { return of_exponentials.empty(); }
  bool is_reduced() const { return !is_norm() && of_exponentials.front() == Result::log_of_sum; }
};

std::vector<std::int64_t> axes_from_on(std::size_t first, std::size_t rank) {
  std::vector<std::int64_t> axes(rank - std::min(first, rank));
  std::iota(axes.begin(), axes.end(), static_cast<std::int64_t>(first));
  return axes;
}

/// Empty where the op has no rows.
std::optional<RowOp> row_op(const Op& op, const Shape& shape) {
  const std::size_t rank = shape.size();
  RowOp row{{}, shape, {}};
  const auto take_softmax = [&](std::int64_t softmax_axis, bool all_trailing_axes, std::vector<Result> results) {
    const std::size_t axis = normalized_axis(softmax_axis, rank);
    row.axes =
        all_trailing_axes ? axes_from_on(axis, rank) : std::vector<std::int64_t>{static_cast<std::int64_t>(axis)};
    row.of_exponentials = std::move(results);
  };
  if (const auto* softmax = std::get_if<op::Softmax>(&op)) {
    take_softmax(softmax->axis, softmax->all_trailing_axes, {Result::quotient, Result::product});
  } else if (const auto* masked = std::get_if<op::MaskedSoftmax>(&op)) {
    take_softmax(masked->axis, false, {Result::quotient, Result::product});
  } else if (const auto* logarithm = std::get_if<op::LogSoftmax>(&op)) {
    take_softmax(logarithm->axis, logarithm->all_trailing_axes, {Result::less_log, Result::less_maximum});
  } else if (const auto* sum = std::get_if<op::ReduceLogSumExp>(&op)) {
    for (const std::int64_t axis : sum->axes)
      row.axes.push_back(static_cast<std::int64_t>(normalized_axis(axis, rank)));
    std::sort(row.axes.begin(), row.axes.end());
    if (sum->axes.empty()) row.axes = axes_from_on(0, rank);
    row.of_exponentials = {Result::log_of_sum};
  } else if (const auto* layer = std::get_if<op::LayerNormalization>(&op)) {
    row.axes = axes_from_on(normalized_axis(layer->axis, rank), rank);
    row.epsilon = static_cast<float>(layer->epsilon);
  } else if (const auto* rms = std::get_if<op::RMSNormalization>(&op)) {
    row.axes = axes_from_on(normalized_axis(rms->axis, rank), rank);
    row.epsilon = static_cast<float>(rms->epsilon);
    row.is_centred = false;
  } else if (const auto* instance = std::get_if<op::InstanceNormalization>(&op)) {
    row.axes = axes_from_on(2, rank);
    row.epsilon = static_cast<float>(instance->epsilon);
  } else if (const auto* group = std::get_if<op::GroupNormalization>(&op)) {
    if (rank < 2 || group->groups < 1 || shape[1] % group->groups != 0) return std::nullopt;
    row.shape = {shape[0], group->groups, shape[1] / group->groups};
    row.shape.insert(row.shape.end(), shape.begin() + 2, shape.end());
    row.axes = axes_from_on(2, row.shape.size());
    row.epsilon = static_cast<float>(group->epsilon);
  } else {
    return std::nullopt;
  }
  return row;
}

/// Rows that are compared together, one a lane.
struct RowGroup {
  std::vector<float> x, scale, bias;  ///< [n, sum_lanes]
  std::vector<float> recorded;        ///< [results of a row, sum_lanes]
  std::array<std::int64_t, sum_lanes> rows = {};
  std::size_t count = 0;  ///< lanes in use
};

/// One evaluation of a softmax or a norm.
class RecordedRows {
public:
  RecordedRows(const Graph& graph, std::size_t node, const Trace& trace)
      : node_(graph.nodes[node]), x_(value_of(graph, node_.inputs[0], trace)), y_(trace.layers[node].output) {
    stored_ = stored_format(trace.arithmetic, graph.value(node_.output).type);
    row_ = row_op(node_.op, x_.shape());
    if (!row_) return;
    GroupPlan plan = plan_groups(row_->axes, row_->shape);
    const std::size_t results = row_->is_reduced() ? 1 : plan.elements.size();
    if (element_count(y_.shape()) != static_cast<std::int64_t>(plan.groups.size() * results)) return;
    plan_ = std::move(plan);
    if (const auto* masked = std::get_if<op::MaskedSoftmax>(&node_.op)) {
      if (!masked->kept.empty()) constant_mask_ = mask_of(*masked);
      const StoredTensor& kept = masked->kept.empty() ? value_of(graph, node_.inputs[1], trace) : *constant_mask_;
      kept_.emplace(kept, kept.shape(), x_.shape());
      return;
    }
    if (node_.inputs.size() > 1) scale_.emplace(per_element(graph, 1, trace));
    if (node_.inputs.size() > 2) bias_.emplace(per_element(graph, 2, trace));
  }

  std::int64_t rows() const { return static_cast<std::int64_t>(plan_.groups.size()); }
  std::int64_t length() const { return static_cast<std::int64_t>(plan_.elements.size()); }
  std::int64_t results_of_row() const { return row_->is_reduced() ? 1 : length(); }
  const RowOp& op() const { return *row_; }
  bool has_fractions() const { return x_.format().has_value(); }
  bool has_scale() const { return scale_.has_value(); }
  bool has_bias() const { return bias_.has_value(); }

  /// What the run stores of a result.
  float stored(float x) const {
    if (stored_ == FormatId::fp32 || stored_ == FormatId::fp64) return x;
    return static_cast<float>(round_to(static_cast<double>(x), format(stored_), Rounding::nearest_even));
  }

  /// Adds a row to a group unless a number of it is not finite, or is none of float32. What is masked is minus infinity, and
  /// so is a result of it where results are logarithms.
  void append(std::int64_t row, RowGroup& group) const {
    constexpr float masked = -std::numeric_limits<float>::infinity();
    bool is_usable = true;
    const auto take = [&](double value, bool may_be_masked) {
      const auto x = static_cast<float>(value);
      const bool is_known = std::isfinite(x) ? static_cast<double>(x) == value : may_be_masked && value == masked;
      is_usable = is_usable && is_known;
      return x;
    };
    const bool may_be_masked = !row_->is_norm();
    bool has_terms = false;  // a row that is masked as a whole has no sum
    for (std::size_t i = 0; i < plan_.elements.size() && is_usable; ++i) {
      const std::size_t from = plan_.groups[static_cast<std::size_t>(row)] + plan_.elements[i];
      const std::size_t to = i * sum_lanes + group.count;
      group.x[to] = kept_ && (*kept_)[from] == 0.0 ? masked : take(x_[from], may_be_masked);
      has_terms = has_terms || group.x[to] != masked;
      group.scale[to] = scale_ ? take((*scale_)[from], false) : 1.0f;
      group.bias[to] = bias_ ? take((*bias_)[from], false) : 0.0f;
      if (!row_->is_reduced()) group.recorded[to] = take(y_[from], may_be_masked && group.x[to] == masked);
    }
    is_usable = is_usable && has_terms;
    if (row_->is_reduced() && is_usable) group.recorded[group.count] = take(y_[static_cast<std::size_t>(row)], false);
    group.rows[group.count] = row;
    group.count += is_usable ? 1 : 0;
  }

  /// The row-major place of result i of a row.
  std::int64_t place_of(std::int64_t row, std::int64_t i) const {
    if (row_->is_reduced()) return row;
    return static_cast<std::int64_t>(plan_.groups[static_cast<std::size_t>(row)] +
                                     plan_.elements[static_cast<std::size_t>(i)]);
  }
  const Format& format_of_results() const { return format(stored_); }

private:
  /// The numbers of a scale, a bias or a mask by element of x.
  class PerElement {
  public:
    PerElement(const StoredTensor& stored, Shape aligned, const Shape& result)
        : numbers_(stored), at_(aligned, result) {}
    double operator[](std::size_t element) const { return numbers_[at_(element)]; }

  private:
    Numbers numbers_;
    BroadcastIndex at_;
  };

  PerElement per_element(const Graph& graph, std::size_t slot, const Trace& trace) const {
    const StoredTensor& stored = value_of(graph, node_.inputs[slot], trace);
    const auto* group = std::get_if<op::GroupNormalization>(&node_.op);
    if (group == nullptr && !std::holds_alternative<op::InstanceNormalization>(node_.op))
      return {stored, stored.shape(), x_.shape()};
    const Shape& whole = group != nullptr && group->scales_groups ? row_->shape : x_.shape();
    Shape aligned(whole.size() - 1, 1);
    aligned[0] = element_count(stored.shape());
    return {stored, aligned, whole};
  }

  static StoredTensor mask_of(const op::MaskedSoftmax& softmax) {
    Tensor<float> kept(softmax.kept_shape);
    std::transform(softmax.kept.begin(), softmax.kept.end(), kept.values.begin(),
                   [](bool is_kept) { return is_kept ? 1.0f : 0.0f; });
    return StoredTensor::from(kept);
  }

  const Node& node_;
  Numbers x_, y_;
  std::optional<RowOp> row_;
  std::optional<StoredTensor> constant_mask_;
  std::optional<PerElement> scale_, bias_, kept_;
  GroupPlan plan_;
  FormatId stored_ = FormatId::fp32;
};

/// exp(x) of SLEEF's expf with an error of 1.0 ulp, built with fused multiply-adds.
/// Source:    SLEEF 3, src/libm/sleefsimdsp.c, xexpf
float exp_of_sleef(float x) {
  if (x < -104.0f) return 0.0f;
  const float q = std::nearbyint(x * 1.442695040888963407f);
  float s = std::fma(q, -0.693145751953125f, x);
  s = std::fma(q, -1.428606765330187045e-06f, s);
  float u = 0.000198527617612853646278381f;
  for (const float c : {0.00139304355252534151077271f, 0.00833336077630519866943359f, 0.0416664853692054748535156f,
                        0.166666671633720397949219f, 0.5f})
    u = std::fma(u, s, c);
  u = 1.0f + std::fma(s * s, u, s);
  const int power = static_cast<int>(q), half = power / 2;
  return u * std::ldexp(1.0f, half) * std::ldexp(1.0f, power - half);
}

/// The sum of a number and of what its rounding left.
struct TwoFloats {
  float high, low;

  static TwoFloats sum(float a, float b) {
    const float high = a + b, of_b = high - a;
    return {high, (a - (high - of_b)) + (b - of_b)};
  }
  /// Domain:    |a| >= |b|
  static TwoFloats sum(const TwoFloats& a, const TwoFloats& b) {
    const float high = a.high + b.high;
    return {high, ((a.high - high) + b.high) + a.low + b.low};
  }
  static TwoFloats product(const TwoFloats& a, float b) {
    const float high = a.high * b;
    return {high, std::fma(a.low, b, std::fma(a.high, b, -high))};
  }
  static TwoFloats quotient(const TwoFloats& a, const TwoFloats& b) {
    const float inverse = 1.0f / b.high, high = a.high * inverse;
    const float left = std::fma(inverse, a.high, -high);
    const float more = std::fma(-b.low, inverse, std::fma(-b.high, inverse, 1.0f));
    return {high, std::fma(high, more, std::fma(a.low, inverse, left))};
  }
};

/// log(x) of SLEEF's logf with an error of 1.0 ulp, built with fused multiply-adds.
/// Domain:    normal numbers
/// Source:    SLEEF 3, src/libm/sleefsimdsp.c, xlogf_u1
float log_of_sleef(float x) {
  const int power = std::ilogb(x * (1.0f / 0.75f));
  const float m = std::ldexp(x, -power);
  const TwoFloats t = TwoFloats::quotient(TwoFloats::sum(-1.0f, m), TwoFloats::sum(1.0f, m));
  const float square = t.high * t.high;
  float p = 0.3027294874e+0f;
  for (const float c : {0.3996108174e+0f, 0.6666694880e+0f}) p = std::fma(p, square, c);
  TwoFloats sum = TwoFloats::product({0.69314718246459960938f, -1.904654323148236017e-09f}, static_cast<float>(power));
  sum = TwoFloats::sum(sum, {2.0f * t.high, 2.0f * t.low});
  const float rest = square * t.high * p, high = sum.high + rest;
  return high + (((sum.high - high) + rest) + sum.low);
}

float log_of(Exponential exponential, float x) {
  switch (exponential) {
    case Exponential::sleef:
      return log_of_sleef(x);
    case Exponential::own:
      return log_f32(x);
    case Exponential::rounded:
      break;
  }
  return static_cast<float>(std::log(static_cast<double>(x)));
}

float exp_of(Exponential exponential, float x) {
  switch (exponential) {
    case Exponential::sleef:
      return exp_of_sleef(x);
    case Exponential::own:
      return exp_f32(x);
    case Exponential::rounded:
      break;
  }
  return static_cast<float>(std::exp(static_cast<double>(x)));
}

/// The numbers that the results of a row are made of: m and v of a norm; 0 and the sum of exponentials.
struct RowStatistics {
  RowLanes mean = {}, spread = {};

  std::array<std::uint32_t, 2 * sum_lanes> bits() const {
    std::array<std::uint32_t, 2 * sum_lanes> all;
    for (std::size_t lane = 0; lane < sum_lanes; ++lane) {
      all[lane] = std::bit_cast<std::uint32_t>(mean[lane]);
      all[sum_lanes + lane] = std::bit_cast<std::uint32_t>(spread[lane]);
    }
    return all;
  }
};

float multiplied_and_added(float a, float b, float c, bool fused) {
  return fused ? std::fma(a, b, c) : a * b + c;
}

/// Moments of numbers that came in one after the other, or of those of several places together.
struct RunningMoments {
  std::int64_t count = 0;
  float mean = 0.0f, squares = 0.0f;

  void merge(const RunningMoments& more, bool fused) {
    const std::int64_t n = count + more.count;
    const float share = n == 0 ? 0.0f : static_cast<float>(more.count) / static_cast<float>(n);
    const float delta = more.mean - mean;
    mean = multiplied_and_added(share, delta, mean, fused);
    squares += multiplied_and_added(delta * delta * share, static_cast<float>(count), more.squares, fused);
    count = n;
  }
  void take(float x, float delta, float step, bool fused) {
    mean = multiplied_and_added(delta, step, mean, fused);
    squares = multiplied_and_added(delta, x - mean, squares, fused);
  }
};

/// Welford's moments of one row.
class Welford {
public:
  Welford(const RowGroup& group, std::size_t lane, std::int64_t n, bool fused)
      : group_(group), lane_(lane), n_(n), fused_(fused) {}

  RunningMoments in_sequence(std::int64_t first) const {
    RunningMoments all;
    for (std::int64_t i = first; i < n_; ++i) {
      const float x = at(i), delta = x - all.mean;
      all.count += 1;
      all.mean += delta / static_cast<float>(all.count);
      all.squares = multiplied_and_added(delta, x - all.mean, all.squares, fused_);
    }
    return all;
  }

  RunningMoments in_lanes(std::int64_t lanes) const {
    const std::int64_t rounds = n_ / lanes;
    RunningMoments all = in_sequence(rounds * lanes);
    for (std::int64_t lane = 0; lane < lanes; ++lane) all.merge(of_lane(lane, lanes, rounds), fused_);
    return all;
  }

private:
  static constexpr std::int64_t chunk = 16;

  float at(std::int64_t i) const { return group_.x[static_cast<std::size_t>(i) * sum_lanes + lane_]; }

  RunningMoments of_lane(std::int64_t lane, std::int64_t lanes, std::int64_t rounds) const {
    const std::int64_t chunks = (rounds + chunk - 1) / chunk;
    const auto last = static_cast<std::uint64_t>(std::max<std::int64_t>(chunks - 1, 1));
    const auto depth = static_cast<std::size_t>(std::bit_width(last));
    std::vector<RunningMoments> levels(depth);
    for (std::int64_t i = 0; i < chunks; ++i) {
      RunningMoments one;
      for (std::int64_t j = 0; j < std::min(chunk, rounds - i * chunk); ++j) {
        const float x = at((i * chunk + j) * lanes + lane);
        one.take(x, x - one.mean, 1.0f / static_cast<float>(j + 1), fused_);
        one.count += 1;
      }
      levels[0].merge(one, fused_);
      std::int64_t carry = i + 1;
      for (std::size_t level = 1; level < depth && (carry & 1) == 0; ++level, carry >>= 1)
        levels[level].merge(std::exchange(levels[level - 1], {}), fused_);
    }
    for (std::size_t level = 1; level < depth; ++level) levels[0].merge(levels[level], fused_);
    return levels[0];
  }

  const RowGroup& group_;
  std::size_t lane_;
  std::int64_t n_;
  bool fused_;
};

/// A row's numbers as sums read them.
class RowTerms {
public:
  RowTerms(const RowGroup& group, std::int64_t n) : group_(group), ones_(group.x.size(), 1.0f) { operands_.k = n; }

  const linalg::SumOperands<float>& as_they_are() { return with(group_.x, ones_); }
  const linalg::SumOperands<float>& squared() { return with(group_.x, group_.x); }
  const linalg::SumOperands<float>& squared_deviations(const RowLanes& mean) {
    std::vector<float> deviations(group_.x.size());
    for (std::size_t i = 0; i < deviations.size(); ++i) deviations[i] = group_.x[i] - mean[i % sum_lanes];
    return with(deviations, deviations);
  }
  RowLanes largest() const {
    RowLanes largest;
    std::copy_n(group_.x.begin(), sum_lanes, largest.begin());
    for (std::size_t i = 0; i < group_.x.size(); ++i)
      largest[i % sum_lanes] = std::max(largest[i % sum_lanes], group_.x[i]);
    return largest;
  }
  const std::vector<float>& exponentials(Exponential exponential) {
    const auto [found, is_new] = exponentials_.try_emplace(exponential);
    if (is_new) {
      const RowLanes largest = this->largest();
      found->second.resize(group_.x.size());
      for (std::size_t i = 0; i < group_.x.size(); ++i)
        found->second[i] = exp_of(exponential, group_.x[i] - largest[i % sum_lanes]);
    }
    return found->second;
  }
  const linalg::SumOperands<float>& of_exponentials(Exponential exponential) {
    return with(exponentials(exponential), ones_);
  }

private:
  const linalg::SumOperands<float>& with(const std::vector<float>& a, const std::vector<float>& b) {
    operands_.a = a;
    operands_.b = b;
    return operands_;
  }

  const RowGroup& group_;
  std::vector<float> ones_;
  linalg::SumOperands<float> operands_;
  std::map<Exponential, std::vector<float>> exponentials_;
};

/// Statistics and results of the rows of one group.
class RowValues {
public:
  RowValues(const RecordedRows& rows, const RowGroup& group)
      : rows_(rows), group_(group), terms_(group, rows.length()) {}

  /// m and v, or s, of all rows.
  RowStatistics statistics(const ProductKernel& kernel) {
    const RowSteps& steps = *kernel.row;
    RowStatistics found;
    switch (steps.sums) {
      case Sums::exponentials:
        found.spread = summed(kernel, terms_.of_exponentials(steps.exponential));
        break;
      case Sums::squares:
        found.spread = mean_of(kernel, terms_.squared());
        break;
      case Sums::two_passes:
        found.mean = mean_of(kernel, terms_.as_they_are());
        found.spread = mean_of(kernel, terms_.squared_deviations(found.mean));
        break;
      case Sums::one_pass:
        found.mean = mean_of(kernel, terms_.as_they_are());
        found.spread = mean_of(kernel, terms_.squared());
        for (std::size_t lane = 0; lane < sum_lanes; ++lane)
          found.spread[lane] =
              multiplied_and_added(-found.mean[lane], found.mean[lane], found.spread[lane], kernel.fma);
        break;
      case Sums::running:
        for (std::size_t lane = 0; lane < group_.count; ++lane) {
          const Welford row(group_, lane, rows_.length(), kernel.fma);
          const RunningMoments moments = steps.lanes > 1 ? row.in_lanes(steps.lanes) : row.in_sequence(0);
          found.mean[lane] = moments.mean;
          found.spread[lane] = moments.squares / static_cast<float>(rows_.length());
        }
        break;
    }
    return found;
  }

  /// How many of the results of elements 0, stride, 2 stride, … of each row are the recorded ones.
  std::array<std::int64_t, sum_lanes> equal(const RowSteps& steps, const RowStatistics& statistics,
                                            std::int64_t stride) {
    std::array<std::int64_t, sum_lanes> counts = {};
    for_each_result(steps, statistics, stride, [&](float y, std::int64_t i, std::size_t lane) {
      counts[lane] += y == group_.recorded[static_cast<std::size_t>(i) * sum_lanes + lane] ? 1 : 0;
    });
    return counts;
  }

  /// Adds what a kernel gives in place of the recorded numbers. `before`: numbers of the result in earlier evaluations.
  void add_differences(std::int64_t before, KernelDifference& difference) {
    const ProductKernel& kernel = difference.kernel;
    for_each_result(*kernel.row, statistics(kernel), 1, [&](float y, std::int64_t i, std::size_t lane) {
      const float recorded = group_.recorded[static_cast<std::size_t>(i) * sum_lanes + lane];
      difference.add(y, recorded, rows_.format_of_results(), before + rows_.place_of(group_.rows[lane], i));
    });
  }

private:
  /// Calls visit(y, i, lane) with what is stored of elements i = 0, stride, … of all rows.
  template <class Visit>
  void for_each_result(const RowSteps& steps, const RowStatistics& statistics, std::int64_t stride,
                       const Visit& visit) {
    if (steps.sums == Sums::exponentials) return for_each_of_exponentials(steps, statistics, stride, visit);
    RowLanes root, inverse;
    for (std::size_t lane = 0; lane < group_.count; ++lane) {
      root[lane] = std::sqrt(statistics.spread[lane] + rows_.op().epsilon);
      inverse[lane] = 1.0f / root[lane];
    }
    for_each_place(stride, [&](std::size_t place, std::int64_t i, std::size_t lane) {
      visit(rows_.stored(norm(steps, place, statistics.mean[lane], root[lane], inverse[lane])), i, lane);
    });
  }

  template <class Visit>
  void for_each_of_exponentials(const RowSteps& steps, const RowStatistics& statistics, std::int64_t stride,
                                const Visit& visit) {
    const std::vector<float>& e = terms_.exponentials(steps.exponential);
    const RowLanes largest = terms_.largest();
    RowLanes logarithm = {};
    for (std::size_t lane = 0; lane < group_.count; ++lane)
      logarithm[lane] = log_of(steps.exponential, statistics.spread[lane]);
    for_each_place(stride, [&](std::size_t place, std::int64_t i, std::size_t lane) {
      const float sum = statistics.spread[lane], x = group_.x[place], most = largest[lane], log = logarithm[lane];
      const float y = steps.result == Result::quotient       ? e[place] / sum
                      : steps.result == Result::product      ? e[place] * (1.0f / sum)
                      : steps.result == Result::less_log     ? (x - most) - log
                      : steps.result == Result::less_maximum ? x - (most + log)
                                                             : log + most;
      visit(rows_.stored(y), i, lane);
    });
  }

  /// Calls visit(place, i, lane) for the results i = 0, stride, … of all rows.
  template <class Visit>
  void for_each_place(std::int64_t stride, const Visit& visit) const {
    for (std::int64_t i = 0; i < rows_.results_of_row(); i += stride)
      for (std::size_t lane = 0; lane < group_.count; ++lane)
        visit(static_cast<std::size_t>(i) * sum_lanes + lane, i, lane);
  }

  RowLanes summed(const ProductKernel& kernel, const linalg::SumOperands<float>& operands) const {
    const SumSchedule schedule = schedule_of(kernel.parts, rows_.length());
    return linalg::combined(linalg::KernelSums(kernel, schedule).parts(operands), schedule.joins,
                            linalg::PartRounding(kernel));
  }

  RowLanes mean_of(const ProductKernel& kernel, const linalg::SumOperands<float>& operands) const {
    RowLanes sums = summed(kernel, operands);
    const auto n = static_cast<float>(rows_.length());
    for (float& sum : sums) sum = kernel.scaling == Scaling::divided ? sum / n : sum * (1.0f / n);
    return sums;
  }

  float norm(const RowSteps& steps, std::size_t place, float mean, float root, float inverse) const {
    const float x = group_.x[place], scale = group_.scale[place], bias = group_.bias[place];
    switch (steps.result) {
      case Result::quotient:
        return multiplied_and_added((x - mean) / root, scale, bias, steps.fused);
      case Result::product:
        return multiplied_and_added((x - mean) * inverse, scale, bias, steps.fused);
      case Result::shifted:
        return multiplied_and_added(multiplied_and_added(x, inverse, -inverse * mean, steps.fused), scale, bias,
                                    steps.fused);
      case Result::folded: {
        const float factor = inverse * scale;
        return multiplied_and_added(x, factor, multiplied_and_added(-factor, mean, bias, steps.fused), steps.fused);
      }
      case Result::folded_rounded: {
        const float factor = inverse * scale;
        return multiplied_and_added(x, factor, bias - factor * mean, steps.fused);
      }
      default:
        break;  // scaled
    }
    return multiplied_and_added(x - mean, inverse * scale, bias, steps.fused);
  }

  const RecordedRows& rows_;
  const RowGroup& group_;
  RowTerms terms_;
};

}  // namespace

class RowSearch::Work {
  static constexpr std::size_t most_alike = 8, most_nearest = 64;

public:
  Work(std::size_t node, std::int64_t most_work)
      : node_(node),
        most_work_(most_work),
        numbers_left_(most_work > 0 ? std::int64_t{1} << 22 : std::int64_t{1} << 26) {}

  bool add(const Graph& graph, const Trace& evaluation) {
    if (!finding_.why_not.empty() || (is_started_ && numbers_left_ <= 0)) return false;
    const RecordedRows rows(graph, node_, evaluation);
    finding_.k = rows.length();
    if (!is_started_) finding_.why_not = why_not(rows);
    if (!finding_.why_not.empty()) return false;
    const std::int64_t before = finding_.compared;
    stride_ = static_cast<std::int64_t>(0.6180339887498949 * static_cast<double>(rows.rows())) | 1;
    while (std::gcd(stride_, rows.rows()) != 1) stride_ += 2;
    done_ = place_ = 0;
    if (!is_started_ && !start(rows)) return false;
    for (RowGroup group = next(rows); group.count > 0 && numbers_left_ > 0; group = next(rows))
      keep_matching(rows, group);
    numbers_before_ += rows.rows() * rows.results_of_row();
    return !left_.empty() && finding_.compared - before == rows.rows() * rows.results_of_row();
  }

  KernelFinding finding() const {
    KernelFinding finding = finding_;
    if (!finding.why_not.empty()) return finding;
    if (!is_started_) {
      finding.why_not = "no row has finite float32 numbers and results";
      return finding;
    }
    finding.members_left = static_cast<std::int64_t>(left_.size());
    finding.equal_bits = finding.compared;
    if (left_.empty()) {
      const auto of_fewest = [](const KernelDifference& a, const KernelDifference& b) {
        return a.differing < b.differing;
      };
      finding.nearest = *std::min_element(nearest_.begin(), nearest_.end(), of_fewest);
      finding.equal_bits -= finding.nearest->differing;
      return finding;
    }
    finding.kernel = left_.front().kernel;
    for (std::size_t i = 1; i < left_.size() && i <= most_alike; ++i) finding.alike.push_back(left_[i].kernel);
    const double share =
        (static_cast<double>(equal_rows_of_others_) + 1.0) / (static_cast<double>(rows_of_others_) + 2.0);
    const double by_chance = static_cast<double>(finding.family) * std::pow(share, static_cast<double>(rows_compared_));
    const auto has_other_sums = [&](const Left& one) { return one.sums != left_.front().sums; };
    const auto apart = std::count_if(left_.begin(), left_.end(), has_other_sums);
    finding.estimate_chance_hits = std::max(by_chance, static_cast<double>(apart));
    return finding;
  }

private:
  std::string why_not(const RecordedRows& rows) const {
    constexpr std::int64_t most_terms = std::int64_t{1} << 18, fewest_members = 4096;
    if (rows.rows() < 1 || rows.length() < 2) return "it has no sums";
    if (!rows.has_fractions()) return "its numbers are integers";
    if (rows.length() > most_terms || (most_work_ > 0 && rows.length() * fewest_members > most_work_))
      return "rows of " + std::to_string(rows.length()) + " numbers take long to search";
    return "";
  }

  /// The next rows, spread over all; empty at the end.
  RowGroup next(const RecordedRows& rows) {
    RowGroup group;
    for (auto* const numbers : {&group.x, &group.scale, &group.bias, &group.recorded})
      numbers->resize(static_cast<std::size_t>(rows.length()) * sum_lanes);
    for (; done_ < rows.rows() && group.count < sum_lanes; ++done_) {
      rows.append(place_, group);
      place_ = (place_ + stride_) % rows.rows();
    }
    for (auto* const numbers : {&group.x, &group.scale, &group.bias, &group.recorded})
      for (std::size_t i = 0; i < numbers->size(); ++i)
        if (i % sum_lanes >= group.count) (*numbers)[i] = 0.0f;
    return group;
  }

  /// Compares all members with the first rows: some of their numbers, then all.
  bool start(const RecordedRows& rows) {
    const RowGroup group = next(rows);
    if (group.count == 0) return false;
    is_started_ = true;
    RowValues values(rows, group);
    const RowOp& op = rows.op();
    ProductKernel member;
    member.of_products = false;
    for (const DealtTerms& dealt : dealings_of_numbers(rows.length())) {
      for (const SumParts& way : dealt) {
        member.parts = way;
        if (!op.is_norm()) {
          member.scaling = Scaling::none;
          for (const Exponential exponential : {Exponential::rounded, Exponential::own, Exponential::sleef})
            try_results(rows, member, {Sums::exponentials, {}, false, exponential}, values, group);
          continue;
        }
        for (const Scaling scaling : {Scaling::divided, Scaling::multiplied}) {
          member.scaling = scaling;
          if (!op.is_centred) try_results(rows, member, {Sums::squares}, values, group);
          if (op.is_centred) try_results(rows, member, {Sums::two_passes}, values, group);
          if (op.is_centred) try_results(rows, member, {Sums::one_pass}, values, group);
        }
      }
    }
    member.parts = {};
    member.scaling = Scaling::divided;
    for (const std::int64_t lanes : {1, 4, 8, 16})
      if (op.is_norm() && op.is_centred) {
        RowSteps running{Sums::running};
        running.lanes = lanes;
        try_results(rows, member, running, values, group);
      }
    std::stable_sort(left_.begin(), left_.end(), [](const Left& a, const Left& b) {
      const Sums of_a = a.kernel.row->sums, of_b = b.kernel.row->sums;
      return of_a != of_b && (of_a == Sums::running) < (of_b == Sums::running);
    });
    rows_compared_ += static_cast<std::int64_t>(group.count);
    finding_.compared = static_cast<std::int64_t>(group.count) * rows.results_of_row();
    if (left_.empty()) add_differences(values);
    return true;
  }

  static std::int64_t sample_stride(const RecordedRows& rows) {
    return std::max<std::int64_t>(rows.results_of_row() / 24, 1);
  }
  static std::int64_t sampled(const RecordedRows& rows) {
    return (rows.results_of_row() + sample_stride(rows) - 1) / sample_stride(rows);
  }

  /// All results that may be made of the sums of one member.
  void try_results(const RecordedRows& rows, ProductKernel member, RowSteps steps, RowValues& values,
                   const RowGroup& group) {
    const bool is_of_exponentials = steps.sums == Sums::exponentials;
    for (const bool fused : {false, true}) {
      if (is_of_exponentials && fused) continue;
      member.fma = fused;
      member.row = steps;
      const RowStatistics statistics = values.statistics(member);
      for (const Result result : rows.op().of_exponentials) {
        member.row->result = result;
        compare(rows, member, statistics, values, group);
      }
      if (is_of_exponentials) continue;
      for (const Result result : {Result::quotient, Result::product, Result::shifted, Result::folded,
                                  Result::folded_rounded, Result::scaled}) {
        const bool is_folded = result == Result::folded || result == Result::folded_rounded;
        if (!rows.has_scale() && (is_folded || result == Result::scaled)) continue;
        if (!rows.op().is_centred && (result == Result::shifted || is_folded)) continue;
        for (const bool fuses : {false, true}) {
          const bool may_fuse = result == Result::shifted || is_folded || rows.has_bias();
          if (fuses ? !may_fuse : result == Result::folded_rounded) continue;
          member.row->result = result;
          member.row->fused = fuses;
          compare(rows, member, statistics, values, group);
        }
      }
    }
  }

  void compare(const RecordedRows& rows, const ProductKernel& member, const RowStatistics& statistics,
               RowValues& values, const RowGroup& group) {
    finding_.family += 1;
    const auto lanes = static_cast<std::int64_t>(group.count);
    const Key key{statistics.bits(), member.row->result, member.row->fused, member.row->exponential};
    const auto [known, is_new] = known_.try_emplace(key);
    EqualNumbers& equal = known->second;
    if (is_new) {
      const auto of_rows = values.equal(*member.row, statistics, sample_stride(rows));
      equal.of_sample = total(of_rows);
      equal.rows = std::count(of_rows.begin(), of_rows.begin() + lanes, sampled(rows));
      if (equal.rows == lanes) equal.of_all = total(values.equal(*member.row, statistics, 1));
    }
    if (equal.of_all == lanes * rows.results_of_row()) return left_.push_back({member, joined(0, statistics)});
    if (is_new && equal >= most_equal_) take_nearest(member, equal > most_equal_);
    most_equal_ = std::max(most_equal_, equal);
    equal_rows_of_others_ += equal.rows;
    rows_of_others_ += lanes;
  }

  void keep_matching(const RecordedRows& rows, const RowGroup& group) {
    RowValues values(rows, group);
    const std::int64_t all = static_cast<std::int64_t>(group.count) * rows.results_of_row();
    std::vector<Left> left;
    std::int64_t most_equal = -1;
    for (Left& one : left_) {
      const RowStatistics statistics = values.statistics(one.kernel);
      const std::int64_t equal = total(values.equal(*one.kernel.row, statistics, 1));
      if (equal >= most_equal && left.empty()) take_nearest(one.kernel, equal > most_equal);
      most_equal = std::max(most_equal, equal);
      one.sums = joined(one.sums, statistics);
      if (equal == all) left.push_back(std::move(one));
    }
    rows_compared_ += static_cast<std::int64_t>(group.count);
    numbers_left_ -= all * std::max<std::int64_t>(static_cast<std::int64_t>(left_.size()), 1);
    left_ = std::move(left);
    finding_.compared += all;
    if (left_.empty()) add_differences(values);
  }

  void add_differences(RowValues& values) {
    for (KernelDifference& one : nearest_) values.add_differences(numbers_before_, one);
  }

  /// Takes a member that gives as many of some numbers as the nearest ones do, or more than they do.
  void take_nearest(const ProductKernel& member, bool gives_more) {
    if (gives_more) nearest_.clear();
    if (nearest_.size() < most_nearest) nearest_.push_back({member});
  }

  /// A member that gives all numbers.
  struct Left {
    ProductKernel kernel;
    std::uint64_t sums = 0;  ///< hash of the numbers that its results are made of
  };
  static std::uint64_t joined(std::uint64_t hash, const RowStatistics& statistics) {
    for (const std::uint32_t bits : statistics.bits()) {
      hash = (hash ^ bits) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 29;
    }
    return hash;
  }
  static std::int64_t total(const std::array<std::int64_t, sum_lanes>& counts) {
    return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  }

  using Key = std::tuple<std::array<std::uint32_t, 2 * sum_lanes>, Result, bool, Exponential>;
  /// Of the first rows.
  struct EqualNumbers {
    std::int64_t of_sample = 0;
    std::int64_t of_all = -1;  ///< -1: not counted, as some of the sample differ
    std::int64_t rows = 0;     ///< whose numbers in the sample are all equal: they share their sums

    friend auto operator<=>(const EqualNumbers&, const EqualNumbers&) = default;
  };

  std::size_t node_;
  std::int64_t most_work_;
  std::int64_t numbers_left_;  ///< to confirm with
  bool is_started_ = false;
  std::int64_t done_ = 0, place_ = 0, stride_ = 1;
  std::int64_t numbers_before_ = 0;  ///< of the result in earlier evaluations
  EqualNumbers most_equal_;
  std::int64_t equal_rows_of_others_ = 0, rows_of_others_ = 0;  ///< of members that do not give all of the first rows
  std::int64_t rows_compared_ = 0;
  std::map<Key, EqualNumbers> known_;  ///< by sums and steps
  std::vector<KernelDifference>
      nearest_;  ///< of the last members that gave all, else of those that give most of the sample
  std::vector<Left> left_;
  KernelFinding finding_;
};

bool has_row_kernels(const Op& op) {
  return std::holds_alternative<op::Softmax>(op) || std::holds_alternative<op::MaskedSoftmax>(op) ||
         std::holds_alternative<op::LogSoftmax>(op) || std::holds_alternative<op::ReduceLogSumExp>(op) ||
         std::holds_alternative<op::LayerNormalization>(op) || std::holds_alternative<op::RMSNormalization>(op) ||
         std::holds_alternative<op::GroupNormalization>(op) || std::holds_alternative<op::InstanceNormalization>(op);
}

RowSearch::RowSearch(std::size_t node, std::int64_t most_work) : work_(std::make_unique<Work>(node, most_work)) {}
RowSearch::~RowSearch() = default;

bool RowSearch::add(const Graph& graph, const Trace& evaluation) {
  return work_->add(graph, evaluation);
}

KernelFinding RowSearch::finding() const {
  return work_->finding();
}

}  // namespace driftbound
