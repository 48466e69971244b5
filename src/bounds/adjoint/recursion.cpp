#include "bounds/adjoint/recursion.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "bounds/kernels/row_kernels.hpp"
#include "program/program_cache.hpp"

namespace driftbound::bounds {
namespace {

constexpr std::size_t fewest_rows = 16;

/// Copies the row of every chosen element into tensors with one row per element, whose memory is reused. Tensors that
/// are the same for all rows are copied unchanged.
class Picked {
public:
  /// Values with an id above `last` are left empty.
  Picked(const Program& program, std::span<const RowElement> elements, ValueId last)
      : program_(program), elements_(elements), last_(last) {}

  void put(ValueId id, const std::vector<double>& values, std::vector<double>& picked) const {
    if (id > last_ || values.empty()) return picked.clear();
    if (program_.varies(id)) return put_rows(values, picked);
    picked = values;
  }

  /// Copies the values that vary; `picked` already has all others.
  void put(const Shadow& shadow, Shadow& picked) const {
    for (ValueId id = 0; id < program_.size(); ++id) {
      if (!program_.varies(id)) continue;
      put(id, shadow.value(id).values, picked.values[id].values);
      put(id, shadow.error[id], picked.error[id]);
    }
  }

  void put(const Deviation& deviation, Deviation& picked) const {
    picked.radii.resize(program_.size());
    picked.added.resize(program_.size());
    picked.remainder.resize(program_.size());
    picked.slopes.resize(deviation.slopes.size());
    for (ValueId id = 0; id < program_.size(); ++id) {
      put(id, deviation.radii[id].element, picked.radii[id].element);
      put(id, deviation.added[id], picked.added[id]);
      put(id, deviation.remainder[id], picked.remainder[id]);
    }
    for (std::size_t node = 0; node < deviation.slopes.size(); ++node) {
      const std::vector<std::vector<double>>& slopes = deviation.slopes[node];
      picked.slopes[node].resize(slopes.size());
      for (std::size_t slot = 0; slot < slopes.size(); ++slot)
        put(program_.nodes()[node].output, slopes[slot], picked.slopes[node][slot]);
    }
  }

private:
  void put_rows(const std::vector<double>& values, std::vector<double>& picked) const {
    const std::size_t size = values.size() / static_cast<std::size_t>(program_.rows());
    picked.resize(size * elements_.size());
    auto next = picked.begin();
    for (const RowElement& element : elements_) {
      const auto first = values.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(element.row) * size);
      next = std::copy(first, first + static_cast<std::ptrdiff_t>(size), next);
    }
  }

  const Program& program_;
  std::span<const RowElement> elements_;
  ValueId last_;
};

/// Returns weight times remainder; 0 if either is 0, even if the other is infinite.
double cost_of(double weight, double remainder) {
  const double cost = weight * remainder;
  return ((weight == 0.0) | (remainder == 0.0)) ? 0.0 : cost;
}

/// Returns Program::with_rows(), from the cache of programs if the setting has one; null if it does not exist.
std::shared_ptr<const Program> program_with_rows(const Program& program, std::int64_t rows, const Setting& setting) {
  if (setting.programs != nullptr) return setting.programs->with_rows(program, rows);
  std::optional<Program> other = program.with_rows(rows);
  return other ? std::make_shared<const Program>(std::move(*other)) : nullptr;
}

/// Returns how many rows one sweep propagates together: a power of two between 16 and 256, such that about 2^22 numbers
/// or fewer are stored unless 16 rows have more.
std::size_t rows_at_once(const Program& program) {
  constexpr std::size_t most_rows = 256, most_numbers = std::size_t{1} << 22;
  return std::clamp(std::bit_floor(most_numbers / std::max<std::size_t>(numbers_of_row(program), 1)), fewest_rows,
                    most_rows);
}

}  // namespace

std::size_t numbers_of_row(const Program& program) {
  std::size_t numbers = 0;
  for (ValueId id = 0; id < program.size(); ++id)
    if (program.varies(id)) numbers += static_cast<std::size_t>(element_count(program.shape(id)) / program.rows(id));
  return numbers;
}

AdjointRadii::AdjointRadii(const Program& program, const Shadow& shadow, const Setting& setting)
    : program_(program), shadow_(shadow), setting_(setting), rows_at_once_(rows_at_once(program)) {}

bool may_be_refined(const Program& program, const Node& node) {
  const bool is_function_of_one =
      std::visit([]<class T>(const T&) { return ElementwiseUnary<T> && !OneOf<T, op::Neg, op::Cast>; }, node.op) ||
      std::holds_alternative<op::Gelu>(node.op);
  return is_function_of_one && program.varies(node.inputs[0]);
}

std::vector<RowElement> worth_refining(const std::vector<double>& weight, const std::vector<double>& remainder,
                                       std::int64_t rows, const Refinement& refinement) {
  std::vector<RowElement> chosen;
  const std::size_t size = remainder.size() / static_cast<std::size_t>(rows);
  const double least = std::max(refinement.least, refinement.allowance / static_cast<double>(size));
  const RowKernels& kernels = fastest_row_kernels();
  std::vector<double> of_elements(size);
  std::vector<std::pair<double, std::size_t>> costs;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::size_t first = static_cast<std::size_t>(row) * size;
    double rest = kernels.weighted_sum(weight.data() + first, remainder.data() + first, size);
    if (rest <= refinement.allowance) continue;
    for (std::size_t i = 0; i < size; ++i) of_elements[i] = cost_of(weight[first + i], remainder[first + i]);
    if (!std::isfinite(rest)) rest = std::accumulate(of_elements.begin(), of_elements.end(), 0.0);
    costs.clear();
    for (std::size_t i = 0; i < size; ++i)  // costs below allowance / size need not be refined
      if (of_elements[i] != 0.0 && !(of_elements[i] < least)) costs.emplace_back(of_elements[i], i);
    std::make_heap(costs.begin(), costs.end());
    for (std::int64_t k = 0; k < refinement.most_elements && !costs.empty() && !(rest <= refinement.allowance); ++k) {
      std::pop_heap(costs.begin(), costs.end());
      chosen.push_back({row, costs.back().second});
      rest -= costs.back().first;
      costs.pop_back();
    }
  }
  return chosen;
}

double least_worth_refining(const std::vector<std::vector<double>>& remainders, std::int64_t rows,
                            const Refinement& refinement, std::int64_t most) {
  std::vector<double> costs;
  for (ValueId id = 0; id < remainders.size(); ++id) {
    const std::vector<double>&remainder = remainders[id], &weight = refinement.weight[id];
    if (remainder.empty() || weight.empty()) continue;
    const std::size_t size = remainder.size() / static_cast<std::size_t>(rows);
    for (const RowElement& chosen : worth_refining(weight, remainder, rows, refinement)) {
      const std::size_t at = static_cast<std::size_t>(chosen.row) * size + chosen.element;
      costs.push_back(cost_of(weight[at], remainder[at]));
    }
  }
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(most, 0));
  if (costs.size() <= count) return 0.0;
  const auto first_left_out = costs.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(costs.begin(), first_left_out, costs.end(), std::greater<>());
  return std::nextafter(*first_left_out, std::numeric_limits<double>::infinity());
}

AdjointRadii::OneRowEach* AdjointRadii::with_rows(std::size_t rows) {
  const auto [known, is_new] = by_rows_.try_emplace(rows);
  if (is_new) {
    std::shared_ptr<const Program> program = program_with_rows(program_, static_cast<std::int64_t>(rows), setting_);
    if (program) {
      Shadow shadow;
      shadow.values.resize(program->size());
      for (ValueId id = 0; id < program->size(); ++id) {
        const bool varies = program->varies(id);
        if (varies) shadow.values[id].shape = program->shape(id);
        shadow.kept_elsewhere.push_back(varies ? nullptr : &shadow_.value(id));
        shadow.error.push_back(varies ? std::vector<double>() : shadow_.error[id]);
      }
      known->second.emplace(OneRowEach{std::move(program), std::move(shadow), std::vector<Deviation>(1)});
    }
  }
  return known->second ? &*known->second : nullptr;
}

std::vector<double> AdjointRadii::of_part(OneRowEach& rows, const Deviation& deviation, ValueId value,
                                          std::span<const RowElement> part) const {
  const Picked picked(program_, part, value);
  picked.put(shadow_, rows.shadow);
  picked.put(deviation, rows.deviation.front());
  std::vector<double> c(rows.shadow.value(value).size(), 0.0);
  const std::size_t size = c.size() / part.size();
  for (std::size_t row = 0; row < part.size(); ++row) c[row * size + part[row].element] = 1.0;
  return sweep(*rows.program, rows.shadow, rows.deviation, {{value, std::move(c)}}, setting_).front().total;
}

std::vector<double> AdjointRadii::operator()(const Deviation& deviation, ValueId value,
                                             const std::vector<RowElement>& elements) {
  std::vector<double> radii;
  for (std::size_t first = 0; first < elements.size(); first += rows_at_once_) {
    const std::size_t count = std::min(rows_at_once_, elements.size() - first);
    std::vector<RowElement> part(elements.begin() + static_cast<std::ptrdiff_t>(first),
                                 elements.begin() + static_cast<std::ptrdiff_t>(first + count));
    // Powers of two: few sizes occur, so that few programs are needed.
    part.resize(std::max(fewest_rows, std::bit_ceil(count)), part.back());
    OneRowEach* rows = with_rows(part.size());
    std::vector<double> of_these = rows != nullptr
                                       ? of_part(*rows, deviation, value, part)
                                       : std::vector<double>(part.size(), std::numeric_limits<double>::infinity());
    of_these.resize(count);
    radii.insert(radii.end(), of_these.begin(), of_these.end());
  }
  return radii;
}

}  // namespace driftbound::bounds
