#include "driftbound/region/range.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <string>
#include <utility>

#include "driftbound/evaluate/evaluate_as.hpp"
#include "driftbound/num/environment.hpp"
#include "driftbound/num/errors.hpp"
#include "implicit/scalar_graph.hpp"
#include "implicit/workspace.hpp"
#include "num/parallel.hpp"
#include "region/cell_network.hpp"
#include "region/ray_checks.hpp"

namespace driftbound {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double largest_coordinate = std::numeric_limits<float>::max();
/// A wider range of values holds what an affine function is not near: intervals may know more of its ends.
constexpr double widest_affine = 0x1p200;

RegionSign sign_of(double lower, double upper) {
  if (lower > 0.0) return RegionSign::all_positive;
  return upper < 0.0 ? RegionSign::all_negative : RegionSign::unknown;
}

const RegionOptions& checked(const RegionOptions& options) {
  if (!std::isfinite(options.iso)) throw InvalidArgument("regions: the iso value is no finite number");
  if (options.threads < 1) throw InvalidArgument("regions: at least one thread is needed");
  if (options.symbols < -1 || options.symbols > 4096)
    throw InvalidArgument("regions: the number of symbols is not between 0 and 4096, nor -1");
  if (options.refined_radii < 0 || options.refined_radii > 4096)
    throw InvalidArgument("regions: the number of refined radii is not between 0 and 4096");
  return options;
}

}  // namespace

void region::check_rays(const Rays& rays, std::size_t d) {
  if (rays.dimension != d || rays.origin.size() != rays.size() * d || rays.direction.size() != rays.size() * d ||
      rays.last.size() != rays.size())
    throw InvalidArgument("rays: a point of the network has " + std::to_string(d) + " coordinates, the rays " +
                          std::to_string(rays.dimension) + ", or their numbers differ");
  constexpr double most = std::numeric_limits<float>::max();
  for (std::size_t i = 0; i < rays.size(); ++i) {
    bool is_good = rays.first[i] <= rays.last[i] && rays.first[i] >= -most && rays.last[i] <= most;
    for (std::size_t j = i * d; j < (i + 1) * d; ++j)
      is_good = is_good && std::fabs(rays.origin[j]) <= most && std::fabs(rays.direction[j]) <= most;
    if (!is_good)
      throw InvalidArgument("rays: ray " + std::to_string(i) +
                            " needs numbers in the range of float32, and `first` not above `last`");
  }
}

std::string_view name_of(RegionSign sign) {
  if (sign == RegionSign::unknown) return "unknown";
  return sign == RegionSign::all_negative ? "all_negative" : "all_positive";
}

void Boxes::add(std::span<const double> box_lower, std::span<const double> box_upper) {
  if (box_lower.size() != dimension || box_upper.size() != dimension)
    throw InvalidArgument("regions: a box of " + std::to_string(box_lower.size()) + " lower and " +
                          std::to_string(box_upper.size()) + " upper bounds is put among boxes of " +
                          std::to_string(dimension) + " coordinates");
  lower.insert(lower.end(), box_lower.begin(), box_lower.end());
  upper.insert(upper.end(), box_upper.begin(), box_upper.end());
}

void Rays::add(std::span<const double> from, std::span<const double> along, double t_first, double t_last) {
  if (from.size() != dimension || along.size() != dimension)
    throw InvalidArgument("rays: a ray of " + std::to_string(from.size()) + " and " + std::to_string(along.size()) +
                          " coordinates is put among rays of " + std::to_string(dimension));
  origin.insert(origin.end(), from.begin(), from.end());
  direction.insert(direction.end(), along.begin(), along.end());
  first.push_back(t_first);
  last.push_back(t_last);
}

Range Ranges::at(std::size_t i) const {
  Range range;
  range.value = Interval(lower.at(i), upper[i]);
  for (std::size_t j = i * dimension; j < (i + 1) * dimension; ++j)
    range.gradient.push_back(std::isfinite(gradient_lower[j]) ? Interval(gradient_lower[j], gradient_upper[j])
                                                              : Interval::whole());
  range.sign = sign[i];
  range.rounding = rounding[i];
  return range;
}

class RegionEvaluator::State {
public:
  State(Graph graph, const Target* target, const RegionOptions& options)
      : graph_(std::move(graph)),
        target_(implicit::checked_target(graph_, target)),
        options_(checked(options)),
        network_(implicit::scalar_graph(graph_, target_, options.iso)) {
    if (options_.symbols < 0) options_.symbols = network_.is_linear_in_pieces() ? 32 : 0;
  }

  const Graph& graph() const { return graph_; }
  const Target& target() const { return target_; }
  const RegionOptions& options() const { return options_; }
  const region::CellNetwork& network() const { return network_; }

  Ranges ranges(const Boxes& boxes) const {
    require_sound_environment();
    check(boxes);
    const std::size_t count = boxes.size(), d = network_.dimension();
    Ranges ranges;
    ranges.dimension = options_.gradients ? d : 0;
    ranges.lower.resize(count);
    ranges.upper.resize(count);
    ranges.gradient_lower.resize(count * ranges.dimension);
    ranges.gradient_upper.resize(count * ranges.dimension);
    ranges.rounding.assign(count, infinity);
    ranges.sign.assign(count, RegionSign::unknown);
    by_blocks<region::CellAnswers>(count,
                                   [&](std::size_t first, region::CellBlock& block, region::CellAnswers& answers) {
                                     enclose(boxes, first, block, answers, ranges);
                                   });
    return ranges;
  }

  RayRanges ranges_along(const Rays& rays) const {
    require_sound_environment();
    region::check_rays(rays, network_.dimension());
    const std::size_t count = rays.size();
    RayRanges ranges;
    for (std::vector<double>* const all : {&ranges.at, &ranges.middle, &ranges.tangent, &ranges.rest})
      all->resize(count);
    by_blocks<region::PieceAnswers>(count,
                                    [&](std::size_t first, region::CellBlock& block, region::PieceAnswers& answers) {
                                      enclose(rays, first, block, answers, ranges);
                                    });
    return ranges;
  }

private:
  /// Calls enclose(first, block, answers) for every group of cell_lanes of `count`.
  template <class Answers, class Enclose>
  void by_blocks(std::size_t count, const Enclose& enclose) const {
    const std::size_t blocks = (count + region::cell_lanes - 1) / region::cell_lanes;
    parallel_for(static_cast<std::int64_t>(blocks), options_.threads, [&](std::int64_t first, std::int64_t last) {
      auto block = spares_.take();
      if (block == nullptr) block = network_.block(static_cast<std::size_t>(options_.symbols));
      Answers answers;
      for (auto b = static_cast<std::size_t>(first); b < static_cast<std::size_t>(last); ++b)
        enclose(b * region::cell_lanes, *block, answers);
      spares_.give_back(std::move(block));
    });
  }

  void check(const Boxes& boxes) const {
    const std::size_t d = network_.dimension();
    if (boxes.dimension != d || boxes.lower.size() % d != 0 || boxes.upper.size() != boxes.lower.size())
      throw InvalidArgument("regions: a point of the network has " + std::to_string(d) + " coordinates, the boxes " +
                            std::to_string(boxes.dimension) + ", with " + std::to_string(boxes.lower.size()) +
                            " lower and " + std::to_string(boxes.upper.size()) + " upper bounds");
    for (std::size_t i = 0; i < boxes.lower.size(); ++i) {
      const double low = boxes.lower[i], high = boxes.upper[i];
      if (!(low <= high && low >= -largest_coordinate && high <= largest_coordinate))
        throw InvalidArgument("regions: coordinate " + std::to_string(i % d) + " of box " + std::to_string(i / d) +
                              " needs two numbers in the range of float32, the lower one first");
    }
  }

  void enclose(const Boxes& boxes, std::size_t first, region::CellBlock& block, region::CellAnswers& answers,
               Ranges& ranges) const {
    const std::size_t d = network_.dimension(), cells = std::min(region::cell_lanes, boxes.size() - first);
    const auto ask = [&](bool rounding) {
      network_.enclose(
          std::span(boxes.lower).subspan(first * d, cells * d), std::span(boxes.upper).subspan(first * d, cells * d),
          {options_.gradients, rounding, static_cast<std::size_t>(options_.refined_radii)}, block, answers);
    };
    const auto is_known = [&](std::size_t i) { return std::isfinite(answers.lower[i]); };
    ask(options_.rounding);
    std::vector<std::size_t> rest;
    for (std::size_t i = 0; i < cells; ++i) {
      take(answers, i, first + i, ranges);
      if (!is_known(i)) rest.push_back(i);
    }
    if (options_.rounding && !rest.empty()) {
      // Where float32 may overflow, what is known of the exact function alone.
      ask(false);
      for (const std::size_t i : rest) take(answers, i, first + i, ranges);
    }
    for (std::size_t i = first; i < first + cells; ++i)
      if (!(ranges.upper[i] - ranges.lower[i] < widest_affine)) narrow(boxes, i, ranges);
  }

  /// To the range by plain interval arithmetic.
  void narrow(const Boxes& boxes, std::size_t box, Ranges& ranges) const {
    const Interval value = value_over(boxes, box);
    ranges.lower[box] = std::max(ranges.lower[box], value.lower());
    ranges.upper[box] = std::min(ranges.upper[box], value.upper());
    ranges.sign[box] = sign_of(ranges.lower[box], ranges.upper[box]);
  }

  Interval value_over(const Boxes& boxes, std::size_t box) const {
    std::call_once(once_, [&] {
      scalar_ = implicit::scalar_graph(graph_, target_, options_.iso);
      constants_ = scalar::constants_of<Interval>(scalar_);
    });
    const std::size_t d = network_.dimension();
    std::vector<Tensor<Interval>> values = constants_;
    Tensor<Interval>& point = values[scalar_.inputs.at(0)];
    point.shape = {1, static_cast<std::int64_t>(d)};
    for (std::size_t j = 0; j < d; ++j) point.values.emplace_back(boxes.lower[box * d + j], boxes.upper[box * d + j]);
    return scalar::evaluate_once(scalar_, std::move(values)).back().values.at(0);
  }

  /// The answers of cell i for box `box`.
  void take(const region::CellAnswers& answers, std::size_t i, std::size_t box, Ranges& ranges) const {
    ranges.lower[box] = answers.lower[i];
    ranges.upper[box] = answers.upper[i];
    ranges.sign[box] = sign_of(answers.lower[i], answers.upper[i]);
    if (options_.rounding) ranges.rounding[box] = answers.rounding[i];
    for (std::size_t j = 0; j < ranges.dimension; ++j) {
      ranges.gradient_lower[box * ranges.dimension + j] = answers.gradient_lower[j * region::cell_lanes + i];
      ranges.gradient_upper[box * ranges.dimension + j] = answers.gradient_upper[j * region::cell_lanes + i];
    }
  }

  void enclose(const Rays& rays, std::size_t first, region::CellBlock& block, region::PieceAnswers& answers,
               RayRanges& ranges) const {
    const std::size_t d = network_.dimension(), count = std::min(region::cell_lanes, rays.size() - first);
    network_.enclose_pieces(
        {std::span(rays.origin).subspan(first * d, count * d), std::span(rays.direction).subspan(first * d, count * d),
         std::span(rays.first).subspan(first, count), std::span(rays.last).subspan(first, count)},
        block, answers);
    const auto take = [&](const double* from, std::vector<double>& to) {
      std::copy_n(from, count, to.begin() + static_cast<std::ptrdiff_t>(first));
    };
    take(answers.at, ranges.at);
    take(answers.middle, ranges.middle);
    take(answers.tangent, ranges.tangent);
    take(answers.rest, ranges.rest);
  }

  Graph graph_;
  Target target_;
  RegionOptions options_;
  region::CellNetwork network_;
  mutable std::once_flag once_;
  mutable Graph scalar_;  ///< once a box needs it, with its constants
  mutable std::vector<Tensor<Interval>> constants_;
  mutable implicit::Spares<region::CellBlock> spares_;
};

RegionEvaluator::RegionEvaluator(Graph graph, const RegionOptions& options)
    : state_(std::make_shared<const State>(std::move(graph), nullptr, options)) {}
RegionEvaluator::RegionEvaluator(Graph graph, const Target& target, const RegionOptions& options)
    : state_(std::make_shared<const State>(std::move(graph), &target, options)) {}

std::size_t RegionEvaluator::dimension() const {
  return state_->network().dimension();
}
const Graph& RegionEvaluator::graph() const {
  return state_->graph();
}
const Target& RegionEvaluator::target() const {
  return state_->target();
}
const RegionOptions& RegionEvaluator::options() const {
  return state_->options();
}
bool RegionEvaluator::has_float32_constants() const {
  return state_->network().is_float32();
}

std::string RegionEvaluator::fingerprint() const {
  return state_->network().fingerprint();
}

Range RegionEvaluator::range(const Box& box) const {
  Boxes boxes;
  boxes.dimension = dimension();
  boxes.lower = box.lower;
  boxes.upper = box.upper;
  if (boxes.lower.size() != boxes.dimension)
    throw InvalidArgument("regions: a point of the network has " + std::to_string(boxes.dimension) +
                          " coordinates, the box " + std::to_string(box.lower.size()));
  return ranges(boxes).at(0);
}

Ranges RegionEvaluator::ranges(const Boxes& boxes) const {
  return state_->ranges(boxes);
}

RayRanges RegionEvaluator::ranges_along(const Rays& rays) const {
  return state_->ranges_along(rays);
}

}  // namespace driftbound
