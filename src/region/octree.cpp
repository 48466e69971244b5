#include "driftbound/region/octree.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "driftbound/num/directed.hpp"
#include "driftbound/num/environment.hpp"
#include "driftbound/num/errors.hpp"
#include "implicit/float_network.hpp"
#include "implicit/scalar_graph.hpp"
#include "implicit/sign_of.hpp"
#include "num/parallel.hpp"
#include "region/narrowing.hpp"
#include "region/octree_state.hpp"

namespace driftbound {
namespace {

constexpr double endless = std::numeric_limits<double>::infinity();
/// Cells that are divided between two looks at how far the tree is.
constexpr std::size_t cells_at_once = 1 << 14;

float float_up(double x) {
  const auto nearest = static_cast<float>(x);
  return static_cast<double>(nearest) >= x ? nearest : std::nextafter(nearest, std::numeric_limits<float>::infinity());
}

/// Upper bound of the 2-norm of the gradient.
float steepness_of(const Ranges& ranges, std::size_t i) {
  double squares = 0.0;
  for (std::size_t j = i * ranges.dimension; j < (i + 1) * ranges.dimension; ++j) {
    const double largest = std::max(std::fabs(ranges.gradient_lower[j]), std::fabs(ranges.gradient_upper[j]));
    squares = add_up(squares, mul_up(largest, largest));
  }
  return float_up(sqrt_up(squares));
}

void check(const OctreeOptions& options) {
  if (options.depth < 0 || options.depth > 20)
    throw InvalidArgument("octree: the depth " + std::to_string(options.depth) + " is not between 0 and 20");
  if (!(options.certain_share >= 0.0 && options.certain_share <= 1.0))
    throw InvalidArgument("octree: the share of the volume is not between 0 and 1");
  if (options.most_cells < 1 || options.most_cells > (std::int64_t{1} << 29))
    throw InvalidArgument("octree: the largest number of cells is not between 1 and 2^29");
}

Box domain_of(const OctreeOptions& options, std::size_t dimension) {
  if (dimension > 4)
    throw InvalidArgument("octree: a point of the network has " + std::to_string(dimension) +
                          " coordinates; 4 at most");
  if (!options.domain) return {std::vector<double>(dimension, -1.0), std::vector<double>(dimension, 1.0)};
  if (options.domain->lower.size() != dimension || options.domain->upper.size() != dimension)
    throw InvalidArgument("octree: the domain has another number of coordinates than a point of the network, " +
                          std::to_string(dimension));
  constexpr double most = std::numeric_limits<float>::max();
  for (std::size_t j = 0; j < dimension; ++j) {
    if (!(options.domain->lower[j] < options.domain->upper[j]))
      throw InvalidArgument("octree: coordinate " + std::to_string(j) +
                            " of the domain needs two different numbers, the lower one first");
    if (options.domain->lower[j] < -most || options.domain->upper[j] > most)
      throw InvalidArgument("octree: coordinate " + std::to_string(j) +
                            " of the domain goes beyond the largest float32 number, 3.4e38; use a smaller box");
  }
  return *options.domain;
}

}  // namespace

RegionEvaluator Octree::State::evaluator_of(const Graph& graph, const Target* target, const OctreeOptions& options) {
  check(options);
  RegionOptions asked;
  asked.iso = options.iso;
  asked.symbols = -1;
  asked.refined_radii = 0;
  asked.threads = options.threads;
  return target != nullptr ? RegionEvaluator(graph, *target, asked) : RegionEvaluator(graph, asked);
}

Octree::State::State(RegionEvaluator of, region::OctreeContent content)
    : OctreeContent(std::move(content)), evaluator(std::move(of)) {}

void Octree::State::add_children(const double* lower, const double* upper, Boxes& boxes) const {
  const std::size_t d = dimension();
  for (std::uint32_t child = 0; child < children(); ++child)
    for (std::size_t j = 0; j < d; ++j) {
      const double middle = region::middle_of(lower[j], upper[j]);
      boxes.lower.push_back((child >> j & 1U) != 0 ? middle : lower[j]);
      boxes.upper.push_back((child >> j & 1U) != 0 ? upper[j] : middle);
    }
}

OctreeCell Octree::State::cell(std::uint32_t cell, int depth, const double* lower, const double* upper) const {
  OctreeCell result{{{lower, lower + dimension()}, {upper, upper + dimension()}}, cells.sign(cell), depth};
  const auto margin = static_cast<double>(cells.margin[cell]);
  (cells.is_certain(cell) ? result.least : result.rounding) = margin;
  return result;
}

region::Descent Octree::State::leaf_at(const double* point) const {
  region::Descent descent(cells, domain);
  while (descent.is_divided()) descent.step(point);
  return descent;
}

RegionSign Octree::State::sign_over(const region::Descent& cell, const Box& box) const {
  if (!cell.is_divided()) return cells.sign(cell.cell);
  std::optional<RegionSign> all;
  for (std::uint32_t part = 0; part < children(); ++part) {
    double corner[region::Descent::most] = {};
    bool is_needed = true;
    for (std::size_t j = 0; j < dimension(); ++j) {
      const double middle = region::middle_of(cell.lower[j], cell.upper[j]);
      const bool is_upper = (part >> j & 1U) != 0;
      corner[j] = is_upper ? box.upper[j] : box.lower[j];
      is_needed = is_needed && (is_upper ? box.upper[j] > middle : box.lower[j] < middle || box.upper[j] <= middle);
    }
    if (!is_needed) continue;
    region::Descent child = cell;
    child.step(corner);
    const RegionSign sign = sign_over(child, box);
    if (sign == RegionSign::unknown || sign != all.value_or(sign)) return RegionSign::unknown;
    all = sign;
  }
  return *all;
}

OctreeCounts Octree::State::counts() const {
  OctreeCounts counts;
  counts.cells = static_cast<std::int64_t>(cells.node.size());
  for (std::uint32_t cell = 0; cell < cells.size(); ++cell) {
    if (cells.first_child(cell) != 0) continue;
    counts.negative += cells.sign(cell) == RegionSign::all_negative ? 1 : 0;
    counts.positive += cells.sign(cell) == RegionSign::all_positive ? 1 : 0;
    counts.unknown += cells.sign(cell) == RegionSign::unknown ? 1 : 0;
  }
  counts.depth = static_cast<int>(first_of_depth.size()) - 1;
  counts.certain_share = certain_share();
  return counts;
}

double Octree::State::certain_share() const {
  double share = 0.0;
  for (std::size_t depth = 0; depth < unknown.size(); ++depth)
    share += std::ldexp(static_cast<double>(unknown[depth]), -static_cast<int>(depth * dimension()));
  return 1.0 - share;
}

double Octree::State::steepest() const {
  std::call_once(steepest_once_, [&] {
    std::vector<float> bounds = cells.steepness;
    for (std::uint32_t cell = cells.size(); cell-- > 0;) {
      const std::uint32_t first = cells.first_child(cell);
      if (first == 0) continue;
      bounds[cell] = std::min(bounds[cell], *std::max_element(&bounds[first], &bounds[first] + children()));
    }
    steepest_ = static_cast<double>(bounds.front());
  });
  return steepest_;
}

const implicit::FloatNetwork* Octree::State::float_network() const {
  std::call_once(once_, [&] {
    const Graph scalar = implicit::scalar_graph(evaluator.graph(), evaluator.target(), 0.0);
    float_network_ = implicit::FloatNetwork::of(scalar, domain);
  });
  return float_network_.get();
}

const RegionEvaluator& Octree::State::exact_evaluator() const {
  std::call_once(exact_once_, [&] {
    RegionOptions options = evaluator.options();
    options.rounding = false;
    options.threads = 1;
    exact_evaluator_.emplace(evaluator.graph(), evaluator.target(), options);
  });
  return *exact_evaluator_;
}

bool Octree::State::is_complete(const OctreeOptions& options) const {
  if (cells.node.empty()) return false;
  if (certain_share() >= options.certain_share && options.certain_share < 1.0) return true;
  const auto depth = static_cast<std::size_t>(options.depth);
  return next >= cells.node.size() || (depth < first_of_depth.size() && next >= first_of_depth[depth]);
}

void Octree::State::refine(const OctreeOptions& options) {
  const std::size_t d = dimension();
  Boxes root;
  root.dimension = d;
  root.add(domain.lower, domain.upper);
  region::Narrowing narrowing(evaluator, root);
  const auto enclose = [&](const Boxes& boxes, std::size_t depth) {
    const Ranges ranges = evaluator.ranges(boxes);
    narrowing.take(ranges);
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      cells.node.push_back(static_cast<std::uint32_t>(static_cast<int>(ranges.sign[i]) + 1));
      cells.steepness.push_back(steepness_of(ranges, i));
      const bool is_unknown = ranges.sign[i] == RegionSign::unknown;
      cells.margin.push_back(is_unknown ? float_up(ranges.rounding[i])
                                        : -float_up(-std::max(ranges.lower[i], -ranges.upper[i])));
      unknown[depth] += is_unknown ? 1 : 0;
    }
  };
  if (cells.node.empty()) {
    unknown = {0};
    first_of_depth = {0};
    enclose(root, 0);
  }

  // Boxes of the cells from `next` on, those of one depth after the other.
  std::vector<Boxes> fronts(first_of_depth.size());
  for (Boxes& front : fronts) front.dimension = d;
  each([&](std::uint32_t cell, int depth, const double* lower, const double* upper) {
    if (cell >= next) fronts[static_cast<std::size_t>(depth)].add({lower, d}, {upper, d});
  });
  std::size_t depth = 0, at = 0;  // `at`: of the front of this depth
  while (depth < fronts.size() && fronts[depth].size() == 0) ++depth;
  bool is_full = false;
  const auto may_go_on = [&] {
    const double share = certain_share();
    return !is_full && !(options.certain_share < 1.0 && share >= options.certain_share) &&
           (!options.progress || options.progress(static_cast<std::int64_t>(cells.size()), share));
  };
  while (depth < fronts.size() && depth < static_cast<std::size_t>(options.depth) && may_go_on()) {
    if (fronts.size() == depth + 1) {
      fronts.emplace_back().dimension = d;
      unknown.push_back(0);
      first_of_depth.push_back(static_cast<std::uint32_t>(cells.node.size()));
    }
    Boxes divided;
    divided.dimension = d;
    std::uint32_t first = static_cast<std::uint32_t>(cells.node.size());
    std::size_t count = 0;
    const std::size_t size = fronts[depth].size();
    for (; at < size && count < cells_at_once; ++at, ++next) {
      if (cells.sign(next) != RegionSign::unknown) continue;
      is_full = static_cast<std::int64_t>(first + children()) > options.most_cells;
      if (is_full) break;
      cells.node[next] += first << 2U;
      first += children();
      add_children(fronts[depth].lower.data() + at * d, fronts[depth].upper.data() + at * d, divided);
      --unknown[depth];
      ++count;
    }
    if (count > 0) enclose(divided, depth + 1);
    fronts[depth + 1].lower.insert(fronts[depth + 1].lower.end(), divided.lower.begin(), divided.lower.end());
    fronts[depth + 1].upper.insert(fronts[depth + 1].upper.end(), divided.upper.begin(), divided.upper.end());
    if (at == size) {
      fronts[depth] = {};
      at = 0;
      ++depth;
      if (depth < static_cast<std::size_t>(options.depth))
        narrowing.check(std::ldexp(1.0, static_cast<int>(depth * d)), "octree",
                        ", or a depth of " + std::to_string(depth));
      if (fronts[depth].size() == 0) {
        fronts.resize(depth);
        unknown.resize(depth);
        first_of_depth.resize(depth);
      }
    }
  }
}

Octree Octree::build(const Graph& graph, const OctreeOptions& options) {
  RegionEvaluator evaluator = State::evaluator_of(graph, nullptr, options);
  Box domain = domain_of(options, evaluator.dimension());
  auto state = std::make_shared<State>(std::move(evaluator), region::OctreeContent{std::move(domain), {}, 0, {}, {}});
  state->refine(options);
  return Octree(std::move(state));
}

Octree Octree::build(const Graph& graph, const Target& target, const OctreeOptions& options) {
  RegionEvaluator evaluator = State::evaluator_of(graph, &target, options);
  Box domain = domain_of(options, evaluator.dimension());
  auto state = std::make_shared<State>(std::move(evaluator), region::OctreeContent{std::move(domain), {}, 0, {}, {}});
  state->refine(options);
  return Octree(std::move(state));
}

Octree Octree::refined(const OctreeOptions& options) const {
  OctreeOptions own = options;
  own.iso = iso();
  auto state = std::make_shared<State>(State::evaluator_of(state_->evaluator.graph(), &state_->evaluator.target(), own),
                                       *state_);
  state->refine(own);
  return Octree(std::move(state));
}

std::size_t Octree::dimension() const {
  return state_->dimension();
}
const Box& Octree::domain() const {
  return state_->domain;
}
double Octree::iso() const {
  return state_->evaluator.options().iso;
}
OctreeCounts Octree::counts() const {
  return state_->counts();
}
bool Octree::is_complete(const OctreeOptions& options) const {
  check(options);
  return state_->is_complete(options);
}

void Octree::each_cell(const std::function<void(const OctreeCell&)>& visit) const {
  state_->each([&](std::uint32_t cell, int depth, const double* lower, const double* upper) {
    if (state_->cells.first_child(cell) != 0) return;
    visit(state_->cell(cell, depth, lower, upper));
  });
}

std::optional<OctreeCell> Octree::cell_at(std::span<const double> point) const {
  const std::size_t d = dimension();
  if (point.size() != d)
    throw InvalidArgument("octree: the point has " + std::to_string(point.size()) + " coordinates, the tree " +
                          std::to_string(d));
  region::Descent descent(state_->cells, state_->domain);
  if (!descent.holds(point.data())) return std::nullopt;
  while (descent.is_divided()) descent.step(point.data());
  return state_->cell(descent.cell, descent.depth, descent.lower, descent.upper);
}

RegionSign Octree::sign_over(const Box& box) const {
  const std::size_t d = dimension();
  bool is_box = box.lower.size() == d && box.upper.size() == d;
  for (std::size_t j = 0; is_box && j < d; ++j) is_box = box.lower[j] <= box.upper[j];
  if (!is_box)
    throw InvalidArgument("octree: sign_over() is for boxes of " + std::to_string(d) +
                          " coordinates, each with the lower bound first");
  const region::Descent root(state_->cells, state_->domain);
  if (!root.holds(box.lower.data()) || !root.holds(box.upper.data())) return RegionSign::unknown;
  return state_->sign_over(root, box);
}

double Octree::safe_step(std::span<const double> point, double magnitude) const {
  require_sound_environment();
  const std::size_t d = dimension();
  region::Descent descent(state_->cells, state_->domain);
  if (point.size() != d || !descent.holds(point.data()))
    throw InvalidArgument("octree: safe_step() is for points of the tree's domain, which has " + std::to_string(d) +
                          " coordinates");
  const region::Descent leaf = state_->leaf_at(point.data());
  const double own = state_->cells.is_certain(leaf.cell) ? static_cast<double>(state_->cells.margin[leaf.cell]) : 0.0;
  const double size = std::max(magnitude, own);
  double step = 0.0;
  while (true) {
    // To the faces within the domain: what lies beyond the others does not count.
    double border = endless;
    for (std::size_t j = 0; j < d; ++j) {
      if (descent.lower[j] > state_->domain.lower[j]) border = std::min(border, sub_down(point[j], descent.lower[j]));
      if (descent.upper[j] < state_->domain.upper[j]) border = std::min(border, sub_down(descent.upper[j], point[j]));
    }
    const auto steepness = static_cast<double>(state_->cells.steepness[descent.cell]);
    double free = 0.0;
    if (state_->cells.is_certain(descent.cell))
      free = endless;
    else if (size > 0.0)
      free = steepness > 0.0 ? div_down(size, steepness) : endless;
    step = std::max(step, std::min(free, border));
    if (!descent.is_divided()) return std::max(step, 0.0);
    descent.step(point.data());
  }
}

namespace {

/// A lower bound of |f| as far as the sign of a point says one.
double least_magnitude(const PointSign& sign) {
  if (sign.sign != Sign::negative && sign.sign != Sign::positive) return 0.0;
  return std::isfinite(sign.bound) ? std::max(sub_down(std::fabs(sign.value), sign.bound), 0.0) : 0.0;
}

void require_same(const RegionEvaluator& evaluator, const SignField& field) {
  const auto is_same = [](const OutputElement& a, const OutputElement& b) {
    return a.output == b.output && a.element == b.element;
  };
  const Target &a = evaluator.target(), &b = field.target();
  const bool same_target = is_same(a.positive, b.positive) && a.negative.has_value() == b.negative.has_value() &&
                           (!a.negative || is_same(*a.negative, *b.negative));
  if (!same_target || field.options().iso != evaluator.options().iso)
    throw InvalidArgument("octree: the field has another target or iso value than the tree");
}

}  // namespace

double Octree::safe_step(const SignField& field, std::span<const double> point) const {
  require_same(state_->evaluator, field);
  return safe_step(point, least_magnitude(field.at(point)));
}

namespace {

/// Signs of some points of a call.
class PointBatch {
public:
  PointBatch(const region::OctreeCells& cells, const Box& domain, const SignField& field,
             const implicit::FloatNetwork* network)
      : cells_(cells), domain_(domain), field_(field), network_(network), d_(domain.lower.size()) {}

  SignStatistics decide(const double* points, std::int64_t first, std::int64_t last, std::ptrdiff_t row_stride,
                        std::ptrdiff_t column_stride, std::span<PointSign> out) {
    SignStatistics counts;
    auto& given = counts.stages[static_cast<std::size_t>(SignStage::given)];
    double point[region::Descent::most] = {};
    for (std::int64_t row = first; row < last; ++row) {
      for (std::size_t j = 0; j < d_; ++j)
        point[j] = points[row * row_stride + static_cast<std::ptrdiff_t>(j) * column_stride];
      region::Descent descent(cells_, domain_);
      if (!descent.holds(point)) {
        ask_field(row, point);
        continue;
      }
      while (descent.is_divided()) descent.step(point);
      const RegionSign sign = cells_.sign(descent.cell);
      if (sign == RegionSign::unknown) {
        ask_float(row, point, cells_.margin[descent.cell]);
        continue;
      }
      PointSign& result = out[static_cast<std::size_t>(row)];
      const auto least = static_cast<double>(cells_.margin[descent.cell]);
      result = {Sign::positive, SignStage::given, 0, least, endless};
      if (sign == RegionSign::all_negative) result = {Sign::negative, SignStage::given, 0, -least, endless};
      (sign == RegionSign::all_negative ? counts.negative : counts.positive) += 1;
      ++given.decided;
    }
    decide_in_float(out, counts);
    counts.points = last - first - static_cast<std::int64_t>(rows.size());
    return counts;
  }

  /// What is left for the field: rows, and their points.
  std::vector<std::int64_t> rows;
  std::vector<double> left;

private:
  void ask_field(std::int64_t row, const double* point) {
    rows.push_back(row);
    left.insert(left.end(), point, point + d_);
  }
  /// The cell's bound is of float32 points.
  void ask_float(std::int64_t row, const double* point, float bound) {
    bool may = network_ != nullptr && std::isfinite(bound);
    for (std::size_t j = 0; j < d_; ++j) may = may && static_cast<double>(static_cast<float>(point[j])) == point[j];
    if (!may) return ask_field(row, point);
    float_rows_.push_back(row);
    float_points_.insert(float_points_.end(), point, point + d_);
    bounds_.push_back(static_cast<double>(bound));
  }
  void decide_in_float(std::span<PointSign> out, SignStatistics& counts) {
    if (float_rows_.empty()) return;
    const double iso = field_.options().iso, of_difference = iso == 0.0 ? 0.0 : 0x1p-52;
    auto workspace = network_->workspace();
    float values[implicit::block_rows];
    for (std::size_t first = 0; first < float_rows_.size(); first += implicit::block_rows) {
      const std::size_t count = std::min(implicit::block_rows, float_rows_.size() - first);
      network_->evaluate(std::span(float_points_).subspan(first * d_, count * d_), *workspace, {values, count});
      for (std::size_t i = 0; i < count; ++i) {
        const double value = static_cast<double>(values[i]) - iso;
        const double bound = add_up(bounds_[first + i], mul_up(of_difference, std::fabs(value)));
        const PointSign sign = implicit::sign_of(value, bound, SignStage::given, 24);
        if (sign.sign == Sign::undecided) {
          ask_field(float_rows_[first + i], float_points_.data() + (first + i) * d_);
          continue;
        }
        out[static_cast<std::size_t>(float_rows_[first + i])] = sign;
        (sign.sign == Sign::negative ? counts.negative : sign.sign == Sign::zero ? counts.zero : counts.positive) += 1;
        ++counts.stages[static_cast<std::size_t>(SignStage::given)].decided;
      }
    }
    network_->give_back(std::move(workspace));
  }

  const region::OctreeCells& cells_;
  const Box& domain_;
  const SignField& field_;
  const implicit::FloatNetwork* network_;
  std::size_t d_;
  std::vector<std::int64_t> float_rows_;
  std::vector<double> float_points_, bounds_;
};

}  // namespace

SignStatistics Octree::signs(const SignField& field, const double* points, std::int64_t rows, std::ptrdiff_t row_stride,
                             std::ptrdiff_t column_stride, std::span<PointSign> out) const {
  require_sound_environment();
  require_same(state_->evaluator, field);
  if (rows < 0 || out.size() != static_cast<std::size_t>(rows))
    throw InvalidArgument("octree: " + std::to_string(rows) + " points, but room for " + std::to_string(out.size()) +
                          " signs");
  constexpr std::int64_t rows_at_once = 1 << 14;
  const std::int64_t parts = (rows + rows_at_once - 1) / rows_at_once;
  std::vector<SignStatistics> counts(static_cast<std::size_t>(parts));
  std::vector<PointBatch> batches(static_cast<std::size_t>(parts),
                                  PointBatch(state_->cells, state_->domain, field, state_->float_network()));
  parallel_for(parts, field.options().threads, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t part = first; part < last; ++part)
      counts[static_cast<std::size_t>(part)] = batches[static_cast<std::size_t>(part)].decide(
          points, part * rows_at_once, std::min(rows, (part + 1) * rows_at_once), row_stride, column_stride, out);
  });
  SignStatistics all;
  for (const SignStatistics& part : counts) all += part;
  std::vector<std::int64_t> left_rows;
  std::vector<double> left;
  for (const PointBatch& batch : batches) {
    left_rows.insert(left_rows.end(), batch.rows.begin(), batch.rows.end());
    left.insert(left.end(), batch.left.begin(), batch.left.end());
  }
  std::vector<PointSign> signs(left_rows.size());
  all += field.signs(left.data(), static_cast<std::int64_t>(signs.size()), static_cast<std::ptrdiff_t>(dimension()), 1,
                     signs);
  for (std::size_t i = 0; i < signs.size(); ++i) out[static_cast<std::size_t>(left_rows[i])] = signs[i];
  return all;
}

}  // namespace driftbound
