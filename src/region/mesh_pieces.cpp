#include "region/mesh_pieces.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>

#include "driftbound/num/directed.hpp"
#include "driftbound/num/errors.hpp"
#include "driftbound/num/interval.hpp"
#include "num/parallel.hpp"

namespace driftbound::meshing {
namespace {

using region::EnclosedNumber;
using region::EnclosedPoint;
using region::ExactNumber;
using region::ExactPoint;
using region::Integer;
using region::open_sign;
using region::PieceNetwork;

/// A point, and how far it is from where it should be in each coordinate, at most.
struct RoundedPoint {
  std::array<double, 3> at{};
  double radius = 0.0;
};

double norm_of(const std::array<double, 3>& radii) {
  return std::sqrt(radii[0] * radii[0] + radii[1] * radii[1] + radii[2] * radii[2]) * (1.0 + 0x1p-48) + 0x1p-1000;
}

/// What arithmetic by intervals knows of points.
struct ByIntervals {
  using Point = EnclosedPoint;
  using Number = EnclosedNumber;

  static Point corner(const std::array<double, 3>& x) {
    Point point;
    for (std::size_t c = 0; c < 3; ++c) point.at[c] = {x[c], 0.0};
    return point;
  }

  static Interval interval(const Number& x) {
    return x.radius == 0.0 ? Interval(x.middle) : Interval(sub_down(x.middle, x.radius), add_up(x.middle, x.radius));
  }

  /// Where a function that is affine from a to b, and has values of different signs there, is 0.
  static Point zero(const Point& a, const Number& at_a, const Point& b, const Number& at_b) {
    const Interval first = abs(interval(at_a)), last = abs(interval(at_b));
    const Interval share(std::fmax(0.0, div_down(first.lower(), add_up(first.lower(), last.upper()))),
                         std::fmin(1.0, div_up(first.upper(), add_down(first.upper(), last.lower()))));
    Point point;
    for (std::size_t c = 0; c < 3; ++c) {
      if (a.at[c].radius == 0.0 && b.at[c].radius == 0.0 && a.at[c].middle == b.at[c].middle) {
        point.at[c] = a.at[c];
        continue;
      }
      const Interval start = interval(a.at[c]), end = interval(b.at[c]);
      const Interval place = start + share * (end - start);
      const double middle = place.midpoint();
      point.at[c] = {middle, std::fmax(sub_up(place.upper(), middle), sub_up(middle, place.lower()))};
    }
    return point;
  }

  static bool is_known(const Point& point, double radius) {
    return std::all_of(point.at.begin(), point.at.end(), [&](const Number& x) { return x.radius <= radius; });
  }

  static RoundedPoint rounded(const Point& point) {
    RoundedPoint result;
    std::array<double, 3> radii{};
    for (std::size_t c = 0; c < 3; ++c) {
      result.at[c] = point.at[c].middle;
      radii[c] = point.at[c].radius;
    }
    result.radius = norm_of(radii);
    return result;
  }
};

/// What exact numbers know of them.
struct ByFractions {
  using Point = ExactPoint;
  using Number = ExactNumber;

  static Point corner(const std::array<double, 3>& x) {
    Point point;
    long bits = 0;
    for (const double at : x) bits = std::max(bits, -region::DoubleDigits(at).exponent);
    mpz_set_ui(point.denominator.get(), 1);
    mpz_mul_2exp(point.denominator.get(), point.denominator.get(), static_cast<mp_bitcnt_t>(bits));
    for (std::size_t c = 0; c < 3; ++c) {
      const region::DoubleDigits parts(x[c]);
      mpz_set_d(point.digits[c].get(), parts.digits);
      mpz_mul_2exp(point.digits[c].get(), point.digits[c].get(), static_cast<mp_bitcnt_t>(bits + parts.exponent));
    }
    return point;
  }

  /// With |f(a)| = m 2^-i / w and |f(b)| = n 2^-j / v it is (A n 2^-j + B m 2^-i) / (w n 2^-j + v m 2^-i), where A / w
  /// and B / v are the points.
  static Point zero(const Point& a, const Number& at_a, const Point& b, const Number& at_b) {
    Integer of_a = at_b.digits, of_b = at_a.digits;
    mpz_abs(of_a.get(), of_a.get());
    mpz_abs(of_b.get(), of_b.get());
    const long bits = std::max(at_a.bits, at_b.bits);
    mpz_mul_2exp(of_a.get(), of_a.get(), static_cast<mp_bitcnt_t>(bits - at_b.bits));
    mpz_mul_2exp(of_b.get(), of_b.get(), static_cast<mp_bitcnt_t>(bits - at_a.bits));
    Point point;
    const auto mix = [&](const Integer& x, const Integer& y, Integer& out) {
      mpz_mul(out.get(), x.get(), of_a.get());
      mpz_addmul(out.get(), y.get(), of_b.get());
    };
    mix(a.denominator, b.denominator, point.denominator);
    Integer common = point.denominator;
    for (std::size_t c = 0; c < 3; ++c) {
      mix(a.digits[c], b.digits[c], point.digits[c]);
      mpz_gcd(common.get(), common.get(), point.digits[c].get());
    }
    mpz_divexact(point.denominator.get(), point.denominator.get(), common.get());
    for (Integer& digits : point.digits) mpz_divexact(digits.get(), digits.get(), common.get());
    return point;
  }

  static bool is_known(const Point&, double) { return true; }

  static RoundedPoint rounded(const Point& point) {
    RoundedPoint result;
    std::array<double, 3> radii{};
    for (std::size_t c = 0; c < 3; ++c) {
      mpq_t fraction;
      mpq_init(fraction);
      mpz_set(mpq_numref(fraction), point.digits[c].get());
      mpz_set(mpq_denref(fraction), point.denominator.get());
      mpq_canonicalize(fraction);
      result.at[c] = mpq_get_d(fraction);  // towards 0
      mpq_clear(fraction);
      radii[c] = 0x1p-52 * std::fabs(result.at[c]) + 0x1p-1000;
    }
    result.radius = norm_of(radii);
    return result;
  }
};

/// Which sides of its cell a point lies on: bit 2 c for the lower one in coordinate c, 2 c + 1 for the upper one.
using Sides = std::uint8_t;

using Loop = std::vector<std::int32_t>;
/// Its faces, their corners counter-clockwise seen from outside.
using Polyhedron = std::vector<Loop>;

const Polyhedron& cube() {
  static const Polyhedron faces = {{0, 4, 6, 2}, {1, 3, 7, 5}, {0, 1, 5, 4}, {2, 6, 7, 3}, {0, 2, 3, 1}, {4, 5, 7, 6}};
  return faces;
}

/// A corner of the surface: a zero of f on an edge of pieces.
struct SurfacePoint {
  std::string key;  ///< the edge, where it lies on a side of the cell: what other cells call it too
  RoundedPoint point;
};

struct CellSurface {
  std::vector<SurfacePoint> points;
  std::vector<Loop> polygons;  ///< counter-clockwise seen from f > 0
  bool is_uncertain = false;
};

/// Four signs a byte.
void append_packed(std::span<const std::int8_t> signs, std::string& packed) {
  for (std::size_t first = 0; first < signs.size(); first += 4) {
    unsigned byte = 0;
    for (std::size_t i = first; i < std::min(first + 4, signs.size()); ++i)
      byte = byte << 2 | static_cast<unsigned>(signs[i] + 1);
    packed.push_back(static_cast<char>(byte));
  }
}

/// Of the pieces in one cell.
constexpr std::size_t most_corners = 4096;

/// Cuts cells into the pieces on which a network is affine, one after the other.
template <class Arithmetic>
class CellPieces {
public:
  explicit CellPieces(const PieceNetwork& network) : network_(network), signs_of_corner_(network.signs()) {}

  /// False where a sign stays open, a corner is not known well, or there are too many; then nothing is known.
  bool cut(const Index& cell, const std::array<std::array<double, 3>, 8>& corners, double least_side,
           CellSurface& surface) {
    cell_ = cell;
    largest_radius_ = 0x1p-24 * least_side;
    corners_.clear();
    signs_.clear();
    arguments_.clear();
    turns_.assign(signs_of_corner_, Turn{});
    for (std::size_t corner = 0; corner < 8; ++corner) {
      Sides sides = 0;
      for (std::size_t c = 0; c < 3; ++c) sides = static_cast<Sides>(sides | 1U << (2 * c + (corner >> c & 1)));
      new_signs_.assign(signs_of_corner_, open_sign);
      if (!add({Arithmetic::corner(corners[corner]), sides})) return false;
    }
    std::vector<Polyhedron> pieces = {cube()};
    for (std::size_t s = 0; s < network_.switches(); ++s) {
      if (!turns_[s].has_both()) continue;
      cuts_.clear();
      const std::size_t count = pieces.size();
      for (std::size_t i = 0; i < count; ++i) {
        if (!turn_of(pieces[i], s).has_both()) continue;
        Polyhedron lower, upper;
        if (!clip(pieces[i], s, -1, lower) || !clip(pieces[i], s, 1, upper)) return false;
        pieces[i] = std::move(lower);
        pieces.push_back(std::move(upper));
      }
    }
    for (std::size_t i = 0; i < corners_.size(); ++i)
      surface.is_uncertain = surface.is_uncertain || sign(static_cast<std::int32_t>(i), network_.switches()) == 0;
    cuts_.clear();
    return std::all_of(pieces.begin(), pieces.end(),
                       [&](const Polyhedron& piece) { return add_polygon(piece, surface); });
  }

  bool has_too_many() const { return corners_.size() >= most_corners; }

private:
  struct Corner {
    typename Arithmetic::Point point;
    Sides sides = 0;
  };
  struct Turn {
    bool has_negative = false, has_positive = false;
    bool has_both() const { return has_negative && has_positive; }
    void add(std::int8_t sign) {
      has_negative = has_negative || sign < 0;
      has_positive = has_positive || sign > 0;
    }
  };
  /// A point that was found on an edge.
  struct Cut {
    std::int32_t a, b, found;
  };
  using Border = std::vector<std::pair<std::int32_t, std::int32_t>>;

  std::int8_t sign(std::int32_t corner, std::size_t s) const {
    return signs_[static_cast<std::size_t>(corner) * signs_of_corner_ + s];
  }
  const Corner& at(std::int32_t corner) const { return corners_[static_cast<std::size_t>(corner)]; }
  const typename Arithmetic::Number& argument(std::int32_t corner, std::size_t s) const {
    return arguments_[static_cast<std::size_t>(corner) * signs_of_corner_ + s];
  }

  /// With new_signs_, as far as they are known.
  bool add(Corner corner) {
    arguments_.resize(arguments_.size() + signs_of_corner_);
    const std::span arguments = std::span(arguments_).last(signs_of_corner_);
    if (corners_.size() >= most_corners || !Arithmetic::is_known(corner.point, largest_radius_) ||
        !network_.evaluate(corner.point, new_signs_, arguments, workspace_))
      return false;
    corners_.push_back(std::move(corner));
    signs_.insert(signs_.end(), new_signs_.begin(), new_signs_.end());
    for (std::size_t s = 0; s < signs_of_corner_; ++s) turns_[s].add(new_signs_[s]);
    return true;
  }

  Turn turn_of(const Polyhedron& piece, std::size_t s) const {
    Turn turn;
    for (const Loop& face : piece)
      for (const std::int32_t corner : face) turn.add(sign(corner, s));
    return turn;
  }

  /// The sign that a switch has between two corners of an edge.
  std::int8_t sign_between(std::int32_t a, std::int32_t b, std::size_t s) const {
    return sign(a, s) != 0 ? sign(a, s) : sign(b, s);
  }

  const Cut* cut_between(std::int32_t a, std::int32_t b) const {
    const auto found =
        std::find_if(cuts_.begin(), cuts_.end(), [&](const Cut& cut) { return cut.a == a && cut.b == b; });
    return found == cuts_.end() ? nullptr : &*found;
  }

  typename Arithmetic::Point zero_between(std::int32_t a, std::int32_t b, std::size_t s) const {
    return Arithmetic::zero(at(a).point, argument(a, s), at(b).point, argument(b, s));
  }

  /// The corner where switch s is 0 on an edge; -1 where a sign stays open.
  std::int32_t corner_between(std::int32_t a, std::int32_t b, std::size_t s) {
    if (a > b) std::swap(a, b);
    if (const Cut* const known = cut_between(a, b)) return known->found;
    const auto next = static_cast<std::int32_t>(corners_.size());
    for (std::size_t earlier = 0; earlier < s; ++earlier) new_signs_[earlier] = sign_between(a, b, earlier);
    new_signs_[s] = 0;
    std::fill(new_signs_.begin() + static_cast<std::ptrdiff_t>(s + 1), new_signs_.end(), open_sign);
    if (!add({zero_between(a, b, s), static_cast<Sides>(at(a).sides & at(b).sides)})) return -1;
    cuts_.push_back({a, b, next});
    return next;
  }

  /// The part of a piece where switch s is not of the sign -side.
  bool clip(const Polyhedron& piece, std::size_t s, int side, Polyhedron& part) {
    Border border;  // of the new face
    for (const Loop& face : piece) {
      Loop kept;
      bool is_kept = false;
      for (std::size_t i = 0; i < face.size(); ++i) {
        const std::int32_t a = face[i], b = face[(i + 1) % face.size()];
        const int at_a = side * sign(a, s), at_b = side * sign(b, s);
        is_kept = is_kept || at_a > 0;
        if (at_a >= 0) kept.push_back(a);
        if (at_a * at_b < 0) {
          kept.push_back(corner_between(a, b, s));
          if (kept.back() < 0) return false;
        }
      }
      if (!is_kept) continue;
      for (std::size_t i = 0; i < kept.size(); ++i) {
        const std::int32_t a = kept[i], b = kept[(i + 1) % kept.size()];
        if (sign(a, s) == 0 && sign(b, s) == 0) border.emplace_back(b, a);
      }
      part.push_back(std::move(kept));
    }
    part.push_back(loop_of(border));
    return true;
  }

  static Loop loop_of(const Border& edges) {
    const auto after = [&](std::int32_t corner) {
      for (const auto& [from, to] : edges)
        if (from == corner) return to;
      return std::int32_t{-1};
    };
    Loop loop;
    for (std::int32_t corner = edges.front().first; corner >= 0 && loop.size() < edges.size(); corner = after(corner))
      loop.push_back(corner);
    if (loop.size() < 3 || loop.size() != edges.size() || after(loop.back()) != loop.front())
      throw std::logic_error("mesh: a section of a piece is no polygon");
    return loop;
  }

  bool add_polygon(const Polyhedron& piece, CellSurface& surface) {
    const std::size_t f = network_.switches();
    // The border of what is negative, seen from outside of it.
    Border border;
    for (const Loop& face : piece) {
      std::int32_t out = -1, in = -1;
      for (std::size_t i = 0; i < face.size(); ++i) {
        const std::int32_t a = face[i], b = face[(i + 1) % face.size()];
        if ((sign(a, f) < 0) == (sign(b, f) < 0)) continue;
        const std::int32_t point = point_between(a, b, surface);
        if (point < 0) return false;
        (sign(a, f) < 0 ? out : in) = point;
      }
      if (out >= 0) border.emplace_back(in, out);
    }
    if (!border.empty()) surface.polygons.push_back(loop_of(border));
    return true;
  }

  std::int32_t point_between(std::int32_t a, std::int32_t b, CellSurface& surface) {
    if (a > b) std::swap(a, b);
    if (const Cut* const known = cut_between(a, b)) return known->found;
    const auto point = zero_between(a, b, network_.switches());
    if (!Arithmetic::is_known(point, largest_radius_)) return -1;
    const auto next = static_cast<std::int32_t>(surface.points.size());
    const auto sides = static_cast<Sides>(at(a).sides & at(b).sides);
    surface.points.push_back({sides == 0 ? std::string() : key_of(a, b, sides), Arithmetic::rounded(point)});
    cuts_.push_back({a, b, next});
    return next;
  }

  /// Carrier and signs of an edge.
  std::string key_of(std::int32_t a, std::int32_t b, Sides sides) const {
    std::string key;
    for (std::size_t c = 0; c < 3; ++c) {
      const bool is_lower = (sides >> (2 * c) & 1) != 0, is_upper = (sides >> (2 * c + 1) & 1) != 0;
      const auto place = static_cast<std::uint64_t>(2 * cell_[c] + (is_lower ? 0 : is_upper ? 2 : 1));
      for (int byte = 0; byte < 4; ++byte) key.push_back(static_cast<char>(place >> 8 * byte & 0xff));
    }
    std::vector<std::int8_t> signs;
    for (std::size_t s = 0; s < network_.switches(); ++s) signs.push_back(sign_between(a, b, s));
    append_packed(signs, key);
    return key;
  }

  const PieceNetwork& network_;
  const std::size_t signs_of_corner_;
  PieceNetwork::Workspace workspace_;
  Index cell_{};
  double largest_radius_ = 0.0;
  std::vector<Corner> corners_;
  std::vector<std::int8_t> signs_, new_signs_;  ///< of all switches and of f, corner after corner
  std::vector<typename Arithmetic::Number> arguments_;
  std::vector<Turn> turns_;  ///< over all corners so far
  std::vector<Cut> cuts_;    ///< of the edges of all pieces by the switch at hand
};

std::array<std::array<double, 3>, 8> corners_of(const SurfaceCells& cells, std::size_t cell) {
  std::array<std::array<double, 3>, 8> corners{};
  for (std::size_t i = 0; i < 8; ++i) corners[i] = cells.point(static_cast<std::size_t>(cells.corners[cell][i]));
  return corners;
}

/// Signs of all switches at all nodes; nothing where one stays open.
class NodeSigns {
public:
  NodeSigns(const SurfaceCells& cells, const PieceNetwork& network, int threads) : signs_(cells.nodes.size()) {
    parallel_for(static_cast<std::int64_t>(signs_.size()), threads, [&](std::int64_t first, std::int64_t last) {
      PieceNetwork::Workspace workspace;
      std::vector<std::int8_t> signs(network.signs());
      std::vector<EnclosedNumber> arguments(network.signs());
      for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) {
        std::fill(signs.begin(), signs.end(), open_sign);
        const bool is_known = network.evaluate(ByIntervals::corner(cells.point(i)), signs, arguments, workspace);
        if (is_known && signs.back() != 0) append_packed(signs, signs_[i]);
      }
    });
  }

  /// Whether f is affine on a cell, and of one sign, for sure.
  bool is_empty(const std::array<std::int32_t, 8>& corners) const {
    const std::string& first = signs_[static_cast<std::size_t>(corners[0])];
    return !first.empty() && std::all_of(corners.begin(), corners.end(), [&](std::int32_t corner) {
      return signs_[static_cast<std::size_t>(corner)] == first;
    });
  }

private:
  std::vector<std::string> signs_;  ///< by node
};

constexpr std::size_t cells_at_once = 1024;

/// Puts the surfaces of cells together.
class Assembly {
public:
  explicit Assembly(PieceSurface& surface) : surface_(surface) {}

  void add(std::size_t cell, const CellSurface& part) {
    surface_.is_uncertain[cell] = part.is_uncertain;
    std::vector<std::int32_t> numbers;
    for (const SurfacePoint& point : part.points) {
      const auto next = static_cast<std::int32_t>(surface_.vertices.size());
      const std::int32_t number = point.key.empty() ? next : known_.try_emplace(point.key, next).first->second;
      numbers.push_back(number);
      if (number != next) continue;
      if (surface_.vertices.size() >= std::size_t{1} << 30)
        throw InvalidArgument("mesh: more than 2^30 vertices; use larger cells");
      surface_.vertices.push_back(point.point.at);
      surface_.radii.push_back(point.point.radius);
    }
    for (const Loop& polygon : part.polygons)
      for (std::size_t i = 2; i < polygon.size(); ++i) {
        const auto number = [&](std::size_t place) { return numbers[static_cast<std::size_t>(polygon[place])]; };
        surface_.triangles.push_back({number(0), number(i - 1), number(i)});
        surface_.cell_of.push_back(static_cast<std::int32_t>(cell));
      }
  }

private:
  PieceSurface& surface_;
  std::unordered_map<std::string, std::int32_t> known_;
};

}  // namespace

std::optional<PieceSurface> surface_in_pieces(const SurfaceCells& cells, const PieceNetwork& network, int threads,
                                              const Report& report) {
  PieceSurface surface;
  const std::size_t count = cells.cells.size();
  surface.is_uncertain.assign(count, false);
  const NodeSigns nodes(cells, network, threads);
  Assembly assembly(surface);
  const double least_side = std::min({cells.step[0], cells.step[1], cells.step[2]});
  for (std::size_t start = 0; start < count; start += cells_at_once) {
    const std::size_t some = std::min(cells_at_once, count - start);
    std::vector<CellSurface> parts(some);
    std::atomic<bool> is_too_much = false;
    parallel_for(static_cast<std::int64_t>(some), threads, [&](std::int64_t first, std::int64_t last) {
      CellPieces<ByIntervals> quick(network);
      CellPieces<ByFractions> exact(network);
      for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) {
        if (is_too_much) return;
        const Index& cell = cells.cells[start + i];
        if (nodes.is_empty(cells.corners[start + i])) continue;
        const auto corners = corners_of(cells, start + i);
        if (quick.cut(cell, corners, least_side, parts[i])) continue;
        parts[i] = {};
        if (quick.has_too_many() || !exact.cut(cell, corners, least_side, parts[i])) is_too_much = true;
      }
    });
    if (is_too_much) return std::nullopt;
    for (std::size_t i = 0; i < some; ++i) assembly.add(start + i, parts[i]);
    report(static_cast<std::int64_t>(start + some), static_cast<std::int64_t>(count));
  }
  return surface;
}

}  // namespace driftbound::meshing
