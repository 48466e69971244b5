#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "driftbound/trace/run_alignment.hpp"
#include "model/convert.hpp"
#include "trace/value_view.hpp"

namespace driftbound {
namespace {

/// What an axis of a value counts. Rows lie along an axis each as one block of it, or each at every (rows)-th place.
/// `keys`: positions that attention reads.
enum class AxisOf { other, rows, rows_between, positions, positions_of_rows, rows_of_positions, keys };

using Roles = std::vector<AxisOf>;
using Index = std::vector<std::int64_t>;

bool counts_rows(AxisOf of) {
  return of != AxisOf::other && of != AxisOf::positions && of != AxisOf::keys;
}

bool counts_positions(AxisOf of) {
  return of == AxisOf::positions || of == AxisOf::positions_of_rows || of == AxisOf::rows_of_positions;
}

/// Rows of both runs that have the same positions in common.
struct RowGroup {
  Index a, b;
  AlignedStretch stretch, keys;
};

std::vector<RowGroup> groups_of(const AlignedRows& rows) {
  std::vector<RowGroup> groups;
  for (std::size_t row = 0; row < rows.of_b.size(); ++row) {
    if (rows.of_b[row] < 0) continue;
    const AlignedStretch stretch = rows.positions ? rows.positions->of_b[row] : AlignedStretch();
    const bool has_keys = rows.positions && rows.positions->keys;
    const AlignedStretch keys = has_keys ? rows.positions->keys->of_b[row] : AlignedStretch();
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const RowGroup& one) { return one.stretch == stretch && one.keys == keys; });
    if (group == groups.end()) group = groups.insert(groups.end(), RowGroup{{}, {}, stretch, keys});
    group->a.push_back(rows.of_b[row]);
    group->b.push_back(static_cast<std::int64_t>(row));
  }
  return groups;
}

/// The positions that all rows have in common, for values that no row has to itself; empty where rows begin elsewhere.
std::optional<RowGroup> common_to_all(const std::vector<RowGroup>& groups) {
  RowGroup common = groups.front();
  for (const RowGroup& group : groups) {
    if (group.stretch.first_a != common.stretch.first_a || group.stretch.first_b != common.stretch.first_b)
      return std::nullopt;
    if (group.keys.first_a != common.keys.first_a || group.keys.first_b != common.keys.first_b) return std::nullopt;
    common.stretch.count = std::min(common.stretch.count, group.stretch.count);
    common.keys.count = std::min(common.keys.count, group.keys.count);
  }
  return common;
}

/// How many elements stand together for one row or position along an axis, the same in both runs; 0: it has no such rows.
std::int64_t per_unit(std::int64_t a, std::int64_t units_a, std::int64_t b, std::int64_t units_b) {
  return a > 0 && a % units_a == 0 && b % units_b == 0 && a / units_a == b / units_b ? a / units_a : 0;
}

std::vector<AxisOf> roles_of(std::int64_t a, std::int64_t b, const AlignedRows& rows) {
  std::vector<AxisOf> roles;
  const bool has_rows = !rows.positions || rows.a > 1 || rows.b > 1;
  if (const std::int64_t per_row = per_unit(a, rows.a, b, rows.b); has_rows && per_row > 0) {
    roles.push_back(AxisOf::rows);
    if (per_row > 1) roles.push_back(AxisOf::rows_between);
  }
  if (rows.positions) {
    if (a == rows.positions->a && b == rows.positions->b) roles.push_back(AxisOf::positions);
    const auto& keys = rows.positions->keys;
    if (keys && (a == keys->a || a == keys->room_a) && (b == keys->b || b == keys->room_b))
      roles.push_back(AxisOf::keys);
    const std::int64_t each = per_unit(a, rows.a * rows.positions->a, b, rows.b * rows.positions->b);
    if (each > (has_rows ? 0 : 1)) roles.push_back(AxisOf::positions_of_rows);
    if (each > 0 && has_rows) roles.push_back(AxisOf::rows_of_positions);
  }
  if (a == b) roles.push_back(AxisOf::other);
  return roles;
}

/// Places along an axis, in both runs.
struct Places {
  Index a, b;
  void add(std::int64_t of_a, std::int64_t of_b) {
    a.push_back(of_a);
    b.push_back(of_b);
  }
};

Places places_of(AxisOf of, std::int64_t extent, const AlignedRows& rows, const RowGroup& group) {
  Places places;
  const AlignedStretch& at = group.stretch;
  const std::int64_t in_a = rows.positions ? rows.positions->a : 1, in_b = rows.positions ? rows.positions->b : 1;
  const std::int64_t each = extent / rows.a / (counts_positions(of) ? in_a : 1);
  switch (of) {
    case AxisOf::other:
      for (std::int64_t i = 0; i < extent; ++i) places.add(i, i);
      break;
    case AxisOf::positions:
      for (std::int64_t t = 0; t < at.count; ++t) places.add(at.first_a + t, at.first_b + t);
      break;
    case AxisOf::keys:
      for (std::int64_t t = 0; t < group.keys.count; ++t) places.add(group.keys.first_a + t, group.keys.first_b + t);
      break;
    case AxisOf::rows:
      for (std::size_t r = 0; r < group.a.size(); ++r)
        for (std::int64_t i = 0; i < each; ++i) places.add(group.a[r] * each + i, group.b[r] * each + i);
      break;
    case AxisOf::rows_between:
      for (std::int64_t i = 0; i < each; ++i)
        for (std::size_t r = 0; r < group.a.size(); ++r) places.add(i * rows.a + group.a[r], i * rows.b + group.b[r]);
      break;
    case AxisOf::positions_of_rows:
      for (std::size_t r = 0; r < group.a.size(); ++r)
        for (std::int64_t t = 0; t < at.count; ++t)
          for (std::int64_t i = 0; i < each; ++i)
            places.add((group.a[r] * in_a + at.first_a + t) * each + i,
                       (group.b[r] * in_b + at.first_b + t) * each + i);
      break;
    case AxisOf::rows_of_positions:
      for (std::int64_t t = 0; t < at.count; ++t)
        for (std::size_t r = 0; r < group.a.size(); ++r)
          for (std::int64_t i = 0; i < each; ++i)
            places.add(((at.first_a + t) * rows.a + group.a[r]) * each + i,
                       ((at.first_b + t) * rows.b + group.b[r]) * each + i);
      break;
  }
  return places;
}

/// A way in which two values have rows and positions in common: equal stretches of elements, by where they begin.
struct Way {
  std::int64_t length = 1;  ///< of each stretch
  Index a, b;
  Shape shape;                 ///< of what is in common
  Index rows_of_a, rows_of_b;  ///< as AlignedNumbers has them
  std::int64_t elements() const { return static_cast<std::int64_t>(a.size()) * length; }
};

/// Adds the stretches of one group: every combination of places along the axes before the last ones, which are whole.
void add_stretches(const Shape& shape_a, const Shape& shape_b, const std::vector<Places>& places, Way& way) {
  std::vector<std::size_t> at(places.size(), 0);
  Index strides_a(places.size(), way.length), strides_b(places.size(), way.length);
  for (std::size_t axis = places.size(); axis-- > 1;) {
    strides_a[axis - 1] = strides_a[axis] * shape_a[axis];
    strides_b[axis - 1] = strides_b[axis] * shape_b[axis];
  }
  for (const Places& along : places)
    if (along.a.empty()) return;
  while (true) {
    std::int64_t first_a = 0, first_b = 0;
    for (std::size_t axis = 0; axis < places.size(); ++axis) {
      first_a += places[axis].a[at[axis]] * strides_a[axis];
      first_b += places[axis].b[at[axis]] * strides_b[axis];
    }
    way.a.push_back(first_a);
    way.b.push_back(first_b);
    std::size_t axis = places.size();
    while (axis > 0 && ++at[axis - 1] == places[axis - 1].a.size()) at[--axis] = 0;
    if (axis == 0) return;
  }
}

Way way_of(const Shape& a, const Shape& b, const Roles& roles, const AlignedRows& rows,
           const std::vector<RowGroup>& groups) {
  Way way;
  std::size_t axes = roles.size();
  while (axes > 0 && roles[axes - 1] == AxisOf::other) way.length *= a[--axes];
  std::int64_t last = 0;  // extent of the last axis; -1: it depends on the group
  for (const RowGroup& group : groups) {
    std::vector<Places> places;
    for (std::size_t axis = 0; axis < axes; ++axis) places.push_back(places_of(roles[axis], a[axis], rows, group));
    add_stretches(a, b, places, way);
    way.shape = b;
    for (std::size_t axis = 0; axis < axes; ++axis) way.shape[axis] = static_cast<std::int64_t>(places[axis].a.size());
    const std::int64_t of_group = way.shape.empty() ? 1 : way.shape.back();
    last = last == 0 || last == of_group ? of_group : -1;
  }
  if (groups.size() > 1 && last > 0) way.shape = {way.elements() / last, last};
  if (groups.size() > 1 && last <= 0) way.shape = {way.elements()};
  const std::int64_t width = axes < roles.size() ? a.back() : 0;
  for (std::size_t i = 0; width > 0 && i < way.a.size(); ++i)
    for (std::int64_t row = 0; row < way.length / width; ++row) {
      way.rows_of_a.push_back(way.a[i] / width + row);
      way.rows_of_b.push_back(way.b[i] / width + row);
    }
  return way;
}

/// Both shapes with as many axes, for values that the runs shape otherwise; empty where their rows are not told apart.
std::optional<std::pair<Shape, Shape>> shapes_alike(const Shape& a, const Shape& b, const AlignedRows& rows) {
  if (a.size() == b.size()) return std::pair(a, b);
  if (a.empty() || b.empty()) return std::nullopt;
  const std::int64_t last = a.back() == b.back() ? a.back() : 1;  // numbers of a row stay together
  const auto with_last = [&](Shape shape, std::int64_t rest) -> std::optional<Shape> {
    if (last == 0 || rest % last != 0) return std::nullopt;
    shape.push_back(rest / last);
    if (last > 1) shape.push_back(last);
    return shape;
  };
  const auto split = [&](const Shape& shape, std::int64_t units) -> std::optional<Shape> {
    const std::int64_t count = element_count(shape);
    if (shape.front() % units != 0 || count % units != 0) return std::nullopt;
    return with_last({units}, count / units);
  };
  if (!rows.positions) {
    const std::optional<Shape> of_a = split(a, rows.a), of_b = split(b, rows.b);
    return of_a && of_b ? std::optional(std::pair(*of_a, *of_b)) : std::nullopt;
  }
  const auto by_position = [&](const Shape& shape, std::int64_t rows_of_run,
                               std::int64_t positions) -> std::optional<Shape> {
    const std::int64_t both = rows_of_run * positions, count = element_count(shape);
    const bool is_merged = shape.front() % both == 0;
    const bool is_split = shape.size() > 1 && shape[0] == rows_of_run && shape[1] == positions;
    if ((!is_merged && !is_split) || count % both != 0) return std::nullopt;
    return with_last({rows_of_run, positions}, count / both);
  };
  const std::optional<Shape> of_a = by_position(a, rows.a, rows.positions->a),
                             of_b = by_position(b, rows.b, rows.positions->b);
  return of_a && of_b ? std::optional(std::pair(*of_a, *of_b)) : std::nullopt;
}

/// Every way in which both values may have rows in common.
std::vector<Way> ways_of(const Shape& shape_a, const Shape& shape_b, const AlignedRows& rows) {
  constexpr std::size_t most = 32;
  std::vector<Way> ways;
  const auto shapes = shapes_alike(shape_a, shape_b, rows);
  const std::vector<RowGroup> groups = groups_of(rows);
  if (!shapes || groups.empty()) return ways;
  const auto& [a, b] = *shapes;
  std::vector<Roles> open = {{}};
  for (std::size_t axis = 0; axis < a.size(); ++axis) {
    std::vector<Roles> longer;
    for (const Roles& roles : open)
      for (const AxisOf of : roles_of(a[axis], b[axis], rows)) {
        if (counts_rows(of) && std::any_of(roles.begin(), roles.end(), counts_rows)) continue;
        // Scores have positions along two axes: those of queries, and of keys.
        const std::ptrdiff_t taken = rows.positions && rows.positions->keys ? 1 : 2;
        if (counts_positions(of) && std::count_if(roles.begin(), roles.end(), counts_positions) == taken) continue;
        if (of == AxisOf::keys && std::count(roles.begin(), roles.end(), of) == 1) continue;
        longer.push_back(roles);
        longer.back().push_back(of);
      }
    open = std::move(longer);
  }
  for (const Roles& roles : open) {
    const bool has_rows = std::any_of(roles.begin(), roles.end(), counts_rows);
    const auto counts_any = [](AxisOf of) { return counts_positions(of) || of == AxisOf::keys; };
    const bool has_positions = std::any_of(roles.begin(), roles.end(), counts_any);
    if (!(rows.positions ? has_positions : has_rows) || ways.size() == most) continue;
    const bool are_alone = has_rows || (rows.a == 1 && rows.b == 1);
    const std::optional<RowGroup> common = are_alone ? std::nullopt : common_to_all(groups);
    if (are_alone) ways.push_back(way_of(a, b, roles, rows, groups));
    if (common) ways.push_back(way_of(a, b, roles, rows, {*common}));
  }
  return ways;
}

StoredTensor gathered(const StoredTensor& tensor, const Index& firsts, const Way& way) {
  const std::size_t width = bytes_per_element(tensor.type()), length = static_cast<std::size_t>(way.length) * width;
  std::vector<std::byte> bytes;
  bytes.reserve(firsts.size() * length);
  for (const std::int64_t first : firsts) {
    const auto stretch = tensor.bytes().subspan(static_cast<std::size_t>(first) * width, length);
    bytes.insert(bytes.end(), stretch.begin(), stretch.end());
  }
  return StoredTensor(tensor.type(), way.shape, std::move(bytes));
}

/// Sums of squares over the elements that are finite in both runs. Those that are finite in one run alone count as far
/// apart as the numbers are large, so that masks tell how rows lie.
struct Distance {
  double squares = 0.0, of_b = 0.0, elements = 0.0, other = 0.0;
  double mean() const {
    const double all = elements + other;
    const double size = elements > 0.0 ? of_b / elements : 1.0;
    return all > 0.0 ? (squares + other * (size > 0.0 ? size : 1.0)) / all : 0.0;
  }
};

Distance distance_of(const AlignedNumbers& numbers) {
  const std::vector<double> x = numbers.a.to_double().values, y = numbers.b.to_double().values;
  Distance distance;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isfinite(x[i]) != std::isfinite(y[i])) distance.other += 1.0;
    if (!std::isfinite(x[i]) || !std::isfinite(y[i])) continue;
    distance.squares += (x[i] - y[i]) * (x[i] - y[i]);
    distance.of_b += y[i] * y[i];
    distance.elements += 1.0;
  }
  return distance;
}

/// Without positions: the rows whose sequences are the same as a whole.
AlignedRows whole_rows(const AlignedRows& rows) {
  AlignedRows whole{rows.a, rows.b, rows.of_b, std::nullopt, true};
  for (std::size_t row = 0; row < rows.of_b.size(); ++row) {
    const std::int64_t count = rows.positions->of_b[row].count;
    if (count < rows.positions->a || count < rows.positions->b) whole.of_b[row] = -1;
  }
  return whole;
}

/// The numbers of both runs by the way on which they are nearest: of those nearly as near, the one with most elements.
std::optional<std::pair<AlignedNumbers, Way>> nearest_way(const StoredTensor& a, const StoredTensor& b,
                                                          const AlignedRows& rows) {
  constexpr double unrelated = 0.5;  // relative, of squares: the rows of this value lie otherwise
  constexpr double nearly = 16.0;    // of mean squares
  std::vector<Way> ways;
  if (a.size() > 0 && b.size() > 0) ways = ways_of(a.shape(), b.shape(), rows);
  if (rows.positions && ways.empty() && a.size() > 0 && b.size() > 0)
    ways = ways_of(a.shape(), b.shape(), whole_rows(rows));
  const bool are_all = !rows.positions && !rows.lacks_rows;
  if (a.size() == b.size() && (are_all || a.identical(reshaped(b, a.shape()))))
    ways.push_back({static_cast<std::int64_t>(b.size()), {0}, {0}, b.shape(), {}, {}});
  std::vector<Distance> distances;
  double nearest = std::numeric_limits<double>::infinity();
  for (const Way& way : ways) {
    distances.push_back(distance_of({gathered(a, way.a, way), gathered(b, way.b, way)}));
    nearest = std::min(nearest, distances.back().mean());
  }
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < ways.size(); ++i) {
    if (!(distances[i].mean() <= nearly * nearest)) continue;
    const bool is_better =
        !best || ways[i].elements() > ways[*best].elements() ||
        (ways[i].elements() == ways[*best].elements() && distances[i].mean() < distances[*best].mean());
    if (is_better) best = i;
  }
  if (!best) return std::nullopt;
  // In steps of the same text, positions lie as the extents say where all ways are the same one.
  const bool is_given =
      rows.positions && rows.positions->keys && std::all_of(ways.begin(), ways.end(), [&](const Way& way) {
        return way.length == ways[*best].length && way.a == ways[*best].a && way.b == ways[*best].b;
      });
  if (!is_given && distances[*best].squares > unrelated * distances[*best].of_b) return std::nullopt;
  Way& way = ways[*best];
  AlignedNumbers numbers{gathered(a, way.a, way), gathered(b, way.b, way), way.rows_of_a, way.rows_of_b};
  return std::pair(std::move(numbers), std::move(way));
}

}  // namespace

namespace {

/// The value of run a in the shape of run b: a matrix whose axes the other run exchanges is transposed.
std::optional<StoredTensor> in_shape_of(const StoredTensor& a, const StoredTensor& b) {
  if (a.size() != b.size()) return std::nullopt;
  const Shape &of_a = a.shape(), &of_b = b.shape();
  const bool is_transposed = of_a.size() == 2 && of_b.size() == 2 && of_a[0] == of_b[1] && of_a[0] != of_b[0];
  return is_transposed && of_a[0] > 1 && of_a[1] > 1 ? ValueView(a, of_a).transposed({1, 0}).tensor()
                                                     : reshaped(a, of_b);
}

}  // namespace

AlignedRows rows_up_to(const AlignedRows& rows, std::int64_t last) {
  AlignedRows some{rows.a, rows.b, rows.of_b, std::nullopt, true};
  for (std::size_t row = 0; row < rows.of_b.size() && rows.positions; ++row) {
    const AlignedStretch& at = rows.positions->of_b[row];
    if (at.first_a != 0 || at.first_b != 0 || at.count <= last) some.of_b[row] = -1;
  }
  return some;
}

bool may_have_rows_in_common(const Shape& a, const Shape& b, const AlignedRows& rows) {
  return element_count(a) > 0 && element_count(b) > 0 && !ways_of(a, b, rows).empty();
}

std::optional<AlignedNumbers> aligned_numbers(const StoredTensor& a, const StoredTensor& b,
                                              const std::optional<AlignedRows>& rows) {
  if (!rows) {
    std::optional<StoredTensor> in_b = in_shape_of(a, b);
    return in_b ? std::optional(AlignedNumbers{*std::move(in_b), b}) : std::nullopt;
  }
  auto both = nearest_way(a, b, *rows);
  return both ? std::optional(std::move(both->first)) : std::nullopt;
}

std::optional<StoredTensor> as_in_b(const StoredTensor& of_a, const StoredTensor& of_b,
                                    const std::optional<AlignedRows>& rows) {
  if (!rows) return in_shape_of(of_a, of_b);
  const auto both = nearest_way(of_a, of_b, *rows);
  if (!both || both->second.elements() != static_cast<std::int64_t>(of_b.size())) return std::nullopt;
  const Way& way = both->second;
  const std::size_t width = bytes_per_element(of_a.type()), length = static_cast<std::size_t>(way.length) * width;
  std::vector<std::byte> bytes(of_b.size() * width);
  for (std::size_t i = 0; i < way.a.size(); ++i)
    std::memcpy(bytes.data() + static_cast<std::size_t>(way.b[i]) * width,
                of_a.bytes().data() + static_cast<std::size_t>(way.a[i]) * width, length);
  return StoredTensor(of_a.type(), of_b.shape(), std::move(bytes));
}

}  // namespace driftbound
