#include "bounds/adjoint/recursion.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>

namespace driftbound::bounds {
namespace {

constexpr std::size_t rows_at_once = 256;

/// Rows of tensors picked out, one after the other; what is the same for all rows stays as it is.
class Picked {
public:
  /// Values after `last` are left out.
  Picked(const Network& network, std::span<const RowElement> elements, ValueId last)
      : network_(network), elements_(elements), last_(last) {}

  std::vector<double> operator()(ValueId id, const std::vector<double>& values) const {
    if (id > last_ || values.empty()) return {};
    return network_.varies(id) ? rows_of(values) : values;
  }

  Shadow operator()(const Network& into, const Shadow& shadow) const {
    Shadow picked;
    for (ValueId id = 0; id < network_.size(); ++id) {
      picked.values.emplace_back(into.shape(id), (*this)(id, shadow.values[id].values));
      picked.error.push_back((*this)(id, shadow.error[id]));
    }
    return picked;
  }

  Deviation operator()(const Deviation& deviation) const {
    Deviation picked;
    for (ValueId id = 0; id < network_.size(); ++id) {
      picked.radii.push_back({(*this)(id, deviation.radii[id].element), {}});
      picked.added.push_back((*this)(id, deviation.added[id]));
      picked.remainder.push_back((*this)(id, deviation.remainder[id]));
    }
    for (std::size_t node = 0; node < deviation.slopes.size(); ++node) {
      std::vector<std::vector<double>> slopes;
      for (const std::vector<double>& of_operand : deviation.slopes[node])
        slopes.push_back((*this)(network_.nodes()[node].output, of_operand));
      picked.slopes.push_back(std::move(slopes));
    }
    return picked;
  }

private:
  std::vector<double> rows_of(const std::vector<double>& values) const {
    const std::size_t size = values.size() / static_cast<std::size_t>(network_.rows());
    std::vector<double> picked;
    picked.reserve(size * elements_.size());
    for (const RowElement& element : elements_) {
      const auto first = values.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(element.row) * size);
      picked.insert(picked.end(), first, first + static_cast<std::ptrdiff_t>(size));
    }
    return picked;
  }

  const Network& network_;
  std::span<const RowElement> elements_;
  ValueId last_;
};

}  // namespace

std::vector<RowElement> worth_refining(const std::vector<double>& weight, const std::vector<double>& remainder,
                                       std::int64_t rows, const Refinement& refinement) {
  std::vector<RowElement> chosen;
  const std::size_t size = remainder.size() / static_cast<std::size_t>(rows);
  std::vector<std::size_t> order(size);
  std::vector<double> cost(size);
  for (std::int64_t row = 0; row < rows; ++row) {
    double rest = 0.0;
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t at = static_cast<std::size_t>(row) * size + i;
      cost[i] = weight[at] == 0.0 || remainder[at] == 0.0 ? 0.0 : weight[at] * remainder[at];
      rest += cost[i];
    }
    if (rest <= refinement.allowance) continue;
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return cost[a] > cost[b]; });
    const auto most = std::min(size, static_cast<std::size_t>(refinement.most_elements));
    for (std::size_t k = 0; k < most && !(rest <= refinement.allowance); ++k) {
      chosen.push_back({row, order[k]});
      rest -= cost[order[k]];
    }
  }
  return chosen;
}

std::vector<double> radii_by_adjoints(const Network& network, const Shadow& shadow, const Deviation& deviation,
                                      ValueId value, const std::vector<RowElement>& elements, const Setting& setting) {
  std::vector<double> radii;
  for (std::size_t first = 0; first < elements.size(); first += rows_at_once) {
    const std::span<const RowElement> part =
        std::span(elements).subspan(first, std::min(rows_at_once, elements.size() - first));
    const std::optional<Network> one_row_each = network.with_rows(static_cast<std::int64_t>(part.size()));
    if (!one_row_each) {
      radii.insert(radii.end(), part.size(), Magnitude::infinite().value());
      continue;
    }
    const Picked picked(network, part, value);
    const Shadow centre = picked(*one_row_each, shadow);
    const std::vector<Deviation> deviations = {picked(deviation)};
    std::vector<double> c(centre.values[value].size(), 0.0);
    const std::size_t size = c.size() / part.size();
    for (std::size_t row = 0; row < part.size(); ++row) c[row * size + part[row].element] = 1.0;
    const std::vector<Certificate> certificates =
        sweep(*one_row_each, centre, deviations, {{value, std::move(c)}}, setting);
    radii.insert(radii.end(), certificates.front().total.begin(), certificates.front().total.end());
  }
  return radii;
}

}  // namespace driftbound::bounds
