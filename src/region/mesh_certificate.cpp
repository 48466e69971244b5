#include "region/mesh_certificate.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "driftbound/num/directed.hpp"
#include "num/parallel.hpp"

namespace driftbound::meshing {
namespace {

using Vector = std::array<double, 3>;

constexpr double no_bound = -std::numeric_limits<double>::infinity();
/// Sums of three products of numbers that are within 2^-51 of themselves.
constexpr double relative_margin = 0x1p-48, absolute_margin = 0x1p-1000;

double below(double sum, double size) {
  const double lower = sum - (relative_margin * size + absolute_margin);
  return std::isfinite(size) && lower > no_bound ? lower : no_bound;
}

double length(const Vector& v) {
  return std::sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
}

/// Scaled so that its length is at most 1, whatever rounds; zero stays.
bool shorten(Vector& v) {
  double largest = 0.0;
  for (const double x : v) largest = std::fmax(largest, std::fabs(x));
  if (!(largest > 0.0) || !std::isfinite(largest)) return false;
  const int scale = -std::ilogb(largest);
  for (double& x : v) x = std::scalbn(x, scale);
  const double factor = 1.0 / (length(v) * (1.0 + 0x1p-48));
  for (double& x : v) x *= factor;
  return true;
}

/// Where along `direction` the box is smallest.
Vector smallest_corner(const GradientBox& box, const Vector& direction) {
  Vector corner{};
  for (std::size_t c = 0; c < 3; ++c) corner[c] = direction[c] > 0.0 ? box.lower[c] : box.upper[c];
  return corner;
}

/// Sets out from one direction and adds what stands against it, as a perceptron learns.
class AscentSearch {
public:
  AscentSearch(const GradientBox& box, const FunctionGradients& function, const std::array<bool, 3>& fixed)
      : box_(box), function_(function), fixed_(fixed) {}

  std::optional<Ascent> from(Vector direction) const {
    constexpr int steps = 24;
    for (int step = 0; step < steps; ++step) {
      for (std::size_t c = 0; c < 3; ++c)
        if (fixed_[c]) direction[c] = 0.0;
      if (!shorten(direction)) return std::nullopt;
      Vector worst = smallest_corner(box_, direction);
      const double rate = smallest_product(box_, direction);
      double share = rate / length(worst);
      bool do_grow = rate > 0.0;
      for (const Vector& gradient : function_.gradients) {
        if (function_.may_vanish && gradient == Vector{}) continue;
        const double here = smallest_product(gradient, direction);
        do_grow = do_grow && here > 0.0;
        if (const double of_length = here / length(gradient); !(of_length >= share)) {
          share = of_length;
          worst = gradient;
        }
      }
      if (do_grow) return Ascent{direction, rate};
      for (std::size_t c = 0; c < 3; ++c)
        if (fixed_[c]) worst[c] = 0.0;
      if (!shorten(worst)) return std::nullopt;
      for (std::size_t c = 0; c < 3; ++c) direction[c] += worst[c];
    }
    return std::nullopt;
  }

private:
  const GradientBox& box_;
  const FunctionGradients& function_;
  const std::array<bool, 3>& fixed_;
};

/// Sides of the box that a part touches.
std::array<bool, 3> sides_touched(const SurfaceCells& cells, const Part& part) {
  const Index& cell = cells.cells[static_cast<std::size_t>(part.cell)];
  std::array<bool, 3> touched{};
  for (std::size_t c = 0; c < 3; ++c)
    touched[c] =
        (cell[c] == 0 && part.place[c] == 0) || (cell[c] == cells.extents[c] - 1 && part.place[c] == part.last());
  return touched;
}

/// A box with the part in its interior: gradients in it, where they exist, have ∂f at every point of the part as limits.
void add_box(const Lattice& lattice, const SurfaceCells& cells, const Part& part, Boxes& boxes) {
  const Index& cell = cells.cells[static_cast<std::size_t>(part.cell)];
  Vector lower{}, upper{};
  for (std::size_t c = 0; c < 3; ++c) {
    const double side = std::ldexp(lattice.cell_side(c), -part.level);
    const double corner = lattice.coordinate(c, cell[c]);
    lower[c] = next_down(next_down(corner + (part.place[c] - 0x1p-20) * side));
    upper[c] = next_up(next_up(corner + (part.place[c] + 1 + 0x1p-20) * side));
  }
  boxes.add(lower, upper);
}

void cut_part(const Part& part, std::vector<Part>& parts) {
  for (int corner = 0; corner < 8; ++corner) {
    Part half = {part.cell, part.level + 1, {}, part.rate};
    for (std::size_t c = 0; c < 3; ++c)
      half.place[c] = static_cast<std::int16_t>(2 * part.place[c] + (corner >> c & 1));
    parts.push_back(half);
  }
}

GradientBox gradient_of(const Ranges& ranges, std::size_t i) {
  GradientBox box;
  for (std::size_t c = 0; c < 3; ++c) {
    box.lower[c] = ranges.gradient_lower[3 * i + c];
    box.upper[c] = ranges.gradient_upper[3 * i + c];
  }
  return box;
}

constexpr std::size_t parts_at_once = 16384;

}  // namespace

double smallest_product(const GradientBox& gradients, const Vector& direction) {
  double sum = 0.0, size = 0.0;
  for (std::size_t c = 0; c < 3; ++c) {
    if (direction[c] == 0.0) continue;
    const double product = (direction[c] > 0.0 ? gradients.lower[c] : gradients.upper[c]) * direction[c];
    sum += product;
    size += std::fabs(product);
  }
  return below(sum, size);
}

double smallest_product(const Vector& gradient, const Vector& direction) {
  return smallest_product(GradientBox{gradient, gradient}, direction);
}

std::optional<Ascent> common_ascent(const GradientBox& box, const FunctionGradients& function,
                                    const std::array<bool, 3>& fixed) {
  const AscentSearch search(box, function, fixed);
  Vector middle{}, mean{};
  for (std::size_t c = 0; c < 3; ++c) middle[c] = box.lower[c] / 2 + box.upper[c] / 2;
  for (const Vector& gradient : function.gradients)
    for (std::size_t c = 0; c < 3; ++c) mean[c] += gradient[c];
  const auto by_middle = search.from(middle), by_mean = search.from(mean);
  if (by_middle && by_mean) return by_middle->rate > by_mean->rate ? by_middle : by_mean;
  if (by_middle || by_mean) return by_middle ? by_middle : by_mean;
  // A coordinate in which the gradient has one sign.
  for (std::size_t c = 0; c < 3; ++c) {
    Vector axis{};
    axis[c] = box.lower[c] > 0.0 ? 1.0 : box.upper[c] < 0.0 ? -1.0 : 0.0;
    if (axis[c] == 0.0) continue;
    if (const auto found = search.from(axis)) return found;
  }
  return std::nullopt;
}

double deviation_over(const GradientBox& gradients, const Vector& sides, double at_corners) {
  double sum = at_corners;
  for (std::size_t c = 0; c < 3; ++c) sum += (gradients.upper[c] - gradients.lower[c]) / 4 * sides[c];
  const double upper = sum * (1.0 + 0x1p-48) + absolute_margin;
  return std::isfinite(upper) ? upper : std::numeric_limits<double>::infinity();
}

std::optional<Ascent> common_ascent(const Basis& basis, const GradientBox& box, const FunctionGradients& function,
                                    const std::array<bool, 3>& touched) {
  std::vector<Vector> turned;
  for (const Vector& gradient : function.gradients) {
    Vector products{};
    for (std::size_t j = 0; j < 3; ++j)
      for (std::size_t c = 0; c < 3; ++c) products[j] += gradient[c] * basis.vectors[j][c];
    turned.push_back(products);
  }
  std::array<bool, 3> fixed{};
  for (std::size_t j = 0; j < 3; ++j)
    for (std::size_t c = 0; c < 3; ++c) fixed[j] = fixed[j] || (touched[c] && basis.vectors[j][c] != 0);
  const auto found = common_ascent(box, {turned, function.may_vanish}, fixed);
  if (!found) return std::nullopt;
  // Weights of few bits, so that the direction has no rounding errors.
  Vector weights{}, direction{};
  for (std::size_t j = 0; j < 3; ++j) {
    weights[j] = std::rint(found->direction[j] * 0x1p10) * 0x1p-10;
    for (std::size_t c = 0; c < 3; ++c) direction[c] += weights[j] * basis.vectors[j][c];
  }
  const double rate = smallest_product(box, weights);
  bool do_grow = rate > 0.0;
  for (const Vector& gradient : function.gradients)
    do_grow = do_grow && ((function.may_vanish && gradient == Vector{}) || smallest_product(gradient, direction) > 0.0);
  if (!do_grow) return std::nullopt;
  return Ascent{direction, rate / (length(direction) * (1.0 + 0x1p-48))};
}

namespace {

/// Looks for directions part by part, and cuts parts without one in halves.
class CellCertifier {
public:
  CellCertifier(const Lattice& lattice, const SurfaceCells& cells, const CellIndex& index,
                const RegionEvaluator& evaluator, const TurnedEvaluators& turned, int threads)
      : lattice_(lattice),
        cells_(cells),
        index_(index),
        evaluator_(evaluator),
        turned_(turned),
        threads_(threads),
        sides_{lattice.cell_side(0), lattice.cell_side(1), lattice.cell_side(2)},
        hulls_(cells.cells.size(), GradientBox{{no_end, no_end, no_end}, {-no_end, -no_end, -no_end}}) {
    const std::size_t count = cells.cells.size();
    certificate_.is_uncertain.assign(count, false);
    certificate_.rate.assign(count, no_end);
  }

  Certificate operator()(int depth, std::span<const double> value_bounds, const Report& report) {
    std::vector<Part> front;
    for (std::size_t i = 0; i < cells_.cells.size(); ++i) front.push_back({static_cast<std::int32_t>(i), 0, {}, 0.0});
    while (!front.empty()) {
      std::vector<Part> next;
      for (std::size_t first = 0; first < front.size(); first += parts_at_once) {
        const std::size_t some = std::min(parts_at_once, front.size() - first);
        certify(std::span(front).subspan(first, some), depth, next);
        report(static_cast<std::int64_t>(first + some), static_cast<std::int64_t>(front.size()));
      }
      std::erase_if(next, [&](const Part& part) { return certificate_.is_uncertain[cell_of(part)]; });
      front = std::move(next);
    }
    measure(value_bounds);
    return std::move(certificate_);
  }

private:
  static constexpr double no_end = std::numeric_limits<double>::infinity();
  /// Parts this small need no more than a direction; larger ones are cut where the zeros of both functions may be farther
  /// apart than so many sides of a cell.
  static constexpr int level_of_distance = 2;
  static constexpr double sides_apart = 1.5;

  static std::size_t cell_of(const Part& part) { return static_cast<std::size_t>(part.cell); }

  void certify(std::span<const Part> parts, int depth, std::vector<Part>& next) {
    Boxes boxes{.dimension = 3, .lower = {}, .upper = {}};
    for (const Part& part : parts) add_box(lattice_, cells_, part, boxes);
    const Ranges ranges = evaluator_.ranges(boxes);
    certificate_.boxes += static_cast<std::int64_t>(parts.size());
    std::vector<double> rates(parts.size(), 0.0);  // 0: not certain, infinity: no surface
    std::vector<std::int8_t> bases(parts.size(), -1);
    parallel_for(static_cast<std::int64_t>(parts.size()), threads_, [&](std::int64_t from, std::int64_t to) {
      std::vector<Vector> gradients;
      for (auto i = static_cast<std::size_t>(from); i < static_cast<std::size_t>(to); ++i) {
        const int sign = static_cast<int>(ranges.sign[i]), of_function = sign_over(cells_, cells_.values, parts[i]);
        if (sign != 0 && sign == of_function) {
          rates[i] = no_end;
          continue;
        }
        gradients_around(cells_, index_, cells_.values, parts[i], gradients);
        const auto ascent =
            common_ascent(gradient_of(ranges, i), {gradients, of_function != 0}, sides_touched(cells_, parts[i]));
        if (ascent) rates[i] = ascent->rate;
        if (ascent || parts[i].level == 0) continue;
        if (const auto basis = basis_for(gradients)) bases[i] = static_cast<std::int8_t>(*basis);
      }
    });
    for (std::size_t basis = 0; basis < turned_bases.size(); ++basis) turn(parts, boxes, basis, bases, rates);
    for (std::size_t i = 0; i < parts.size(); ++i) take(parts[i], gradient_of(ranges, i), rates[i], depth, next);
  }

  /// Tries the parts for which a turned basis was chosen.
  void turn(std::span<const Part> parts, const Boxes& boxes, std::size_t basis, std::span<const std::int8_t> bases,
            std::vector<double>& rates) {
    std::vector<std::size_t> places;
    Boxes some{.dimension = 3, .lower = {}, .upper = {}};
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (bases[i] != static_cast<std::int8_t>(basis)) continue;
      places.push_back(i);
      some.add(std::span(boxes.lower).subspan(3 * i, 3), std::span(boxes.upper).subspan(3 * i, 3));
    }
    if (places.empty()) return;
    const Ranges ranges = turned_.ranges(basis, some);
    certificate_.boxes += static_cast<std::int64_t>(places.size());
    parallel_for(static_cast<std::int64_t>(places.size()), threads_, [&](std::int64_t from, std::int64_t to) {
      std::vector<Vector> gradients;
      for (auto k = static_cast<std::size_t>(from); k < static_cast<std::size_t>(to); ++k) {
        const Part& part = parts[places[k]];
        gradients_around(cells_, index_, cells_.values, part, gradients);
        const FunctionGradients function = {gradients, sign_over(cells_, cells_.values, part) != 0};
        if (const auto ascent =
                common_ascent(turned_bases[basis], gradient_of(ranges, k), function, sides_touched(cells_, part)))
          rates[places[k]] = ascent->rate;
      }
    });
  }

  void take(Part part, const GradientBox& gradient, double rate, int depth, std::vector<Part>& next) {
    part.rate = rate = std::fmax(rate, part.rate);
    const std::size_t cell = cell_of(part);
    const bool may_be_cut = part.level < depth;
    const double shortest = std::min({sides_[0], sides_[1], sides_[2]});
    const bool is_close = sides_apart * shortest * rate > deviation_over(gradient, sides_, 0.0);
    if (rate > 0.0 && (is_close || part.level >= level_of_distance || !may_be_cut)) {
      certificate_.rate[cell] = std::fmin(certificate_.rate[cell], rate);
      for (std::size_t c = 0; c < 3; ++c) {
        hulls_[cell].lower[c] = std::fmin(hulls_[cell].lower[c], gradient.lower[c]);
        hulls_[cell].upper[c] = std::fmax(hulls_[cell].upper[c], gradient.upper[c]);
      }
    } else if (may_be_cut) {
      cut_part(part, next);
    } else {
      certificate_.is_uncertain[cell] = true;
      certificate_.rate[cell] = 0.0;
    }
  }

  void measure(std::span<const double> value_bounds) {
    for (std::size_t i = 0; i < hulls_.size(); ++i) {
      double at_corners = 0.0;
      for (const std::int32_t node : cells_.corners[i])
        at_corners = std::fmax(at_corners, value_bounds[static_cast<std::size_t>(node)]);
      certificate_.deviation.push_back(certificate_.is_uncertain[i] ? no_end
                                                                    : deviation_over(hulls_[i], sides_, at_corners));
    }
  }

  const Lattice& lattice_;
  const SurfaceCells& cells_;
  const CellIndex& index_;
  const RegionEvaluator& evaluator_;
  const TurnedEvaluators& turned_;
  const int threads_;
  const Vector sides_;
  std::vector<GradientBox> hulls_;  ///< of the gradients over the parts of each cell
  Certificate certificate_;
};

}  // namespace

Certificate certify_cells(const Lattice& lattice, const SurfaceCells& cells, const CellIndex& index,
                          std::span<const double> value_bounds, const RegionEvaluator& evaluator,
                          const TurnedEvaluators& turned, int depth, int threads, const Report& report) {
  return CellCertifier(lattice, cells, index, evaluator, turned, threads)(depth, value_bounds, report);
}

}  // namespace driftbound::meshing
