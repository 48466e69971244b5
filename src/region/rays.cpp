#include "driftbound/region/rays.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>

#include "driftbound/num/directed.hpp"
#include "driftbound/num/environment.hpp"
#include "driftbound/num/errors.hpp"
#include "num/parallel.hpp"
#include "region/kernels/cells.hpp"
#include "region/octree_state.hpp"
#include "region/ray_checks.hpp"

namespace driftbound {

std::string_view name_of(RayVerdict verdict) {
  if (verdict == RayVerdict::undecided) return "undecided";
  return verdict == RayVerdict::miss ? "miss" : "hit";
}

namespace {

void check(const Rays& rays, std::size_t d, const RayOptions& options) {
  region::check_rays(rays, d);
  for (std::size_t i = 0; i < rays.size(); ++i) {
    const auto along = std::span(rays.direction).subspan(i * d, d);
    if (std::all_of(along.begin(), along.end(), [](double x) { return x == 0.0; }))
      throw InvalidArgument("rays: ray " + std::to_string(i) + " has no direction");
  }
  if (!(options.tolerance > 0.0) || !(options.shortest > 0.0 && options.shortest <= 1.0) || options.threads < 1)
    throw InvalidArgument("rays: tolerance and shortest must be positive, shortest 1 at most, and threads 1 at least");
}

/// As many rays go on at a time.
constexpr std::size_t rays_at_once = 512;

/// One ray on its way.
struct Tracer {
  std::size_t ray = 0;
  double t = 0.0, end = 0.0;  ///< no zero before t; `end` of the domain
  double piece_end = 0.0;
  int sign = 0, end_sign = 0;  ///< of f at t and at piece_end; 0: not known
  /// No zero between these two, and the sign of f there.
  double free_from = region::infinity, free_until = region::infinity;
  int free_sign = 0;
  bool is_extended = false;  ///< beyond its end, when it was as short as pieces may be
};

/// Zeros of f on a piece: none, or all within [lower, upper], with these signs outside where that is not the whole piece.
struct Zeros {
  bool is_free = false;
  double lower = 0.0, upper = 0.0;
  int before = 0, behind = 0;  ///< if it is free, `before` is the sign
};

int sign_of(double x) {
  return x > 0.0 ? 1 : x < 0.0 ? -1 : 0;
}

Zeros zeros_of(const RayRanges& ranges, std::size_t i, double first, double last) {
  const double middle = ranges.middle[i], tangent = ranges.tangent[i], rest = ranges.rest[i];
  if (!(rest < region::infinity)) return {false, first, last, 0, 0};
  if (tangent == 0.0) {
    const bool is_free = std::fabs(middle) > rest;
    return {is_free, first, last, is_free ? sign_of(middle) : 0, 0};
  }
  const Interval zeros = Interval(ranges.at[i]) + (Interval(-middle) + Interval(-rest, rest)) / Interval(tangent);
  const int rises = sign_of(tangent);
  // A step further: there f has a sign.
  const double lower = next_down(zeros.lower()), upper = next_up(zeros.upper());
  if (lower >= last) return {true, first, last, -rises, -rises};
  if (upper <= first) return {true, first, last, rises, rises};
  return {false, std::max(first, lower), std::min(last, upper), lower > first ? -rises : 0, upper < last ? rises : 0};
}

/// Rays that are traced together.
class Tracing {
public:
  /// `steepest` bounds the gradient's 2-norm in the domain.
  Tracing(const region::OctreeContent& tree, double steepest, const RegionEvaluator& evaluator, const Rays& rays,
          const RayOptions& options, std::span<RayHit> hits)
      : tree_(tree),
        steepest_(steepest),
        evaluator_(evaluator),
        rays_(rays),
        options_(options),
        hits_(hits),
        d_(rays.dimension) {}

  void trace(std::size_t first, std::size_t last) {
    std::vector<Tracer> active;
    std::size_t next = first;
    while (true) {
      for (; next < last && active.size() < rays_at_once; ++next) {
        Tracer tracer;
        tracer.ray = next;
        if (enter(tracer) && pass_certain_cells(tracer)) active.push_back(tracer);
      }
      if (active.empty()) break;
      Rays pieces;
      pieces.dimension = d_;
      for (const Tracer& tracer : active) {
        const std::size_t at = tracer.ray * d_;
        pieces.add(std::span(rays_.origin).subspan(at, d_), std::span(rays_.direction).subspan(at, d_), tracer.t,
                   tracer.piece_end);
      }
      const RayRanges ranges = evaluator_.ranges_along(pieces);
      std::size_t left = 0;
      for (std::size_t i = 0; i < active.size(); ++i)
        if (look_at_piece(active[i], zeros_of(ranges, i, active[i].t, active[i].piece_end))) active[left++] = active[i];
      active.resize(left);
    }
    find_gradients(first, last);
  }

private:
  double origin(const Tracer& tracer, std::size_t j) const { return rays_.origin[tracer.ray * d_ + j]; }
  double direction(const Tracer& tracer, std::size_t j) const { return rays_.direction[tracer.ray * d_ + j]; }

  bool finish(const Tracer& tracer, RayVerdict verdict, double lower, double upper) {
    RayHit& hit = hits_[tracer.ray];
    hit.verdict = verdict;
    hit.lower = lower;
    hit.upper = upper;
    return false;
  }

  /// All t where coordinate j of the ray lies in [lower, upper]: at least [enter, leave] where that is not empty, or at
  /// most, if `outward`.
  Interval inside(const Tracer& tracer, std::size_t j, double lower, double upper) const {
    const double from = origin(tracer, j), along = direction(tracer, j);
    const Interval a = (Interval(lower) - Interval(from)) / Interval(along);
    const Interval b = (Interval(upper) - Interval(from)) / Interval(along);
    return along > 0.0 ? Interval(std::min(a.lower(), b.upper()), std::max(a.lower(), b.upper()))
                       : Interval(std::min(b.lower(), a.upper()), std::max(b.lower(), a.upper()));
  }

  /// Goes to the domain. The part of the ray in the domain is within [t, end], and more than it only by rounding.
  bool enter(Tracer& tracer) {
    tracer.t = rays_.first[tracer.ray];
    tracer.end = rays_.last[tracer.ray];
    for (std::size_t j = 0; j < d_; ++j) {
      const double lower = tree_.domain.lower[j], upper = tree_.domain.upper[j];
      if (direction(tracer, j) == 0.0) {
        if (origin(tracer, j) < lower || origin(tracer, j) > upper)
          return finish(tracer, RayVerdict::miss, tracer.end, tracer.end);
        continue;
      }
      const Interval part = inside(tracer, j, lower, upper);
      tracer.t = std::max(tracer.t, part.lower());
      tracer.end = std::min(tracer.end, part.upper());
    }
    if (tracer.t > tracer.end) return finish(tracer, RayVerdict::miss, tracer.end, tracer.end);
    return true;
  }

  /// Where the ray certainly is in a box: [enter, leave].
  void within(const Tracer& tracer, const region::Descent& leaf, double& enters, double& leaves) const {
    enters = -std::numeric_limits<double>::infinity();
    leaves = std::numeric_limits<double>::infinity();
    for (std::size_t j = 0; j < d_; ++j) {
      const double along = direction(tracer, j);
      if (along == 0.0) continue;
      const Interval a = (Interval(leaf.lower[j]) - Interval(origin(tracer, j))) / Interval(along);
      const Interval b = (Interval(leaf.upper[j]) - Interval(origin(tracer, j))) / Interval(along);
      enters = std::max(enters, along > 0.0 ? a.upper() : b.upper());
      leaves = std::min(leaves, along > 0.0 ? b.lower() : a.lower());
    }
  }

  double length_of_direction(const Tracer& tracer) const {
    double squares = 0.0;
    for (std::size_t j = 0; j < d_; ++j) squares = add_up(squares, mul_up(direction(tracer, j), direction(tracer, j)));
    return sqrt_up(squares);
  }

  /// Passes certain cells up to a cell that must be looked into. False: the ray has ended.
  bool pass_certain_cells(Tracer& tracer) {
    double nudge = 0x1p-46 * (std::fabs(tracer.t) + (tracer.end - tracer.t));
    while (tracer.t < tracer.end) {
      const double ahead = std::min(tracer.t + nudge, tracer.end);
      double point[region::Descent::most];
      for (std::size_t j = 0; j < d_; ++j)
        point[j] =
            std::clamp(origin(tracer, j) + ahead * direction(tracer, j), tree_.domain.lower[j], tree_.domain.upper[j]);
      region::Descent leaf(tree_.cells, tree_.domain);
      while (leaf.is_divided()) leaf.step(point);
      double enters = 0.0, leaves = 0.0;
      within(tracer, leaf, enters, leaves);
      const bool is_certain = tree_.cells.is_certain(leaf.cell);
      if (is_certain && leaves > tracer.t && reaches_back(tracer, leaf.cell, enters)) {
        tracer.sign = static_cast<int>(tree_.cells.sign(leaf.cell));
        tracer.t = std::min(leaves, tracer.end);
        if (changes_little(tracer, tracer.end, leaf.cell)) tracer.t = tracer.end;
        continue;
      }
      tracer.piece_end = std::min(std::max(leaves, ahead), tracer.end);
      tracer.end_sign = 0;
      tracer.free_from = region::infinity;
      tracer.is_extended = false;
      return true;
    }
    return finish(tracer, RayVerdict::miss, tracer.end, tracer.end);
  }

  /// Whether f has the sign of a certain cell from t on until the ray certainly enters it: the least |f| there is more
  /// than f may change on the way, by the gradient's bound in the whole domain.
  bool reaches_back(const Tracer& tracer, std::uint32_t cell, double enters) const {
    if (enters <= tracer.t) return true;
    return enters <= tracer.end && changes_little(tracer, enters, cell);
  }
  /// Whether f may not change by the least |f| in a cell between t and `to`.
  bool changes_little(const Tracer& tracer, double to, std::uint32_t cell) const {
    const double way = mul_up(length_of_direction(tracer), sub_up(to, tracer.t));
    return mul_up(way, steepest_) < static_cast<double>(tree_.cells.margin[cell]);
  }

  /// Goes on behind a piece without a zero.
  bool pass(Tracer& tracer) {
    tracer.t = tracer.piece_end;
    if (tracer.t < tracer.free_from && tracer.free_from < region::infinity) {
      tracer.piece_end = tracer.free_from;
      tracer.end_sign = tracer.free_sign;
      return true;
    }
    if (tracer.t == tracer.free_from) tracer.t = tracer.free_until;
    return pass_certain_cells(tracer);
  }

  bool look_at_piece(Tracer& tracer, const Zeros& zeros) {
    const double length = tracer.piece_end - tracer.t;
    if (zeros.is_free) {
      tracer.sign = zeros.before;
      return pass(tracer);
    }
    if (zeros.before != 0) {
      tracer.sign = zeros.before;
      tracer.t = zeros.lower;
    }
    if (zeros.behind != 0) {
      tracer.free_until = tracer.piece_end == tracer.free_from ? tracer.free_until : tracer.piece_end;
      tracer.free_from = tracer.piece_end = zeros.upper;
      tracer.free_sign = tracer.end_sign = zeros.behind;
    }
    const double left = tracer.piece_end - tracer.t;
    const double shortest = options_.shortest * (rays_.last[tracer.ray] - rays_.first[tracer.ray]);
    const bool changes = tracer.sign != 0 && tracer.end_sign == -tracer.sign, has_shrunk = left <= 0.5 * length;
    const double middle = region::middle_of(tracer.t, tracer.piece_end);
    const bool can_halve = middle > tracer.t && middle < tracer.piece_end;
    if (changes && (left <= options_.tolerance || !can_halve))
      return finish(tracer, RayVerdict::hit, tracer.t, tracer.piece_end);
    const bool is_short = !(left > shortest) || !can_halve;
    if (!changes && is_short && tracer.end_sign == 0 && !tracer.is_extended) {
      // A zero near the end of the piece is in the middle of a longer one.
      tracer.is_extended = true;
      tracer.piece_end = std::min(tracer.piece_end + 4.0 * shortest, tracer.end);
      return true;
    }
    if (!changes && is_short) return finish(tracer, RayVerdict::undecided, tracer.t, tracer.end);
    if (!has_shrunk) {
      tracer.piece_end = middle;
      tracer.end_sign = 0;
    } else if (tracer.end_sign == 0) {
      tracer.piece_end = std::min(tracer.piece_end + left, tracer.end);
    }
    return true;
  }

  /// Of all hits among the rays.
  void find_gradients(std::size_t first, std::size_t last) {
    Boxes boxes;
    boxes.dimension = d_;
    std::vector<std::size_t> of;
    for (std::size_t ray = first; ray < last; ++ray) {
      if (hits_[ray].verdict != RayVerdict::hit) continue;
      of.push_back(ray);
      for (std::size_t j = 0; j < d_; ++j) {
        const Interval part = Interval(rays_.origin[ray * d_ + j]) +
                              Interval(hits_[ray].lower, hits_[ray].upper) * Interval(rays_.direction[ray * d_ + j]);
        boxes.lower.push_back(part.lower());
        boxes.upper.push_back(part.upper());
      }
    }
    const Ranges ranges = evaluator_.ranges(boxes);
    for (std::size_t i = 0; i < of.size(); ++i)
      for (std::size_t j = 0; j < d_; ++j) {
        hits_[of[i]].gradient_lower[j] = ranges.gradient_lower[i * d_ + j];
        hits_[of[i]].gradient_upper[j] = ranges.gradient_upper[i * d_ + j];
      }
  }

  const region::OctreeContent& tree_;
  const double steepest_;
  const RegionEvaluator& evaluator_;
  const Rays& rays_;
  const RayOptions& options_;
  std::span<RayHit> hits_;
  std::size_t d_;
};

}  // namespace

std::vector<RayHit> first_hits(const Octree& tree, const Rays& rays, const RayOptions& options) {
  require_sound_environment();
  check(rays, tree.dimension(), options);
  const RegionEvaluator& evaluator = tree.state_->exact_evaluator();
  const double steepest = tree.state_->steepest();
  std::vector<RayHit> hits(rays.size());
  constexpr std::size_t rays_of_part = 4096;
  const std::size_t parts = (rays.size() + rays_of_part - 1) / rays_of_part;
  parallel_for(static_cast<std::int64_t>(parts), options.threads, [&](std::int64_t first, std::int64_t last) {
    for (auto part = static_cast<std::size_t>(first); part < static_cast<std::size_t>(last); ++part)
      Tracing(*tree.state_, steepest, evaluator, rays, options, hits)
          .trace(part * rays_of_part, std::min(rays.size(), (part + 1) * rays_of_part));
  });
  return hits;
}

}  // namespace driftbound
