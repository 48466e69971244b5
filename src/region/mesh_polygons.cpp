#include "region/mesh_polygons.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "driftbound/num/errors.hpp"
#include "region/mesh_function.hpp"

namespace driftbound::meshing {
namespace {

using Corners = std::array<std::int32_t, 4>;

/// Positively oriented, negative nodes first; 0 to 4 are negative.
std::size_t sort_corners(Corners& nodes, std::span<const double> values) {
  const auto is_negative = [&](std::int32_t node) { return values[static_cast<std::size_t>(node)] < 0.0; };
  bool is_even = true;
  std::size_t negative = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    if (!is_negative(nodes[i])) continue;
    if (i != negative) {
      std::swap(nodes[i], nodes[negative]);
      is_even = !is_even;
    }
    ++negative;
  }
  // Two of the same sign change places.
  if (!is_even) negative >= 2 ? std::swap(nodes[0], nodes[1]) : std::swap(nodes[2], nodes[3]);
  return negative;
}

/// Collects triangles by the keys of their edges.
class Cutter {
public:
  explicit Cutter(std::span<const double> values) : values_(values) {}

  void cut(const Corners& oriented, std::int32_t cell) {
    Corners nodes = oriented;
    const std::size_t negative = sort_corners(nodes, values_);
    const auto& [a, b, c, d] = nodes;
    if (negative == 1) add(key(a, b), key(a, c), key(a, d), cell);
    if (negative == 2) {
      add(key(a, c), key(a, d), key(b, d), cell);
      add(key(a, c), key(b, d), key(b, c), cell);
    }
    if (negative == 3) add(key(a, d), key(b, d), key(c, d), cell);
  }

  Polygons finish() {
    std::vector<std::uint64_t> unique = corners_;
    std::sort(unique.begin(), unique.end());
    unique.erase(std::unique(unique.begin(), unique.end()), unique.end());
    if (unique.size() > std::size_t{1} << 30) throw InvalidArgument("mesh: more than 2^30 vertices; use larger cells");
    Polygons polygons;
    for (const std::uint64_t edge : unique)
      polygons.edges.push_back({static_cast<std::int32_t>(edge >> 32), static_cast<std::int32_t>(edge & 0xffffffffU)});
    for (std::size_t t = 0; t < cells_.size(); ++t) {
      std::array<std::int32_t, 3> triangle{};
      for (std::size_t i = 0; i < 3; ++i)
        triangle[i] = static_cast<std::int32_t>(std::lower_bound(unique.begin(), unique.end(), corners_[3 * t + i]) -
                                                unique.begin());
      polygons.triangles.push_back(triangle);
    }
    polygons.cell_of = std::move(cells_);
    return polygons;
  }

private:
  static std::uint64_t key(std::int32_t negative, std::int32_t other) {
    return static_cast<std::uint64_t>(negative) << 32 | static_cast<std::uint64_t>(other);
  }

  void add(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::int32_t cell) {
    corners_.insert(corners_.end(), {a, b, c});
    cells_.push_back(cell);
  }

  std::span<const double> values_;
  std::vector<std::uint64_t> corners_;
  std::vector<std::int32_t> cells_;
};

/// A zero of f on an edge lies between two shares, in 2^-bits: f < 0 at `low`, not at `high`.
struct Bracket {
  std::int32_t low = 0, high = 0;
  double at_low = 0.0, at_high = 0.0;
  bool is_open = true;  ///< whether it may shrink further

  std::int32_t width() const { return high - low; }
  /// Where a line through both values is 0, strictly between the ends.
  double secant() const {
    const double share = at_low / (at_low - at_high);
    const double place = low + share * width();
    return std::isfinite(place) ? place : low + 0.5 * width();
  }
};

/// Two evaluations a round: at the secant's zero, and on its other side.
class BracketSearch {
public:
  BracketSearch(const Lattice& lattice, const SurfaceCells& cells, const Polygons& polygons, const SignField& field)
      : lattice_(lattice), cells_(cells), polygons_(polygons), field_(field), whole_(1 << lattice.fraction_bits) {}

  std::vector<Bracket> find() {
    start();
    const std::int32_t fine = std::max(1, whole_ / finest);
    for (int round = 0; round < most_rounds; ++round) {
      proposals_.clear();
      for (std::size_t i = 0; i < brackets_.size(); ++i) propose(i, round, fine);
      if (proposals_.empty()) break;
      evaluate();
    }
    return brackets_;
  }

private:
  struct Proposal {
    std::size_t edge;
    std::int32_t place;
  };
  static constexpr int most_rounds = 14, first_bisection = 6;
  static constexpr std::int32_t finest = 1024;  ///< brackets of this share of an edge are small enough

  void start() {
    for (const CrossedEdge& edge : polygons_.edges) {
      const auto value = [&](std::int32_t node) { return cells_.values[static_cast<std::size_t>(node)]; };
      brackets_.push_back({0, whole_, value(edge.negative), value(edge.other), true});
    }
  }

  void propose(std::size_t i, int round, std::int32_t fine) {
    const Bracket& bracket = brackets_[i];
    if (!bracket.is_open || bracket.width() <= fine) return;
    double place = bracket.secant();
    if (round >= first_bisection) {
      place = bracket.low + 0.5 * bracket.width();
    } else if (round % 2 == 1) {
      // The last point is an end now, and the zero is near it: a step towards the other end, a longer one each time.
      const bool is_low = place - bracket.low < bracket.high - place;
      const double step = 0.5 * fine * (1 << 2 * (round / 2));
      place += is_low ? step : -step;
    }
    const std::int32_t whole = static_cast<std::int32_t>(std::lround(place));
    proposals_.push_back({i, std::clamp(whole, bracket.low + 1, bracket.high - 1)});
  }

  void evaluate() {
    std::vector<double> points(3 * proposals_.size());
    for (std::size_t p = 0; p < proposals_.size(); ++p) {
      const CrossedEdge& edge = polygons_.edges[proposals_[p].edge];
      const Index& from = cells_.nodes[static_cast<std::size_t>(edge.negative)];
      const Index& to = cells_.nodes[static_cast<std::size_t>(edge.other)];
      for (std::size_t c = 0; c < 3; ++c) {
        const double part = static_cast<double>((to[c] - from[c]) * lattice_.step[c] * proposals_[p].place);
        points[3 * p + c] =
            lattice_.coordinate(c, from[c]) + std::ldexp(part, lattice_.unit[c] - lattice_.fraction_bits);
      }
    }
    std::vector<PointSign> signs(proposals_.size());
    field_.signs(points.data(), static_cast<std::int64_t>(signs.size()), 3, 1, signs);
    for (std::size_t p = 0; p < proposals_.size(); ++p) {
      Bracket& bracket = brackets_[proposals_[p].edge];
      if (signs[p].sign == Sign::undecided) {
        bracket.is_open = false;
      } else if (signs[p].sign == Sign::negative) {
        bracket.low = proposals_[p].place;
        bracket.at_low = signs[p].value;
      } else {
        bracket.high = proposals_[p].place;
        bracket.at_high = signs[p].value;
      }
    }
  }

  const Lattice& lattice_;
  const SurfaceCells& cells_;
  const Polygons& polygons_;
  const SignField& field_;
  std::int32_t whole_;
  std::vector<Bracket> brackets_;
  std::vector<Proposal> proposals_;
};

}  // namespace

Polygons polygons_of(const SurfaceCells& cells, std::span<const double> values) {
  Cutter cutter(values);
  for (std::size_t i = 0; i < cells.cells.size(); ++i) {
    const auto& corners = cells.corners[i];
    for (std::size_t t = 0; t < tetrahedra.size(); ++t) {
      Corners nodes{};
      for (std::size_t v = 0; v < 4; ++v) nodes[v] = corners[tetrahedra[t].corners[v]];
      if (t >= 3) std::swap(nodes[2], nodes[3]);
      cutter.cut(nodes, static_cast<std::int32_t>(i));
    }
  }
  return cutter.finish();
}

EdgePoints interpolated(const Polygons& polygons, std::span<const double> values) {
  EdgePoints points;
  for (const CrossedEdge& edge : polygons.edges) {
    const double low = values[static_cast<std::size_t>(edge.negative)];
    const double high = values[static_cast<std::size_t>(edge.other)];
    const double share = low / (low - high);
    points.shares.push_back(std::isfinite(share) ? std::clamp(share, 0x1p-20, 1.0 - 0x1p-20) : 0.5);
    points.radii.push_back(std::numeric_limits<double>::infinity());
  }
  return points;
}

EdgePoints bracketed(const Lattice& lattice, const SurfaceCells& cells, const Polygons& polygons,
                     const SignField& field) {
  const double part = std::ldexp(1.0, -lattice.fraction_bits);
  EdgePoints points;
  for (const Bracket& bracket : BracketSearch(lattice, cells, polygons, field).find()) {
    // A half is added so that the point lies strictly within the edge.
    const double place = std::clamp(std::round(bracket.secant()), bracket.low + 0.5, bracket.high - 0.5);
    points.shares.push_back(place * part);
    points.radii.push_back(std::fmax(place - bracket.low, bracket.high - place) * part);
  }
  return points;
}

std::vector<std::array<double, 3>> points_on_edges(const SurfaceCells& cells, const Polygons& polygons,
                                                   std::span<const double> shares) {
  std::vector<std::array<double, 3>> points;
  for (std::size_t i = 0; i < polygons.edges.size(); ++i) {
    const CrossedEdge& edge = polygons.edges[i];
    std::array<double, 3> point = cells.point(static_cast<std::size_t>(edge.negative));
    const Index& from = cells.nodes[static_cast<std::size_t>(edge.negative)];
    const Index& to = cells.nodes[static_cast<std::size_t>(edge.other)];
    for (std::size_t c = 0; c < 3; ++c) point[c] += static_cast<double>(to[c] - from[c]) * cells.step[c] * shares[i];
    points.push_back(point);
  }
  return points;
}

double length_of(const SurfaceCells& cells, const CrossedEdge& edge) {
  double square = 0.0;
  for (std::size_t c = 0; c < 3; ++c) {
    const auto steps = static_cast<double>(cells.nodes[static_cast<std::size_t>(edge.other)][c] -
                                           cells.nodes[static_cast<std::size_t>(edge.negative)][c]);
    square += steps * cells.step[c] * (steps * cells.step[c]);
  }
  return std::sqrt(square) * (1.0 + 0x1p-48);
}

}  // namespace driftbound::meshing
