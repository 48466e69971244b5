#include "analysis/noise.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <random>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analysis/vectorised.hpp"

namespace driftbound::analysis {
namespace {

/// Columns with a variance, each minus its mean, one after the other.
struct Columns {
  std::size_t rows = 0;
  std::vector<double> values;   ///< [columns, rows]
  std::vector<double> squares;  ///< of each column: the sum of its squares
  std::size_t count() const { return squares.size(); }
  double deviation(std::size_t j) const { return std::sqrt(squares[j] / static_cast<double>(rows)); }
};

/// Every `step`-th row.
Columns centred_columns(std::span<const double> differences, std::size_t columns, std::size_t step) {
  Columns made;
  made.rows = (differences.size() / columns + step - 1) / step;
  std::vector<double> column(made.rows);
  for (std::size_t j = 0; j < columns; ++j) {
    double sum = 0.0, squares = 0.0;
    for (std::size_t i = 0; i < made.rows; ++i) sum += column[i] = differences[i * step * columns + j];
    const bool is_constant = std::all_of(column.begin(), column.end(), [&](double x) { return x == column.front(); });
    for (double& x : column) {
      x -= sum / static_cast<double>(made.rows);
      squares += x * x;
    }
    if (is_constant || !(squares > 0.0)) continue;
    made.values.insert(made.values.end(), column.begin(), column.end());
    made.squares.push_back(squares);
  }
  return made;
}

/// Of about as many columns as asked for, evenly spread.
Columns spread_columns(const Columns& all, std::size_t count) {
  if (count >= all.count()) return all;
  Columns some;
  some.rows = all.rows;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t j = i * all.count() / count;
    const auto first = all.values.begin() + static_cast<std::ptrdiff_t>(j * all.rows);
    some.values.insert(some.values.end(), first, first + static_cast<std::ptrdiff_t>(all.rows));
    some.squares.push_back(all.squares[j]);
  }
  return some;
}

DRIFTBOUND_VECTORISED
double dot(const double* x, const double* y, std::size_t n) {
  constexpr std::size_t lanes = 16;
  double sums[lanes] = {};
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (std::size_t l = 0; l < lanes; ++l) sums[l] += x[i + l] * y[i + l];
  double sum = 0.0;
  for (const double one : sums) sum += one;
  for (; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

/// Adds x · y to each of four sums, for four y that lie `step` numbers apart.
DRIFTBOUND_VECTORISED
void add_dots(const double* x, const double* y, std::size_t step, std::size_t n, double* sums) {
  constexpr std::size_t lanes = 8;
  double of_0[lanes] = {}, of_1[lanes] = {}, of_2[lanes] = {}, of_3[lanes] = {};
  const double *y1 = y + step, *y2 = y1 + step, *y3 = y2 + step;
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (std::size_t l = 0; l < lanes; ++l) {
      of_0[l] += x[i + l] * y[i + l];
      of_1[l] += x[i + l] * y1[i + l];
      of_2[l] += x[i + l] * y2[i + l];
      of_3[l] += x[i + l] * y3[i + l];
    }
  for (std::size_t l = 0; l < lanes; ++l) {
    sums[0] += of_0[l];
    sums[1] += of_1[l];
    sums[2] += of_2[l];
    sums[3] += of_3[l];
  }
  for (; i < n; ++i) {
    sums[0] += x[i] * y[i];
    sums[1] += x[i] * y1[i];
    sums[2] += x[i] * y2[i];
    sums[3] += x[i] * y3[i];
  }
}

/// The products of all pairs of columns, each with itself included. [count, count]
std::vector<double> products_of(const std::vector<double>& columns, std::size_t count, std::size_t rows) {
  constexpr std::size_t block = 32, at_once = 512, together = 4;
  std::vector<double> all(count * count, 0.0);
  for (std::size_t first = 0; first < count; first += block)
    for (std::size_t other = first; other < count; other += block)
      for (std::size_t row = 0; row < rows; row += at_once) {
        const std::size_t last = std::min(other + block, count), n = std::min(at_once, rows - row);
        for (std::size_t i = first; i < std::min(first + block, count); ++i) {
          const double* const x = &columns[i * rows + row];
          std::size_t j = std::max(other, i);
          for (; j + together <= last; j += together)
            add_dots(x, &columns[j * rows + row], rows, n, &all[i * count + j]);
          for (; j < last; ++j) all[i * count + j] += dot(x, &columns[j * rows + row], n);
        }
      }
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = 0; j < i; ++j) all[i * count + j] = all[j * count + i];
  return all;
}

double largest_eigenvalue(const std::vector<double>& matrix, std::size_t n) {
  constexpr int steps = 60;
  std::vector<double> x(n), y(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = 1.0 + 0.5 * std::sin(static_cast<double>(i));  // no eigenvector by chance
  double length = 0.0;
  for (int step = 0; step < steps; ++step) {
    const double norm = std::sqrt(dot(x.data(), x.data(), n));
    for (double& value : x) value /= norm;
    for (std::size_t i = 0; i < n; ++i) y[i] = dot(&matrix[i * n], x.data(), n);
    length = dot(x.data(), y.data(), n);
    std::swap(x, y);
  }
  return length;
}

/// What is asked of the correlations r_ij of all pairs of columns.
struct Correlations {
  double squares = 0.0;     ///< sum over i < j of r_ij^2
  double covariance = 0.0;  ///< sum over i < j of s_i s_j |r_ij|
  double eigenvalue = 0.0;  ///< the largest
};

Correlations correlations_of(const std::vector<double>& values, const Columns& columns) {
  const std::size_t count = columns.count();
  std::vector<double> r = products_of(values, count, columns.rows);
  Correlations made;
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = 0; j < count; ++j) {
      double& one = r[i * count + j];
      if (j > i) made.covariance += std::abs(one) / static_cast<double>(columns.rows);
      one = i == j ? 1.0 : one / std::sqrt(columns.squares[i] * columns.squares[j]);
      if (j > i) made.squares += one * one;
    }
  made.eigenvalue = largest_eigenvalue(r, count);
  return made;
}

/// P(|Z| > z) of a normal Z.
double two_sided(double z) {
  return std::erfc(std::abs(z) / std::sqrt(2.0));
}

/// P(G > x) of a G of the gamma distribution with this shape and scale 1: by the series below the mean, by the continued
/// fraction above it.
double gamma_tail(double shape, double x) {
  constexpr int most = 100000;
  constexpr double exact = 1e-13, tiny = 1e-300;
  if (x <= 0.0) return 1.0;
  const double factor = std::exp(shape * std::log(x) - x - std::lgamma(shape));
  if (x < shape + 1.0) {
    double term = 1.0 / shape, sum = term;
    for (int i = 1; i < most && term > exact * sum; ++i) sum += term *= x / (shape + i);
    return std::clamp(1.0 - sum * factor, 0.0, 1.0);
  }
  double b = x + 1.0 - shape, c = 1.0 / tiny, d = 1.0 / b, fraction = d;
  for (int i = 1; i < most; ++i) {  // modified Lentz
    const double a = -i * (i - shape);
    b += 2.0;
    d = a * d + b;
    d = 1.0 / (std::abs(d) < tiny ? tiny : d);
    c = b + a / c;
    if (std::abs(c) < tiny) c = tiny;
    fraction *= c * d;
    if (std::abs(c * d - 1.0) < exact) break;
  }
  return std::clamp(fraction * factor, 0.0, 1.0);
}

/// P(X > x) of an X with these moments: normal, or a gamma distribution moved (Pearson's type III).
double upper_tail(double x, double mean, double variance, double skewness) {
  constexpr double nearly_normal = 0.01;
  if (!(variance > 0.0)) return x > mean * (1.0 + 1e-9) ? 0.0 : 1.0;
  const double z = (x - mean) / std::sqrt(variance);
  if (skewness < nearly_normal) return 0.5 * std::erfc(z / std::sqrt(2.0));
  const double shape = 4.0 / (skewness * skewness);
  return gamma_tail(shape, shape + z * std::sqrt(shape));
}

/// Of numbers drawn under a null.
class Drawn {
public:
  void add(double x) { all_.push_back(x); }
  double mean() const {
    double sum = 0.0;
    for (const double x : all_) sum += x;
    return sum / static_cast<double>(all_.size());
  }
  double variance() const {
    return moment(2) * static_cast<double>(all_.size()) / static_cast<double>(all_.size() - 1);
  }
  double skewness() const {
    const double second = moment(2);
    return second > 0.0 ? std::max(moment(3) / (second * std::sqrt(second)), 0.0) : 0.0;
  }
  /// Probability of a number as large as x or larger: by counting where enough are, else by the moments.
  double tail(double x) const {
    constexpr std::ptrdiff_t enough = 10;
    const auto reach = std::count_if(all_.begin(), all_.end(), [&](double one) { return one >= x; });
    const double counted = static_cast<double>(reach + 1) / static_cast<double>(all_.size() + 1);
    return reach >= enough ? counted : std::min(upper_tail(x, mean(), variance(), skewness()), counted);
  }

private:
  double moment(int power) const {
    const double middle = mean();
    double sum = 0.0;
    for (const double x : all_) sum += std::pow(x - middle, power);
    return sum / static_cast<double>(all_.size());
  }

  std::vector<double> all_;
};

struct DrawnCorrelations {
  Drawn squares, covariance, eigenvalue;
  void add(const Correlations& one) {
    squares.add(one.squares);
    covariance.add(one.covariance);
    eigenvalue.add(one.eigenvalue);
  }
};

/// Correlations of columns that are independent: `change` makes them so, column by column.
template <class Change>
DrawnCorrelations drawn_correlations(const Columns& columns, int draws, const Change& change) {
  DrawnCorrelations drawn;
  std::vector<double> values;
  for (int draw = 0; draw < draws; ++draw) {
    values = columns.values;
    for (std::size_t j = 0; j < columns.count(); ++j)
      change(std::span<double>(&values[j * columns.rows], columns.rows));
    drawn.add(correlations_of(values, columns));
  }
  return drawn;
}

void permute(std::span<double> column, std::mt19937_64& random) {
  for (std::size_t i = column.size(); i > 1; --i) {
    const std::size_t other = ((random() >> 32) * i) >> 32;  // fewer than 2^32 rows
    std::swap(column[i - 1], column[other]);
  }
}

void change_signs(std::span<double> column, std::mt19937_64& random) {
  for (std::size_t i = 0; i < column.size(); i += 64) {
    std::uint64_t bits = random();
    for (std::size_t k = i; k < std::min(i + 64, column.size()); ++k, bits >>= 1U)
      if ((bits & 1U) != 0) column[k] = -column[k];
  }
}

/// The moments of the sum of squared correlations under random signs (T-180 (b)). Takes the columns' values as workspace.
PermutedMoments moments_if_signs(Columns columns) {
  const std::size_t count = columns.count(), rows = columns.rows;
  std::vector<double> sums(rows, 0.0), squares(rows, 0.0), fourths(rows, 0.0);
  for (std::size_t j = 0; j < count; ++j)
    for (std::size_t i = 0; i < rows; ++i) {
      double& x = columns.values[j * rows + i];
      const double w = x * x / columns.squares[j];
      x = w;
      sums[i] += w;
      squares[i] += w * w;
      fourths[i] += w * w * w * w;
    }
  PermutedMoments moments;
  double of_fourths = 0.0;
  for (std::size_t i = 0; i < rows; ++i) {
    moments.mean += 0.5 * (sums[i] * sums[i] - squares[i]);
    of_fourths += 0.5 * (squares[i] * squares[i] - fourths[i]);
  }
  const std::vector<double> products = products_of(columns.values, count, rows);
  double of_products = 0.0;
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t j = i + 1; j < count; ++j) of_products += products[i * count + j] * products[i * count + j];
  moments.variance = std::max(2.0 * (of_products - of_fourths), 0.0);
  return moments;
}

/// P(largest eigenvalue > x) of the correlations of independent columns of numbers without a heavy tail: the law of Tracy
/// and Widom with Johnstone's centre and scale, as a gamma distribution moved (Chiani).
double tracy_widom_tail(double x, double rows, double columns) {
  constexpr double shape = 46.446, scale = 0.186054, moved = 9.84801;
  const double n = rows - 1.0, root = std::sqrt(n - 1.0) + std::sqrt(columns);
  const double width = root * std::cbrt(1.0 / std::sqrt(n - 1.0) + 1.0 / std::sqrt(columns));
  const double t = (n * x - root * root) / width;
  return gamma_tail(shape, (t + moved) / scale);
}

/// The sum over i < j of s_i s_j, and that of all s_i^2.
std::pair<double, double> scales_of(const Columns& columns) {
  double sum = 0.0, squares = 0.0;
  for (std::size_t j = 0; j < columns.count(); ++j) {
    sum += columns.deviation(j);
    squares += columns.deviation(j) * columns.deviation(j);
  }
  return {0.5 * (sum * sum - squares), squares};
}

/// Whether nearly all elements differ and no column has a heavy tail.
bool are_continuous(std::span<const double> fourths, std::size_t rows, double differing) {
  constexpr double heavy = 8.0, nearly_all = 0.99;
  return differing > nearly_all && std::all_of(fourths.begin(), fourths.end(), [&](double fourth) {
           return fourth * static_cast<double>(rows) < heavy;
         });
}

void add_correlations(const Columns& columns, NoiseStructure& noise) {
  constexpr double most_drawn = 1e7;  // products of two numbers, a draw of both nulls
  constexpr std::size_t fewest = 8;
  constexpr double most_moved = 4e7, most_draws = 200.0, fewest_draws = 50.0;
  const std::size_t count = columns.count(), rows = columns.rows;
  const double fitting = std::sqrt(most_drawn / static_cast<double>(rows));
  const Columns some = spread_columns(columns, std::max(fewest, static_cast<std::size_t>(fitting)));
  const double moved = static_cast<double>(rows * some.count());
  const auto draws = static_cast<int>(std::clamp(most_moved / moved, fewest_draws, most_draws));
  noise.draws = draws;
  noise.drawn_columns = static_cast<std::int64_t>(some.count());
  std::mt19937_64 random(139);
  const DrawnCorrelations permuted =
      drawn_correlations(some, draws, [&](std::span<double> column) { permute(column, random); });
  const DrawnCorrelations signs =
      drawn_correlations(some, draws, [&](std::span<double> column) { change_signs(column, random); });
  std::vector<double> fourths(count, 0.0);
  for (std::size_t j = 0; j < count; ++j)
    for (std::size_t i = 0; i < rows; ++i) {
      const double square = columns.values[j * rows + i] * columns.values[j * rows + i] / columns.squares[j];
      fourths[j] += square * square;
    }
  const Correlations seen = correlations_of(columns.values, columns);
  const auto [pairs, diagonal] = scales_of(columns);
  const double if_independent = pairs * permuted.covariance.mean() / scales_of(some).first;
  noise.off_share = 2.0 * seen.covariance / (2.0 * seen.covariance + diagonal);
  noise.off_share_if_independent = 2.0 * if_independent / (2.0 * if_independent + diagonal);
  const auto n = static_cast<double>(rows), k = static_cast<double>(count);
  const PermutedMoments of_permuted = moments_if_permuted(fourths, static_cast<std::int64_t>(rows));
  const PermutedMoments of_signs = moments_if_signs(columns);
  const double lost = n / (n - 1.0);  // columns minus their means have one number less
  noise.p_permuted = upper_tail(seen.squares, of_permuted.mean, of_permuted.variance, permuted.squares.skewness());
  noise.p_signs =
      upper_tail(seen.squares, lost * of_signs.mean, lost * lost * of_signs.variance, signs.squares.skewness());
  noise.largest_eigenvalue = seen.eigenvalue;
  noise.edge = (1.0 + std::sqrt(k / n)) * (1.0 + std::sqrt(k / n));
  if (some.count() == count) {
    noise.p_eigenvalue = std::max(permuted.eigenvalue.tail(seen.eigenvalue), signs.eigenvalue.tail(seen.eigenvalue));
  } else if (are_continuous(fourths, rows, noise.differing)) {
    noise.p_eigenvalue = tracy_widom_tail(seen.eigenvalue, n, k);
  }
  noise.p_correlation = std::max(noise.p_permuted, noise.p_signs);
  if (noise.p_eigenvalue) noise.p_correlation = std::min(1.0, 2.0 * std::min(noise.p_correlation, *noise.p_eigenvalue));
}

/// The mean of numbers in rows, and the probability of one as far from 0 if the rows' signs are random.
std::pair<double, double> mean_of_rows(std::span<const double> numbers, std::size_t columns) {
  const std::size_t rows = numbers.size() / columns;
  double sum = 0.0, squares = 0.0;
  for (std::size_t i = 0; i < rows; ++i) {
    double mean = 0.0;
    for (std::size_t j = 0; j < columns; ++j) mean += numbers[i * columns + j] / static_cast<double>(columns);
    sum += mean;
    squares += mean * mean;
  }
  return {sum / static_cast<double>(rows), squares > 0.0 ? two_sided(sum / std::sqrt(squares)) : 1.0};
}

/// The same of the differences times the signs of a run's numbers.
std::pair<double, double> mean_outward(std::span<const double> differences, std::span<const double> numbers,
                                       std::size_t columns) {
  std::vector<double> outward(differences.begin(), differences.end());
  for (std::size_t i = 0; i < outward.size(); ++i)
    outward[i] = numbers[i] > 0.0 ? outward[i] : numbers[i] < 0.0 ? -outward[i] : 0.0;
  return mean_of_rows(outward, columns);
}

/// The first of all rows that are the same in both runs, bit for bit: repeated samples are no independent ones.
std::vector<std::size_t> different_rows(std::span<const double> first, std::span<const double> second,
                                        std::size_t width) {
  const auto bytes_of = [&](std::span<const double> of, std::size_t row) {
    return std::string_view(reinterpret_cast<const char*>(of.data() + row * width), width * sizeof(double));
  };
  std::unordered_map<std::size_t, std::vector<std::size_t>> seen;  // by hash
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < first.size() / width; ++row) {
    const std::hash<std::string_view> hash;
    std::vector<std::size_t>& alike = seen[hash(bytes_of(first, row)) ^ (3 * hash(bytes_of(second, row)))];
    const bool is_repeated = std::any_of(alike.begin(), alike.end(), [&](std::size_t other) {
      return bytes_of(first, other) == bytes_of(first, row) && bytes_of(second, other) == bytes_of(second, row);
    });
    if (is_repeated) continue;
    alike.push_back(row);
    rows.push_back(row);
  }
  return rows;
}

std::vector<double> rows_of(std::span<const double> all, const std::vector<std::size_t>& rows, std::size_t width) {
  std::vector<double> some;
  some.reserve(rows.size() * width);
  for (const std::size_t row : rows) some.insert(some.end(), &all[row * width], &all[row * width] + width);
  return some;
}

}  // namespace

PermutedMoments moments_if_permuted(std::span<const double> fourths, std::int64_t rows) {
  const auto n = static_cast<double>(rows), k = static_cast<double>(fourths.size());
  double sum = 0.0, squares = 0.0;
  for (const double fourth : fourths) {
    sum += fourth;
    squares += fourth * fourth;
  }
  const double pairs = 0.5 * k * (k - 1.0), sums = 0.5 * (k - 1.0) * sum, products = 0.5 * (sum * sum - squares);
  // Sums over pairs of a b, (1 - a)(1 - b) and (1 - 2a)(1 - 2b), with a and b of the two columns.
  const double both = products, less = pairs - 2.0 * sums + products, twice = pairs - 4.0 * sums + 4.0 * products;
  const double fourth_moments = both / n + 4.0 * both / (n * (n - 1.0)) + 3.0 * less / (n * (n - 1.0)) +
                                6.0 * twice / (n * (n - 1.0) * (n - 2.0)) +
                                9.0 * twice / (n * (n - 1.0) * (n - 2.0) * (n - 3.0));
  const double mean = 1.0 / (n - 1.0);
  return {pairs * mean, std::max(fourth_moments - pairs * mean * mean, 0.0)};
}

std::optional<NoiseStructure> estimate_noise_structure(std::span<const double> first, std::span<const double> second,
                                                       std::int64_t columns) {
  constexpr double most_operations = 2e10, most_rows = 0x1p17;
  constexpr std::size_t fewest_rows = 64, fewest_columns = 4;
  const auto width = static_cast<std::size_t>(std::max<std::int64_t>(columns, 1));
  const std::size_t given = first.size() / width;
  const std::vector<std::size_t> different = different_rows(first, second, width);
  if (different.size() < given) {
    const std::vector<double> x = rows_of(first, different, width), y = rows_of(second, different, width);
    std::optional<NoiseStructure> noise = estimate_noise_structure(x, y, columns);
    if (!noise) return std::nullopt;
    noise->all_rows = static_cast<std::int64_t>(given);
    noise->repeated_rows = static_cast<std::int64_t>(given - different.size());
    return noise;
  }
  std::vector<double> differences(first.size());
  for (std::size_t i = 0; i < first.size(); ++i) differences[i] = second[i] - first[i];
  const bool is_finite = std::all_of(differences.begin(), differences.end(), [](double x) { return std::isfinite(x); });
  const std::size_t rows = differences.size() / width;
  if (!is_finite || rows < fewest_rows) return std::nullopt;
  const double of_a_row = static_cast<double>(width) * static_cast<double>(width);
  const double most = std::min(most_rows, most_operations / of_a_row);
  const auto step = static_cast<std::size_t>(std::max(1.0, std::ceil(static_cast<double>(rows) / most)));
  if (rows / step < fewest_rows) return std::nullopt;
  const Columns used = centred_columns(differences, width, step);
  if (used.count() < fewest_columns) return std::nullopt;
  NoiseStructure noise;
  noise.all_rows = static_cast<std::int64_t>(rows);
  noise.rows = static_cast<std::int64_t>(used.rows);
  noise.columns = static_cast<std::int64_t>(used.count());
  std::size_t differing = 0;
  for (std::size_t i = 0; i < rows; i += step)
    for (std::size_t j = 0; j < width; ++j) differing += differences[i * width + j] != 0.0 ? 1U : 0U;
  noise.differing = static_cast<double>(differing) / static_cast<double>(used.rows * width);
  add_correlations(used, noise);
  std::tie(noise.mean, noise.p_mean) = mean_of_rows(differences, width);
  const auto [of_first, p_first] = mean_outward(differences, first, width);
  const auto [of_second, p_second] = mean_outward(differences, second, width);
  noise.mean_outward = 0.5 * (of_first + of_second);
  noise.p_outward = of_first * of_second > 0.0 ? std::max(p_first, p_second) : 1.0;
  return noise;
}

}  // namespace driftbound::analysis
