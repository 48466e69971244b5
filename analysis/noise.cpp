#include "analysis/noise.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "analysis/vectorised.hpp"

namespace driftbound::analysis {
namespace {

/// Columns with a variance, each minus its mean, one after the other.
struct Columns {
  std::size_t rows = 0;
  std::vector<double> values;  ///< [columns, rows]
  std::vector<double> deviations;
  std::size_t count() const { return deviations.size(); }
};

/// Every `step`-th row.
Columns centred_columns(std::span<const double> differences, std::size_t columns, std::size_t step) {
  Columns made;
  made.rows = (differences.size() / columns + step - 1) / step;
  std::vector<double> column(made.rows);
  for (std::size_t j = 0; j < columns; ++j) {
    double sum = 0.0, squares = 0.0;
    for (std::size_t i = 0; i < made.rows; ++i) sum += column[i] = differences[i * step * columns + j];
    for (double& x : column) {
      x -= sum / static_cast<double>(made.rows);
      squares += x * x;
    }
    if (!(squares > 0.0)) continue;
    made.values.insert(made.values.end(), column.begin(), column.end());
    made.deviations.push_back(std::sqrt(squares / static_cast<double>(made.rows)));
  }
  return made;
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

/// The correlations of all pairs of columns.
std::vector<double> correlations_of(const Columns& columns) {
  constexpr std::size_t block = 32;
  const std::size_t count = columns.count();
  std::vector<double> all(count * count, 1.0);
  for (std::size_t first = 0; first < count; first += block)
    for (std::size_t other = first; other < count; other += block)
      for (std::size_t i = first; i < std::min(first + block, count); ++i)
        for (std::size_t j = std::max(other, i + 1); j < std::min(other + block, count); ++j) {
          const double product =
              dot(&columns.values[i * columns.rows], &columns.values[j * columns.rows], columns.rows);
          const double r =
              product / (static_cast<double>(columns.rows) * columns.deviations[i] * columns.deviations[j]);
          all[i * count + j] = all[j * count + i] = r;
        }
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

/// P(|Z| > z) of a normal Z.
double two_sided(double z) {
  return std::erfc(std::abs(z) / std::sqrt(2.0));
}

void add_mean(std::span<const double> differences, std::size_t columns, NoiseStructure& noise) {
  const std::size_t rows = differences.size() / columns;
  double sum = 0.0, squares = 0.0;
  for (std::size_t i = 0; i < rows; ++i) {
    double mean = 0.0;
    for (std::size_t j = 0; j < columns; ++j) mean += differences[i * columns + j] / static_cast<double>(columns);
    sum += mean;
    squares += mean * mean;
  }
  noise.mean = sum / static_cast<double>(rows);
  if (squares > 0.0) noise.p_mean = two_sided(sum / std::sqrt(squares));  // each mean with a random sign
}

}  // namespace

std::optional<NoiseStructure> estimate_noise_structure(std::span<const double> differences, std::int64_t columns) {
  constexpr double most_operations = 2e10;
  constexpr std::size_t fewest_rows = 64, fewest_columns = 4;
  const auto width = static_cast<std::size_t>(std::max<std::int64_t>(columns, 1));
  const bool is_finite = std::all_of(differences.begin(), differences.end(), [](double x) { return std::isfinite(x); });
  if (!is_finite || differences.size() / width < fewest_rows) return std::nullopt;
  const double operations = static_cast<double>(differences.size()) * static_cast<double>(width);
  const auto step = static_cast<std::size_t>(std::max(1.0, std::ceil(operations / most_operations)));
  if (differences.size() / width / step < fewest_rows) return std::nullopt;
  const Columns used = centred_columns(differences, width, step);
  const std::size_t count = used.count();
  if (count < fewest_columns) return std::nullopt;
  NoiseStructure noise;
  noise.rows = static_cast<std::int64_t>(used.rows);
  noise.columns = static_cast<std::int64_t>(count);
  const std::vector<double> r = correlations_of(used);
  double diagonal = 0.0, off = 0.0, of_independent = 0.0, squares = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    diagonal += used.deviations[i] * used.deviations[i];
    for (std::size_t j = i + 1; j < count; ++j) {
      const double scale = used.deviations[i] * used.deviations[j], one = r[i * count + j];
      off += 2.0 * scale * std::abs(one);
      of_independent += 2.0 * scale;
      squares += one * one;
    }
  }
  const auto n = static_cast<double>(used.rows), k = static_cast<double>(count);
  of_independent *= std::sqrt(2.0 / (3.14159265358979323846 * n));
  noise.off_share = off / (off + diagonal);
  noise.off_share_if_independent = of_independent / (of_independent + diagonal);
  const double degrees = n - 1.0, expected = k * (k - 1.0) / (2.0 * degrees);
  const double variance = k * (k - 1.0) * (degrees - 1.0) / (degrees * degrees * (degrees + 2.0));
  noise.p_correlation = 0.5 * std::erfc((squares - expected) / std::sqrt(2.0 * variance));
  noise.largest_eigenvalue = largest_eigenvalue(r, count);
  noise.edge = (1.0 + std::sqrt(k / n)) * (1.0 + std::sqrt(k / n));
  add_mean(differences, width, noise);
  return noise;
}

}  // namespace driftbound::analysis
