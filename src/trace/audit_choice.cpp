#include "trace/audit_choice.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace driftbound {
namespace {

using Numbers = std::vector<std::int64_t>;

constexpr std::int64_t most_numbers_at_once = std::int64_t{1} << 20;
constexpr double infinite = std::numeric_limits<double>::infinity();

/// Calls visit(line, its first number) for `lines` lines of `length` elements that follow one another.
template <class Visit>
void visit_lines(const ValueView& view, std::int64_t first, std::int64_t lines, std::int64_t length,
                 const Visit& visit) {
  const std::int64_t at_once = std::max<std::int64_t>(most_numbers_at_once / std::max<std::int64_t>(length, 1), 1);
  for (std::int64_t line = 0; line < lines; line += at_once) {
    const std::int64_t some = std::min(at_once, lines - line);
    const Tensor<double> numbers = view.range(first + line * length, {some * length}).to_double();
    for (std::int64_t i = 0; i < some; ++i)
      visit(static_cast<std::size_t>(line + i), numbers.values.data() + i * length);
  }
}

/// A matrix whose rows, or whose columns, lie one after the other.
struct StoredMatrix {
  const ValueView& view;
  std::int64_t first, rows, columns;
  bool is_by_rows;

  /// y += M x.
  void add_product(const std::vector<double>& x, std::vector<double>& y) const { add(x, y, is_by_rows); }
  /// y += x M.
  void add_left_product(const std::vector<double>& x, std::vector<double>& y) const { add(x, y, !is_by_rows); }

  std::vector<double> squares_of_rows() const { return squares(is_by_rows, rows); }
  std::vector<double> squares_of_columns() const { return squares(!is_by_rows, columns); }

private:
  std::int64_t lines() const { return is_by_rows ? rows : columns; }
  std::int64_t length() const { return is_by_rows ? columns : rows; }

  void add(const std::vector<double>& x, std::vector<double>& y, bool is_along_lines) const {
    const auto count = static_cast<std::size_t>(length());
    visit_lines(view, first, lines(), length(), [&](std::size_t line, const double* numbers) {
      if (!is_along_lines) {
        for (std::size_t i = 0; i < count; ++i) y[i] += numbers[i] * x[line];
        return;
      }
      double sum = 0.0;
      for (std::size_t i = 0; i < count; ++i) sum += numbers[i] * x[i];
      y[line] += sum;
    });
  }

  std::vector<double> squares(bool are_of_lines, std::int64_t many) const {
    std::vector<double> sums(static_cast<std::size_t>(many), 0.0);
    const auto count = static_cast<std::size_t>(length());
    visit_lines(view, first, lines(), length(), [&](std::size_t line, const double* numbers) {
      for (std::size_t i = 0; i < count; ++i) sums[are_of_lines ? line : i] += numbers[i] * numbers[i];
    });
    return sums;
  }
};

/// Signs alone would not do: where they add up to 0, an error that is the same in a whole row cancels.
std::vector<double> random_weights(std::int64_t count, Random& random) {
  constexpr std::int64_t steps = std::int64_t{1} << 20;
  std::vector<double> weights(static_cast<std::size_t>(count));
  for (double& weight : weights)
    weight = static_cast<double>(2 * random.below(steps) + 1 - steps) / static_cast<double>(steps);
  return weights;
}

struct Suspect {
  double score = 0.0;
  std::int64_t place = 0;
};

/// The `most` largest scores, largest first; NaN is larger than any number.
std::vector<Suspect> largest(std::vector<Suspect> suspects, std::size_t most) {
  for (Suspect& suspect : suspects)
    if (std::isnan(suspect.score)) suspect.score = infinite;
  const auto middle = suspects.begin() + static_cast<std::ptrdiff_t>(std::min(most, suspects.size()));
  std::partial_sort(suspects.begin(), middle, suspects.end(),
                    [](const Suspect& a, const Suspect& b) { return a.score > b.score; });
  suspects.erase(middle, suspects.end());
  return suspects;
}

/// |differences_i| / sqrt(squares_i), largest first.
std::vector<Suspect> worst_lines(const std::vector<double>& differences, const std::vector<double>& squares) {
  constexpr std::size_t most = 4;
  std::vector<Suspect> lines(differences.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const double size = std::sqrt(squares[i]), off = std::abs(differences[i]);
    lines[i] = {off == 0.0 ? 0.0 : off / size, static_cast<std::int64_t>(i)};
  }
  return largest(std::move(lines), most);
}

/// Where the worst rows and columns of one matrix of the result cross.
std::vector<Suspect> crossings(const CheckedProduct& product, const std::vector<double>& addends, std::int64_t batch,
                               Random& random) {
  const ProductPlan& plan = product.plan;
  const StoredMatrix a{product.a, plan.a_batch[static_cast<std::size_t>(batch)], plan.m, plan.k, plan.a_col == 1};
  const StoredMatrix b{product.b, plan.b_batch[static_cast<std::size_t>(batch)], plan.k, plan.n, plan.b_col == 1};
  const std::int64_t first = batch * plan.m * plan.n;
  const std::vector<double> z = random_weights(plan.n, random), w = random_weights(plan.m, random);
  std::vector<double> b_z(static_cast<std::size_t>(plan.k)), w_a(static_cast<std::size_t>(plan.k));
  std::vector<double> of_rows(static_cast<std::size_t>(plan.m)), of_columns(static_cast<std::size_t>(plan.n));
  b.add_product(z, b_z);
  a.add_left_product(w, w_a);
  a.add_product(b_z, of_rows);
  b.add_left_product(w_a, of_columns);
  for (double& x : of_rows) x *= -product.alpha;
  for (double& x : of_columns) x *= -product.alpha;
  const auto addend_of = [&](std::int64_t element) { return product.addend_of(first + element); };
  const std::int64_t addend_step = product.c && plan.n > 1 ? addend_of(1) - addend_of(0) : 0;
  visit_lines(product.computed, first, plan.m, plan.n, [&](std::size_t i, const double* computed) {
    std::int64_t at = product.c ? addend_of(static_cast<std::int64_t>(i) * plan.n) : 0;
    for (std::size_t j = 0; j < z.size(); ++j, at += addend_step) {
      const double addend = product.c ? product.beta * addends[static_cast<std::size_t>(at)] : 0.0;
      of_rows[i] += (computed[j] - addend) * z[j];
      of_columns[j] += w[i] * (computed[j] - addend);
    }
  });
  std::vector<Suspect> suspects;
  for (const Suspect& row : worst_lines(of_rows, a.squares_of_rows()))
    for (const Suspect& column : worst_lines(of_columns, b.squares_of_columns()))
      suspects.push_back({std::min(row.score, column.score), first + row.place * plan.n + column.place});
  return suspects;
}

void sort_and_merge(Numbers& numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

/// One number of each of `bands` bands of [0, end). Bands are of one length, end / bands, which need not be whole: a band
/// holds parts of the numbers at its ends, and draws them as rarely.
Numbers one_of_each_band(std::int64_t end, std::int64_t bands, Random& random) {
  Numbers numbers;
  const std::int64_t whole = bands > 0 ? end / bands : 0, left = bands > 0 ? end % bands : 0;
  for (std::int64_t band = 0; band < bands; ++band)  // (band end + place) / bands, without overflow
    numbers.push_back(band * whole + (band * left + random.below(end)) / bands);
  return numbers;
}

}  // namespace

std::int64_t Random::below(std::int64_t end) {
  const auto count = static_cast<std::uint64_t>(end);
  const std::uint64_t whole = ~std::uint64_t{0} / count * count;  // beyond it some numbers would be more likely
  std::uint64_t drawn = next();
  while (drawn >= whole) drawn = next();
  return static_cast<std::int64_t>(drawn % count);
}

std::uint64_t Random::next() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

std::vector<std::int64_t> stratified_draws(std::int64_t rows, std::int64_t columns, std::int64_t draws,
                                           Random& random) {
  const std::int64_t by_columns = rows > 1 && columns > 1 ? draws / 2 : 0;
  Numbers numbers = one_of_each_band(rows * columns, draws - by_columns, random);
  for (const std::int64_t e : one_of_each_band(rows * columns, by_columns, random))
    numbers.push_back(e % rows * columns + e / rows);
  sort_and_merge(numbers);
  return numbers;
}

std::vector<std::int64_t> extreme_elements(const ValueView& value) {
  constexpr std::int64_t blocks = 16;
  Numbers found;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t begin = value.size() * block / blocks, end = value.size() * (block + 1) / blocks;
    std::int64_t largest = -1, not_finite = -1;
    double most = -1.0;
    visit_lines(value, begin, end - begin, 1, [&](std::size_t at, const double* number) {
      const std::int64_t element = begin + static_cast<std::int64_t>(at);
      if (!std::isfinite(*number)) {
        if (not_finite < 0) not_finite = element;
      } else if (std::abs(*number) > most) {
        most = std::abs(*number);
        largest = element;
      }
    });
    for (const std::int64_t element : {largest, not_finite})
      if (element >= 0) found.push_back(element);
  }
  sort_and_merge(found);
  return found;
}

std::vector<std::int64_t> outlying_rows(const ValueView& value, std::int64_t length) {
  constexpr std::size_t of_each = 2, most_not_finite = 4;
  const std::int64_t rows = length == 0 ? 0 : value.size() / length;
  std::array<std::vector<Suspect>, 2> moments;  // sums, and sums of squares
  Numbers found;
  visit_lines(value, 0, rows, length, [&](std::size_t row, const double* numbers) {
    double sum = 0.0, squares = 0.0;
    for (std::int64_t i = 0; i < length; ++i) {
      sum += numbers[i];
      squares += numbers[i] * numbers[i];
    }
    const auto place = static_cast<std::int64_t>(row);
    if (!std::isfinite(sum)) {
      if (found.size() < most_not_finite) found.push_back(place);
    } else {
      moments[0].push_back({sum, place});
      moments[1].push_back({squares, place});
    }
  });
  for (std::vector<Suspect>& of_rows : moments) {
    if (of_rows.empty()) continue;
    std::vector<Suspect> ordered = of_rows;
    const auto middle = ordered.begin() + static_cast<std::ptrdiff_t>(ordered.size() / 2);
    std::nth_element(ordered.begin(), middle, ordered.end(),
                     [](const Suspect& a, const Suspect& b) { return a.score < b.score; });
    for (Suspect& row : of_rows) row.score = std::abs(row.score - middle->score);
    for (const Suspect& row : largest(std::move(of_rows), of_each)) found.push_back(row.place);
  }
  sort_and_merge(found);
  return found;
}

std::vector<std::int64_t> suspects_of_product(const CheckedProduct& product, Random& random) {
  constexpr std::size_t most = 64;
  std::vector<double> addends;
  if (product.c) addends = product.c->tensor().to_double().values;
  if (!std::all_of(addends.begin(), addends.end(), [](double x) { return std::isfinite(x); })) return {};
  std::vector<Suspect> suspects;
  for (std::int64_t batch = 0; batch < product.plan.batches; ++batch) {
    const std::vector<Suspect> more = crossings(product, addends, batch, random);
    suspects.insert(suspects.end(), more.begin(), more.end());
  }
  Numbers places;
  for (const Suspect& suspect : largest(std::move(suspects), most)) places.push_back(suspect.place);
  sort_and_merge(places);
  return places;
}

}  // namespace driftbound
