#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "analysis/point_source.hpp"
#include "driftbound/num/errors.hpp"

namespace driftbound::analysis {
namespace {

/// SplitMix64 (Steele, Lea, Flood).
class RandomBits {
public:
  RandomBits(std::uint64_t seed, std::uint64_t stream) : state_(mixed(mixed(seed) + stream)) {}

  std::uint64_t next() { return mixed(state_ += 0x9e3779b97f4a7c15); }
  /// In [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// In [0, count), for counts far below 2^64.
  std::size_t index(std::size_t count) { return static_cast<std::size_t>(next() % count); }

private:
  static std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
  std::uint64_t state_;
};

/// Points one after the other.
using Rows = std::vector<double>;

std::vector<PointSign> signs_of(const SignField& field, const Rows& points) {
  const std::size_t dimension = field.dimension();
  std::vector<PointSign> signs(points.size() / dimension);
  field.signs(points.data(), static_cast<std::int64_t>(signs.size()), static_cast<std::ptrdiff_t>(dimension), 1, signs);
  return signs;
}

void append(Rows& rows, std::span<const double> point) {
  rows.insert(rows.end(), point.begin(), point.end());
}

/// Random points of one granule, by sign: the ends of its bisections.
class Ends {
public:
  static constexpr std::int64_t drawn_at_once = 4096;

  Ends(std::uint64_t seed, std::int64_t granule) : bits_(seed, 2 * static_cast<std::uint64_t>(granule)) {}

  bool suffices(std::size_t dimension) const {
    constexpr std::size_t enough = 64;
    return std::min(negative.size(), positive.size()) >= enough * dimension;
  }
  void draw(const Box& box, Rows& points) {
    for (std::int64_t i = 0; i < drawn_at_once; ++i)
      for (std::size_t c = 0; c < box.lower.size(); ++c)
        points.push_back(box.lower[c] + bits_.unit() * (box.upper[c] - box.lower[c]));
  }

  Rows negative, positive;

private:
  RandomBits bits_;
};

/// Segments from a point with f < 0 to one with f > 0, cut in halves until a midpoint is within the band.
class Bisection {
public:
  Bisection(const SignField& field, double width, std::span<double> out)
      : field_(field), dimension_(field.dimension()), width_(width), out_(out) {}

  void add(std::span<const double> negative, std::span<const double> positive, std::size_t place) {
    append(negative_, negative);
    append(positive_, positive);
    places_.push_back(place);
  }

  void run() {
    constexpr int most_steps = 200;
    for (int step = 0; step < most_steps && !places_.empty(); ++step) halve(step + 1 == most_steps);
  }

private:
  void halve(bool is_last) {
    Rows middle(negative_.size());
    for (std::size_t i = 0; i < middle.size(); ++i) middle[i] = 0.5 * negative_[i] + 0.5 * positive_[i];
    const std::vector<PointSign> signs = signs_of(field_, middle);
    std::size_t kept = 0;
    for (std::size_t row = 0; row < signs.size(); ++row) {
      const auto point = std::span<const double>(middle).subspan(row * dimension_, dimension_);
      if (is_last || is_within(signs[row]) || is_end(row, point)) {
        std::copy(point.begin(), point.end(), out_.begin() + static_cast<std::ptrdiff_t>(places_[row] * dimension_));
        continue;
      }
      keep(row, kept++, signs[row].sign, point);
    }
    negative_.resize(kept * dimension_);
    positive_.resize(kept * dimension_);
    places_.resize(kept);
  }

  /// Also where no more can be known of the sign.
  bool is_within(const PointSign& sign) const {
    const bool has_sign = sign.sign == Sign::negative || sign.sign == Sign::positive;
    const double most = std::nextafter(std::fabs(sign.value) + sign.bound, std::numeric_limits<double>::infinity());
    return !has_sign || most <= width_;
  }
  bool is_end(std::size_t row, std::span<const double> point) const {
    const auto at = static_cast<std::ptrdiff_t>(row * dimension_);
    return std::equal(point.begin(), point.end(), negative_.begin() + at) ||
           std::equal(point.begin(), point.end(), positive_.begin() + at);
  }
  void keep(std::size_t from, std::size_t to, Sign sign, std::span<const double> middle) {
    const auto move = [&](Rows& rows) {
      std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(from * dimension_), dimension_,
                  rows.begin() + static_cast<std::ptrdiff_t>(to * dimension_));
    };
    move(negative_);
    move(positive_);
    places_[to] = places_[from];
    Rows& end = sign == Sign::negative ? negative_ : positive_;
    std::copy(middle.begin(), middle.end(), end.begin() + static_cast<std::ptrdiff_t>(to * dimension_));
  }

  const SignField& field_;
  std::size_t dimension_;
  double width_;
  std::span<double> out_;
  Rows negative_, positive_;
  std::vector<std::size_t> places_;
};

class Band : public PointSource {
public:
  Band(SignField field, Box box, const BandOptions& options)
      : field_(std::move(field)), box_(std::move(box)), options_(options) {}

  std::int64_t size() const override { return options_.points; }
  Box range() const override { return box_; }
  std::string description() const override {
    const std::string where =
        options_.width > 0.0 ? fmt::format("with |f| <= {}", options_.width) : "bisected onto f = 0";
    return fmt::format("{} random points {} in {}, seed {}", options_.points, where, describe(box_), options_.seed);
  }
  std::string sha256() const override { return hash_of(description()); }

  void read(std::int64_t first, std::int64_t count, std::span<double> out) const override {
    const std::int64_t granules = (count + granule - 1) / granule;
    const std::vector<Ends> ends = draw_ends(first / granule, granules);
    Bisection bisection(field_, options_.width, out);
    for (std::int64_t g = 0; g < granules; ++g)
      add_pairs(bisection, ends[static_cast<std::size_t>(g)], first / granule + g,
                static_cast<std::size_t>(g * granule),
                static_cast<std::size_t>(std::min(granule, count - g * granule)));
    bisection.run();
  }

private:
  std::vector<Ends> draw_ends(std::int64_t first, std::int64_t count) const {
    constexpr int rounds = 64;
    std::vector<Ends> ends;
    for (std::int64_t g = 0; g < count; ++g) ends.emplace_back(options_.seed, first + g);
    for (int round = 0; round < rounds; ++round)
      if (!draw_round(ends)) return ends;
    for (const Ends& of : ends)
      if (of.negative.empty() || of.positive.empty()) refuse(of);
    return ends;
  }

  /// Whether any granule lacked ends.
  bool draw_round(std::vector<Ends>& ends) const {
    const std::size_t dimension = field_.dimension();
    std::vector<Ends*> open;
    Rows points;
    for (Ends& of : ends) {
      if (of.suffices(dimension)) continue;
      of.draw(box_, points);
      open.push_back(&of);
    }
    const std::vector<PointSign> signs = signs_of(field_, points);
    for (std::size_t row = 0; row < signs.size(); ++row) {
      Ends& of = *open[row / static_cast<std::size_t>(Ends::drawn_at_once)];
      const auto point = std::span<const double>(points).subspan(row * dimension, dimension);
      if (signs[row].sign == Sign::negative) append(of.negative, point);
      if (signs[row].sign == Sign::positive) append(of.positive, point);
    }
    return !open.empty();
  }

  void add_pairs(Bisection& bisection, const Ends& ends, std::int64_t number, std::size_t place,
                 std::size_t count) const {
    const std::size_t dimension = field_.dimension();
    RandomBits bits(options_.seed, 2 * static_cast<std::uint64_t>(number) + 1);
    const auto drawn = [&](const Rows& rows) {
      return std::span<const double>(rows).subspan(bits.index(rows.size() / dimension) * dimension, dimension);
    };
    for (std::size_t i = 0; i < count; ++i) {
      const auto negative = drawn(ends.negative);
      bisection.add(negative, drawn(ends.positive), place + i);
    }
  }

  [[noreturn]] void refuse(const Ends& ends) const {
    const bool is_positive = ends.negative.empty() && !ends.positive.empty();
    throw InvalidArgument(fmt::format(
        "--band: no surface found: none of {} random points of {} is {}; give a --box around the surface, or "
        "another --iso",
        64 * Ends::drawn_at_once, describe(box_), is_positive ? "negative" : "positive"));
  }

  SignField field_;
  Box box_;
  BandOptions options_;
};

}  // namespace

Points points_of_band(const SignField& field, const Box& box, const BandOptions& options) {
  if (!(options.width >= 0.0) || !std::isfinite(options.width))
    throw InvalidArgument(fmt::format("--band: {} is no width; give a number from 0 on", options.width));
  if (options.points < 1) throw InvalidArgument("--samples: give at least one point");
  return std::make_unique<Band>(field, box, options);
}

}  // namespace driftbound::analysis
