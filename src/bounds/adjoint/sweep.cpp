#include "bounds/adjoint/sweep.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "bounds/nodes/transpose.hpp"
#include "bounds/theorems/outward.hpp"
#include "bounds/theorems/rows.hpp"
#include "bounds/theorems/trajectories.hpp"

namespace driftbound::bounds {
namespace {

/// The stored adjoint d of one value, and a bound of its defect in T-60.
struct Adjoint {
  std::vector<double> d;
  std::vector<double> defect;  ///< tau; empty: all 0

  bool is_present() const { return !d.empty(); }

  void add(Transposed share, const RowKernels& rows) {
    if (!is_present()) {
      d = std::move(share.values);
      defect = std::move(share.defect);
      return;
    }
    if (defect.empty()) defect.assign(d.size(), 0.0);
    rows.add_shares(d.data(), defect.data(), share.values.data(), share.defect.empty() ? nullptr : share.defect.data(),
                    d.size());
  }
};

class Sweep {
public:
  /// All deviations must have the same slopes.
  Sweep(const Program& program, const Shadow& shadow, std::span<const Deviation* const> deviations,
        const Setting& setting, std::vector<std::vector<double>>* kept)
      : program_(program),
        shadow_(shadow),
        deviations_(deviations),
        setting_(setting),
        adjoints_(program.size()),
        kept_(kept) {
    if (kept_ != nullptr) kept_->assign(program.size(), {});
    const auto rows = static_cast<std::size_t>(program.rows());
    Certificate empty;
    empty.total.assign(rows, 0.0);
    empty.local.assign(rows, 0.0);
    empty.remainder.assign(rows, 0.0);
    empty.layers.assign(program.flat().of_node.empty() ? 0 : program.flat().of_node.back() + 1,
                        std::vector<double>(rows, 0.0));
    certificates_.assign(deviations.size(), empty);
  }

  void start(ValueId id, const std::vector<double>& c) { adjoints_[id].add({c, {}}, row_kernels()); }

  void pull_back(std::size_t index) {
    const Node& node = program_.nodes()[index];
    if (!adjoints_[node.output].is_present()) return;
    charge(node.output, program_.flat().of_node[index]);
    std::vector<bool> wanted;
    for (const ValueId id : node.inputs) wanted.push_back(program_.varies(id));
    const NodeView view = shadow_.view_of(node);
    std::vector<Transposed> shares =
        transposed(view, deviations_.front()->slopes[index], adjoints_[node.output].d, wanted, setting_);
    for (std::size_t slot = 0; slot < shares.size(); ++slot) {
      if (wanted[slot]) adjoints_[node.inputs[slot]].add(std::move(shares[slot]), row_kernels());
    }
    if (kept_ != nullptr) (*kept_)[node.output] = std::move(adjoints_[node.output].d);
    adjoints_[node.output] = {};
  }

  void charge_input(ValueId id) {
    if (adjoints_[id].is_present()) charge(id, std::nullopt);
  }

  std::vector<Certificate> result() && { return std::move(certificates_); }

private:
  /// Adds |d|.(sigma + kappa) + tau.E of one value to the certificates.
  void charge(ValueId id, std::optional<std::size_t> layer) {
    const Adjoint& adjoint = adjoints_[id];
    for (std::size_t which = 0; which < deviations_.size(); ++which) {
      const Deviation& deviation = *deviations_[which];
      Certificate& certificate = certificates_[which];
      for (std::size_t row = 0; row < certificate.total.size(); ++row) {
        const std::span<const double> d = row_of(id, adjoint.d, row);
        const Magnitude local = charged(id, d, deviation.added[id], row);
        const Magnitude remainder = charged(id, d, deviation.remainder[id], row);
        const Magnitude defect = charged(id, row_of(id, adjoint.defect, row), deviation.radii[id].element, row);
        add(certificate.total[row], theorems::charge(local, remainder, defect));
        add(certificate.local[row], local);
        add(certificate.remainder[row], remainder);
        if (layer) add(certificate.layers[*layer][row], local + remainder);
      }
    }
  }

  /// Returns an upper bound of sum |d_i| x_i by T-08. If some x_i is infinite the sum is infinite, even where d_i = 0.
  Magnitude charged(ValueId id, std::span<const double> d, const std::vector<double>& x, std::size_t row) const {
    if (x.empty() || d.empty()) return Magnitude();
    const double sum = row_kernels().weighted_sum(d.data(), row_of(id, x, row).data(), d.size());
    const auto size = static_cast<std::int64_t>(d.size());
    return Magnitude(theorems::outward(sum, size + 1, size));
  }

  std::span<const double> row_of(ValueId id, const std::vector<double>& values, std::size_t row) const {
    if (program_.rows(id) == 1 || values.empty()) return values;
    const std::size_t size = values.size() / static_cast<std::size_t>(program_.rows(id));
    return std::span(values).subspan(row * size, size);
  }

  static void add(double& sum, Magnitude more) { sum = (Magnitude(sum) + more).value(); }

  const Program& program_;
  const Shadow& shadow_;
  std::span<const Deviation* const> deviations_;
  const Setting& setting_;
  std::vector<Adjoint> adjoints_;
  std::vector<std::vector<double>>* kept_;
  std::vector<Certificate> certificates_;
};

bool have_same_slopes(const Deviation& a, const Deviation& b) {
  for (std::size_t node = 0; node < a.slopes.size(); ++node)
    if (!theorems::same_slopes(a.slopes[node], b.slopes[node])) return false;
  return true;
}

/// Groups the positions of deviations with the same slopes. One adjoint serves each group, since a remainder is valid
/// only with the slopes that it was computed for.
std::vector<std::vector<std::size_t>> by_slopes(std::span<const Deviation> deviations) {
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t which = 0; which < deviations.size(); ++which) {
    const auto alike = std::find_if(groups.begin(), groups.end(), [&](const std::vector<std::size_t>& group) {
      return have_same_slopes(deviations[which], deviations[group.front()]);
    });
    if (alike != groups.end()) {
      alike->push_back(which);
    } else {
      groups.push_back({which});
    }
  }
  return groups;
}

}  // namespace

Direction direction_of(const Program& program, const Shadow& shadow, const std::vector<Seed>& seeds) {
  Direction direction;
  for (const Seed& seed : seeds) {
    std::vector<double> c(shadow.value(seed.value).size(), 0.0);
    const std::size_t row_size = c.size() / static_cast<std::size_t>(program.rows(seed.value));
    for (std::size_t first = 0; first < c.size(); first += row_size)
      c[first + static_cast<std::size_t>(seed.element)] = seed.factor;
    direction.emplace_back(seed.value, std::move(c));
  }
  return direction;
}

std::vector<Certificate> sweep(const Program& program, const Shadow& shadow, std::span<const Deviation> deviations,
                               const Direction& c, const Setting& setting, std::vector<std::vector<double>>* adjoints) {
  std::vector<Certificate> certificates(deviations.size());
  for (std::vector<std::size_t>& alike : by_slopes(deviations)) {
    std::vector<const Deviation*> of_these;
    for (const std::size_t which : alike) of_these.push_back(&deviations[which]);
    Sweep sweep(program, shadow, of_these, setting, alike.front() == 0 ? adjoints : nullptr);
    for (const auto& [value, tensor] : c) sweep.start(value, tensor);
    for (std::size_t node = program.nodes().size(); node-- > 0;) sweep.pull_back(node);
    for (const ValueId input : program.flat().graph.inputs) sweep.charge_input(input);
    std::vector<Certificate> of_alike = std::move(sweep).result();
    for (std::size_t i = 0; i < alike.size(); ++i) certificates[alike[i]] = std::move(of_alike[i]);
  }
  return certificates;
}

}  // namespace driftbound::bounds
